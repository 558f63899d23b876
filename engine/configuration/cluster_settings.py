"""What the configuration says of the cluster that jobs are planned for."""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.plans.resources.memory_options import FLINK_MEMORY, MemoryOptions
from penstock.plans.vocabulary import SlotSharingStrategy


class ClusterSettings(NamedTuple):
    """None, or nothing in a map, is what nobody has set.

    `network`: fields of NetworkOptions by name. `recorded`: what a store records of the plan's cluster beside
    what the options of a command say.
    """

    slot_sharing: SlotSharingStrategy | None = None
    slots: int | None = None
    process_size: str | None = None
    memory: MemoryOptions = FLINK_MEMORY
    network: Mapping[str, int] = {}
    state_backend: str | None = None
    recorded: Mapping[str, str] = {}


NO_CLUSTER_SETTINGS = ClusterSettings()
"""Nothing is set."""
