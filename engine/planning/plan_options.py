"""What a plan depends on beside its input, as commands and the library take it and stores record it."""

from typing import NamedTuple

from plans.choices import Choices
from plans.resources.network_options import PROFILES
from plans.resources.task_manager import TaskManager
from plans.vocabulary import Layer, SlotSharingStrategy


class PlanOptions(NamedTuple):
    """The layer to stop after, how the cluster is configured, and both as a store records them."""

    until: Layer
    choices: Choices
    recorded: dict[str, str]


def plan_options(
    until: Layer = Layer.SLOTS,
    slot_sharing: SlotSharingStrategy = SlotSharingStrategy.LOCAL_INPUT_PREFERRED,
    network: str = "flink-2.3",
    slots_per_task_manager: int = 1,
    task_manager_memory: str = "1728m",
) -> PlanOptions:
    """The options of a plan; `network` is a key of PROFILES. Raises ConfigurationError for a wrong value."""
    task_manager = TaskManager(task_manager_memory, slots_per_task_manager)
    recorded = {
        "until": until.value,
        "slot_sharing": slot_sharing.value,
        "network": network,
        "slots_per_task_manager": str(slots_per_task_manager),
        "task_manager_memory": task_manager_memory,
    }
    return PlanOptions(until, Choices(slot_sharing, PROFILES[network], task_manager), recorded)
