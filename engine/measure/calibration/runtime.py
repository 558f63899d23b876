"""The runtimes that constants can be measured on."""

from enum import StrEnum


class Runtime(StrEnum):
    """Where constants are measured."""

    FLINK = "flink"  #: the MiniCluster of the real Flink
    PENSTOCK = "penstock"  #: Penstock's own runtime, on Spark


STAGES = {Runtime.FLINK: 3, Runtime.PENSTOCK: 20}
"""Steps that a calibration reports: clusters, or runs."""
