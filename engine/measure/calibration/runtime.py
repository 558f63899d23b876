"""Runtimes on which constants can be measured."""

from enum import StrEnum


class Runtime(StrEnum):
    """Values of --on, the runtime on which constants are measured."""

    FLINK = "flink"  #: the MiniCluster of the real Flink
    PENSTOCK = "penstock"  #: Penstock's own runtime, on Spark


STAGES = {Runtime.FLINK: 3, Runtime.PENSTOCK: 20}
"""Number of stages that a calibration reports: clusters, or runs."""
