"""What a plan depends on beside its input, as commands and the library take it and stores record it."""

from dataclasses import replace
from typing import NamedTuple

from penstock.engine.configuration.cluster_options import NO_CLUSTER_SETTINGS, ClusterSettings, size_text
from penstock.plans.errors import ConfigurationError, LostTopologiesError
from penstock.plans.layers import Choices
from penstock.plans.resources.columnar.count_network_buffers import PROFILES
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.operator_rules import MAX_PARALLELISM
from penstock.plans.vocabulary import DEFAULT_SLOT_SHARING_STRATEGY, Layer, SlotSharingStrategy

# The promise of every run: what came in is planned or rejected, each exactly once, and readers see it so.


_HINT = "this is a bug in Penstock: please report it with the input"


def require_nothing_lost(inputs: int, planned: int, rejected: int, planned_ids: int) -> None:
    """LostTopologiesError unless `inputs` is `planned` + `rejected`, and each planned one has its own key.

    In: how many topologies came in; the rows of the plan's tables `topologies` and `rejected`, which are what
    export, show and rejected list; how many different topology_ids are in `topologies`. A row of `rejected`
    may have the key of a planned topology (a name that comes twice), so nothing is ever taken out of
    `topologies` by the key of a rejected row.
    """
    if inputs != planned + rejected:
        raise LostTopologiesError(
            f"{inputs} topologies came in, but {planned} are planned and {rejected} rejected", _HINT
        )
    if planned_ids != planned:
        raise LostTopologiesError(
            f"{planned} topologies are planned, but only {planned_ids} different topology_ids",
            _HINT,
        )


DEFAULT_SLOTS = 1
DEFAULT_PROCESS_SIZE = "1728m"


class PlanOptions(NamedTuple):
    """The layer to stop after, how the cluster is configured, and both as a store records them.

    `job_defaults`: what topologies are planned with where they say nothing. Of it, stores record the
    parallelism that was asked for; a topology's fingerprint follows from the rest.
    """

    until: Layer
    choices: Choices
    recorded: dict[str, str]
    job_defaults: JobDefaults = NO_DEFAULTS


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
) -> PlanOptions:
    """The options of a plan; `network` is a key of PROFILES.

    `parallelism`: of all topologies, in place of the one that they set; operators keep their own. An argument
    that is None is as `cluster` says, else Flink's default. Raises ConfigurationError for a wrong
    value, also where an argument and `cluster` are wrong together.
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
            raise ConfigurationError(f"parallelism: found {parallelism}, allowed 1 to {MAX_PARALLELISM}")
        job_defaults = job_defaults._replace(asked_parallelism=parallelism)
    choices = Choices(
        sharing,
        replace(PROFILES[network], **cluster.network),
        task_manager,
    )
    return PlanOptions(until, choices, recorded, job_defaults)


def configured_task_manager(
    cluster: ClusterSettings, slots: int, process_size: str | None = None
) -> TaskManager:
    """A TaskManager as `cluster` says, with a process size that wins over its own.

    Raises ConfigurationError where its memory cannot be divided.
    """
    if process_size is None:
        follows = cluster.process_size is None and cluster.memory.decides_process_size
        process_size = None if follows else cluster.process_size or DEFAULT_PROCESS_SIZE
    return TaskManager(process_size, slots, cluster.memory, cluster.state_backend)
