"""Options of a command beside settings of the configuration that say something else."""

from collections.abc import Mapping
from typing import Any

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.output.pieces import Styled
from penstock.engine.output.redaction import redact_value
from penstock.engine.output.say import say_beside_output
from penstock.plans.vocabulary import SlotSharingStrategy

_NO_SETTINGS: Mapping[str, str] = {}


def say_what_is_overridden(
    configuration: EffectiveConfiguration,
    *,
    slot_sharing: SlotSharingStrategy | None = None,
    slots_per_task_manager: int | None = None,
    task_manager_memory: str | None = None,
    parallelism: int | None = None,
    master: str | None = None,
    py_files: str | None = None,
    spark: Mapping[str, str] = _NO_SETTINGS,
) -> None:
    """Say for each option that differs from the configuration which of the two is used, and why.

    `spark`: properties that --properties-file and --conf set.
    """
    cluster = configuration.cluster
    pairs: list[tuple[str, Any, str, Any]] = [
        ("--slot-sharing", slot_sharing, "taskmanager.load-balance.mode", cluster.slot_sharing),
        ("--slots-per-task-manager", slots_per_task_manager, "taskmanager.numberOfTaskSlots", cluster.slots),
        (
            "--task-manager-memory",
            task_manager_memory,
            "taskmanager.memory.process.size",
            cluster.process_size,
        ),
        ("-p", parallelism, "parallelism.default", configuration.job_defaults.parallelism),
        ("--py-files", py_files, "python.files", configuration.scripts.get("python.files")),
        ("--master", master, "spark.master", configuration.spark.get("spark.master")),
        *(
            (f"--conf {key}", value, key, configuration.spark[key])
            for key, value in spark.items()
            if key in configuration.spark
        ),
    ]
    for option, of_command, key, configured in pairs:
        setting = configuration.settings.get(key)
        if of_command is None or setting is None or of_command == configured:
            continue
        shown = (redact_value(key, str(of_command)), redact_value(key, setting.text))
        said = f"{option} {shown[0]} is used, not {setting.key} {shown[1]} ({setting.place})"
        say_beside_output(Styled(f"{said}: options of a command win over the configuration", "dim"))
