"""Options of a command beside settings of the configuration that say something else."""

from typing import Any

from engine.configuration.effective_configuration import EffectiveConfiguration
from engine.output.pieces import Styled
from engine.output.say import say_beside_output
from plans.vocabulary import SlotSharingStrategy


def say_what_is_overridden(
    configuration: EffectiveConfiguration,
    slot_sharing: SlotSharingStrategy | None = None,
    slots_per_task_manager: int | None = None,
    task_manager_memory: str | None = None,
) -> None:
    """Say for each option that differs from the configuration which of the two is used, and why."""
    cluster = configuration.cluster
    pairs: tuple[tuple[str, Any, str, Any], ...] = (
        ("--slot-sharing", slot_sharing, "taskmanager.load-balance.mode", cluster.slot_sharing),
        (
            "--slots-per-task-manager",
            slots_per_task_manager,
            "taskmanager.numberOfTaskSlots",
            cluster.slots,
        ),
        (
            "--task-manager-memory",
            task_manager_memory,
            "taskmanager.memory.process.size",
            cluster.process_size,
        ),
    )
    for option, given, key, configured in pairs:
        if given is None or configured is None or given == configured:
            continue
        setting = configuration.settings[key]
        say_beside_output(
            Styled(
                f"{option} {given} is used, not {setting.key} {setting.text} ({setting.place}): options of a "
                "command win over the configuration",
                "dim",
            )
        )
