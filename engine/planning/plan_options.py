"""Options of a plan from the options of commands, the arguments of calls and the configuration."""

from dataclasses import replace

from penstock.engine.configuration.cluster_options import NO_CLUSTER_SETTINGS, ClusterSettings, size_text
from penstock.plans.errors import ConfigurationError
from penstock.plans.layers import PlanOptions
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.resources.memory_and_buffers import PROFILES
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.operator_rules import MAX_PARALLELISM
from penstock.plans.vocabulary import DEFAULT_SLOT_SHARING_STRATEGY, Layer, SlotSharingStrategy

DEFAULT_SLOTS = 1
DEFAULT_PROCESS_SIZE = "1728m"


def plan_options(
    until: Layer = Layer.SLOTS,
    slot_sharing: SlotSharingStrategy | None = None,
    network: str = "flink-2.3",
    slots_per_task_manager: int | None = None,
    task_manager_memory: str | None = None,
    parallelism: int | None = None,
    *,
    cluster: ClusterSettings = NO_CLUSTER_SETTINGS,
    job_defaults: JobDefaults = NO_DEFAULTS,
    max_line_bytes: int = MAX_LINE_BYTES,
) -> PlanOptions:
    """Return the options of a plan; `network` is a key of PROFILES.

    `parallelism` replaces the default parallelism of all topologies; operators that set their own keep it. If
    an argument is None, `cluster` decides, else Flink's default. Raises ConfigurationError for a wrong value,
    also if an argument and `cluster` are wrong only together.
    """
    sharing = slot_sharing or cluster.slot_sharing or DEFAULT_SLOT_SHARING_STRATEGY
    slots = slots_per_task_manager if slots_per_task_manager is not None else cluster.slots or DEFAULT_SLOTS
    task_manager = configured_task_manager(cluster, slots, task_manager_memory)
    recorded = {
        "until": until.value,
        "slot_sharing": sharing.value,
        "network": network,
        "slots_per_task_manager": str(slots),
        "task_manager_memory": task_manager.process_size or size_text(task_manager.process_bytes),
        **cluster.recorded,
        **({} if parallelism is None else {"parallelism": str(parallelism)}),
    }
    if parallelism is not None:
        if not 1 <= parallelism <= MAX_PARALLELISM:
            raise ConfigurationError(f"parallelism must be 1 to {MAX_PARALLELISM}, got {parallelism}")
        job_defaults = job_defaults._replace(asked_parallelism=parallelism)
    return PlanOptions(
        until,
        sharing,
        replace(PROFILES[network], **cluster.network),
        task_manager,
        job_defaults=job_defaults,
        max_line_bytes=max_line_bytes,
        recorded=recorded,
    )


def configured_task_manager(
    cluster: ClusterSettings, slots: int, process_size: str | None = None
) -> TaskManager:
    """Return the TaskManager configured by `cluster`; `process_size`, if given, wins.

    Raises ConfigurationError if its memory cannot be divided.
    """
    if process_size is None:
        follows = cluster.process_size is None and cluster.memory.decides_process_size
        process_size = None if follows else cluster.process_size or DEFAULT_PROCESS_SIZE
    return TaskManager(process_size, slots, cluster.memory, cluster.state_backend)
