"""What a plan depends on besides the job."""

from dataclasses import dataclass, field

from plans.resources.network_options import FLINK_2_3, NetworkOptions
from plans.resources.task_manager import TaskManager
from plans.vocabulary import SlotSharingStrategy


@dataclass(frozen=True, slots=True)
class Choices:
    """What the slots layer depends on besides the job: how Flink's cluster is configured."""

    slot_sharing_strategy: SlotSharingStrategy = SlotSharingStrategy.LOCAL_INPUT_PREFERRED
    network: NetworkOptions = FLINK_2_3
    task_manager: TaskManager = field(default_factory=TaskManager)
