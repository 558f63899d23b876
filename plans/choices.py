"""What a plan depends on besides the job."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from plans.resources.network_options import FLINK_2_3, NetworkOptions
from plans.resources.task_manager import TaskManager
from plans.vocabulary import SlotSharingStrategy

if TYPE_CHECKING:
    import polars as pl

    from plans.policies.decisions import Decision


@dataclass(frozen=True, slots=True)
class Choices:
    """What the slots layer depends on besides the job: how Flink's cluster is configured.

    `decided` is what planners of others decided in place of Flink's rules: of each decision the answers that
    were checked (see plans.policies). Only the columnar planner follows it.
    """

    slot_sharing_strategy: SlotSharingStrategy = SlotSharingStrategy.LOCAL_INPUT_PREFERRED
    network: NetworkOptions = FLINK_2_3
    task_manager: TaskManager = field(default_factory=TaskManager)
    decided: "tuple[tuple[Decision, pl.DataFrame], ...]" = ()
