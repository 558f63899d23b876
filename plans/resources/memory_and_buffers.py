"""The managed memory of operators, and the network buffers of gates, result partitions, tasks and slots."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from itertools import compress, product

import polars as pl

from penstock.plans.errors import ConfigurationError
from penstock.plans.execution_graph.create_intermediate_results import most_subtasks_of_partition
from penstock.plans.frames.polars_frames import empty, join_topology
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import (
    BLOCKING_TYPES,
    HYBRID_TYPES,
    MUST_BE_PIPELINED_TYPES,
    BufferSide,
    JobType,
    ManagedMemoryUseCase,
)
from penstock.plans.vocabulary import ResultPartitionType as Type

# Use cases, state backends and fractions of managed memory.


USE_CASES = tuple(ManagedMemoryUseCase)
_FRACTION_SCALE = 16
STATE_BACKEND = "state.backend.type"
DEPRECATED_STATE_BACKEND = "state.backend"
BATCH_STATE_BACKEND_ENABLED = "execution.batch-state-backend.enabled"
HASHMAP = "hashmap"
HASHMAP_FACTORY = "org.apache.flink.runtime.state.hashmap.HashMapStateBackendFactory"


def fractions_of_slot(use_case: ManagedMemoryUseCase, task_manager: TaskManager) -> list[float]:
    """Return the share of a slot for all consumers of `use_case`, for each bit set of active use cases."""
    options = task_manager.options
    weight = {
        ManagedMemoryUseCase.OPERATOR: options.operator_weight,
        ManagedMemoryUseCase.STATE_BACKEND: options.state_backend_weight,
        ManagedMemoryUseCase.PYTHON: options.python_weight,
    }
    fractions = []
    for bits in product((False, True), repeat=len(USE_CASES)):
        active = set(compress(USE_CASES, bits))
        total = sum(weight[other] for other in active)
        shares = use_case in active and total > 0
        fractions.append(_rounded_down(weight[use_case], total) if shares else 0.0)
    return fractions


def _rounded_down(weight: int, total: int) -> float:
    """weight / total, truncated after the 16th decimal. Source: ManagedMemoryUtils.getFractionRoundedDown."""
    return float(Decimal(weight * 10**_FRACTION_SCALE // total).scaleb(-_FRACTION_SCALE))


_FRACTIONS = "managed_memory_fraction"


def size_managed_memory(
    chained_operators: pl.DataFrame, job_settings: pl.DataFrame, *, task_manager: TaskManager
) -> pl.DataFrame:
    """The managed memory of every operator that has a share of its slot's.

    In: chained_operators, job_settings. Out (key topology_id, node, use_case): managed_memory, one row for
    each use case of which the operator has a fraction above 0.

    `fraction` is the operator's share among the consumers of the use case in its slot sharing group. A slot
    is divided among the use cases of the group by weight: `slot_fraction` is fraction times the use case's
    weight over the weights of the use cases that any operator of the group has. STATE_BACKEND counts only if
    the job's state backend uses managed memory; otherwise it gets 0. Weights are the cluster's
    (`task_manager.options`): a job cannot set them. `bytes` of STATE_BACKEND and PYTHON are shared by all
    their users in a slot, once; `bytes` of OPERATOR add up. Sorters take whole pages only, of
    taskmanager.memory.segment-size. Bytes are 0 if the use case has no weight; Flink then refuses to start
    the operator.

    Source: StreamConfig.getManagedMemoryFractionOperatorUseCaseOfSlot,
    ManagedMemoryUtils.convertToFractionOfSlot, MemoryManager.computeMemorySize.

    Example: tests/passes/fixtures/managed_memory.txt.
    """
    settings = job_settings.select(
        TOPOLOGY,
        state_backend_uses_managed_memory(task_manager.state_backend).alias("managed_state_backend"),
    )
    columns = chained_operators.select(TOPOLOGY, "vertex", "node", _FRACTIONS)
    consumers = columns.filter(pl.col(_FRACTIONS).map.values().list.max() > 0)
    if consumers.is_empty():
        return empty("managed_memory")
    slot_fraction, slot_bytes = pl.col("slot_fraction"), pl.lit(float(task_manager.managed_bytes_per_slot))
    return (
        join_topology(consumers, settings, {})
        .select(
            TOPOLOGY,
            "vertex",
            "node",
            pl.col(_FRACTIONS).map.entries().alias("share"),
            _active_use_cases().alias("active"),
        )
        .explode("share")
        .select(
            TOPOLOGY,
            "vertex",
            "node",
            pl.col("share").struct.field("key").alias("use_case"),
            pl.col("share").struct.field("value").alias("fraction"),
            "active",
        )
        .filter(pl.col("fraction") > 0)
        .with_columns((pl.col("fraction") * _memory_of_slot(task_manager)).alias("slot_fraction"))
        .with_columns((slot_bytes * slot_fraction).floor().cast(pl.Int64).alias("bytes"))
        .drop("active")
    )


def state_backend_uses_managed_memory(cluster_backend: str | None) -> pl.Expr:
    """Return whether the state backend of a row of job_settings takes managed memory.

    Source: StreamConfig.getManagedMemoryFractionOperatorUseCaseOfSlot.
    """
    config = pl.col("config").map
    job_backend, deprecated = config.get(STATE_BACKEND), config.get(DEPRECATED_STATE_BACKEND)
    name = pl.coalesce(job_backend, pl.lit(cluster_backend, pl.String), deprecated, pl.lit(HASHMAP))
    enabled = config.get(BATCH_STATE_BACKEND_ENABLED).fill_null("true").str.to_lowercase()
    is_batch = (pl.col("job_type") == JobType.BATCH.value) & (enabled == "true")
    return ~is_batch & (name.str.to_lowercase() != HASHMAP) & (name != HASHMAP_FACTORY)


@cache
def _active_use_cases() -> pl.Expr:
    """Return the bit set of the use cases that share the slot, in the order of `USE_CASES`, the first one
    highest.
    """
    bits = pl.lit(0, pl.Int32)
    for use_case in USE_CASES:
        active = pl.col(_FRACTIONS).map.get(use_case.value).is_not_null()
        if use_case == ManagedMemoryUseCase.STATE_BACKEND:
            active &= pl.col("managed_state_backend")
        bits = bits * 2 + active.cast(pl.Int32)
    return bits


@cache
def _memory_of_slot(task_manager: TaskManager) -> pl.Expr:
    """Return the share of a slot for all consumers of a row's use_case together, given the `active` use
    cases.
    """
    memory = pl.lit(0.0)
    for use_case in USE_CASES:
        fractions = fractions_of_slot(use_case, task_manager)
        share = pl.col("active").replace_strict(dict(enumerate(fractions)), return_dtype=pl.Float64)
        memory = pl.when(pl.col("use_case") == use_case.value).then(share).otherwise(memory)
    return memory


# The options that determine the number of network buffers of a task.


_MOST_CHANNELS = 1 << 15
_MAX_INT = 2**31 - 1
_MIN_SEGMENT_SIZE = 4096


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """Buffers by option; the defaults are Flink 2.3's.

    Some options are constants in Flink 2.3, as stated below; their keys are Flink 1.20's.

    Raises ConfigurationError if Flink would refuse a value or count beyond 32 bits.

    Source: NettyShuffleEnvironmentOptions, TaskManagerOptions,
    NettyShuffleEnvironmentConfiguration.fromConfiguration, NettyShuffleMaster.
    """

    buffers_per_channel: int = 2
    """taskmanager.network.memory.buffers-per-channel (constant in 2.3): buffers owned by an input channel,
    and added per subpartition to the bound of a bounded result partition."""

    floating_buffers_per_gate: int = 8
    """taskmanager.network.memory.floating-buffers-per-gate (constant in 2.3): buffers shared by the channels
    of a gate, and added to the bound of a bounded result partition."""

    max_required_buffers_per_gate: int | None = None
    """taskmanager.network.memory.read-buffer.required-per-gate.max: a gate requires at most this many of the
    buffers it wants; the rest is optional. None, the default: 1000 for BLOCKING, BLOCKING_PERSISTENT and
    PIPELINED_APPROXIMATE, no limit for the others."""

    sort_shuffle_min_parallelism: int = 1
    """taskmanager.network.sort-shuffle.min-parallelism (constant in 2.3): blocking result partitions with at
    least this many subpartitions are written by sort-shuffle, others by hash-shuffle."""

    sort_shuffle_min_buffers: int = 512
    """taskmanager.network.sort-shuffle.min-buffers: buffers required by a result partition of a
    sort-shuffle."""

    max_overdraft_buffers_per_gate: int = 20
    """taskmanager.network.memory.max-overdraft-buffers-per-gate (constant in 2.3): buffers that a pipelined
    result partition may take above its bound to finish a started record."""

    segment_size_bytes: int = 32 * 2**10
    """taskmanager.memory.segment-size: bytes per buffer."""

    def __post_init__(self) -> None:
        """Raise ConfigurationError for values out of range."""
        least = {
            "buffers_per_channel": 0,
            "floating_buffers_per_gate": 1,
            "max_required_buffers_per_gate": 1,
            "sort_shuffle_min_parallelism": 1,
            "sort_shuffle_min_buffers": 1,
            "max_overdraft_buffers_per_gate": 0,
            "segment_size_bytes": _MIN_SEGMENT_SIZE,
        }
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and not lowest <= value <= _MAX_INT:
                raise ConfigurationError(f"{name} must be {lowest} to {_MAX_INT}, got {value}")
        if self.segment_size_bytes & (self.segment_size_bytes - 1):
            raise ConfigurationError(
                f"segment_size_bytes must be a power of two, got {self.segment_size_bytes}",
                "32768 is Flink's default",
            )
        if _MOST_CHANNELS * self.buffers_per_channel + self.floating_buffers_per_gate > _MAX_INT:
            raise ConfigurationError(
                f"buffers_per_channel * {_MOST_CHANNELS} + floating_buffers_per_gate must be at most "
                f"{_MAX_INT}, got {self.buffers_per_channel} and {self.floating_buffers_per_gate}",
                "Flink's defaults are 2 and 8",
            )


FLINK_2_3 = NetworkOptions()
"""The defaults of Flink 2.3.0."""

FLINK_1_20 = replace(FLINK_2_3, max_overdraft_buffers_per_gate=5)
"""The defaults of Flink 1.20.0."""

PROFILES: Mapping[str, NetworkOptions] = {"flink-2.3": FLINK_2_3, "flink-1.20": FLINK_1_20}
"""Name of a version to its defaults."""


_BOUNDED = (Type.PIPELINED_BOUNDED, Type.PIPELINED_APPROXIMATE)
_MAX_REQUIRED_BUFFERS_PER_GATE_FOR_BATCH = 1000


def count_network_buffers(placed_edges: pl.DataFrame, *, network: NetworkOptions = FLINK_2_3) -> pl.DataFrame:
    """The buffers of every gate and result partition, for the task of each vertex with the most channels.

    In: placed_edges (see place_job_edges); all data about data sets comes from their first edges. Out (key
    topology_id, vertex, side, index): network_buffers.

    The figures are those that Flink announces for a graph that is not dynamic: a data set has a subpartition
    for each subtask of its consumer, and a gate has a channel for each partition it reads. They differ from
    the running task if
    - a producer runs on the same TaskManager: its local channel takes no buffers of its own;
    - the cluster's execution.batch-shuffle-mode is a hybrid shuffle, which uses tiered storage: BLOCKING
      becomes HYBRID_FULL, a gate of hybrid data requires 1000 buffers at most, and a partition of n
      subpartitions that is not sort-shuffled requires min(n + 1, guaranteed), where the memory tier
      guarantees 100 buffers and the disk and remote tiers 1 each;
    - the graph is dynamic: a partition then has as many subpartitions as its consumer may get subtasks (one,
      if it is broadcast or forward), and a channel may read a range of them.

    `target` and `announced` are null if Flink sets no bound; for PIPELINED and hybrid result partitions,
    Flink refuses to announce (fine-grained resource management then fails with IllegalArgumentException).

    Source: InputGateSpecUtils.createGateBuffersSpec,
    NettyShuffleUtils.getMinMaxNetworkBuffersPerResultPartition, getNumBuffersToAnnounceForResultPartition;
    SsgNetworkMemoryCalculationUtils, EdgeManagerBuildUtil.computeMaxEdgesToTargetExecutionVertex;
    ResultPartitionFactory.isOverdraftBufferNeeded.

    Example: tests/passes/fixtures/network_buffers.txt.
    """
    gates = _ends(
        placed_edges, BufferSide.GATE, "target_vertex", "input_index", _most_edges("producers", "consumers")
    )
    partitions = _ends(
        placed_edges.filter(pl.col("consumer_index") == 0),
        BufferSide.RESULT_PARTITION,
        "source_vertex",
        "output_index",
        _most_edges("consumers", "producers"),
    )
    return pl.concat(
        [
            _with_figures(gates, _gate_figures(network)),
            _with_figures(partitions, _result_partition_figures(network)),
        ]
    )


def _ends(edges: pl.DataFrame, side: BufferSide, vertex: str, index: str, channels: pl.Expr) -> pl.DataFrame:
    return edges.select(
        TOPOLOGY,
        "result_partition_type",
        pl.col(vertex).alias("vertex"),
        pl.lit(side.value).alias("side"),
        pl.col(index).alias("index"),
        channels.alias("channels"),
    )


def _with_figures(ends: pl.DataFrame, figures: dict[str, pl.Expr]) -> pl.DataFrame:
    return ends.select(
        pl.exclude("result_partition_type"),
        *(figure.cast(pl.Int32).alias(name) for name, figure in figures.items()),
    )


def _most_edges(far_parallelism: str, near_parallelism: str) -> pl.Expr:
    """Return the most tasks of the far end that are connected with one task of the near end."""
    far, near = pl.col(far_parallelism), pl.col(near_parallelism)
    return pl.when("all_to_all").then(far).otherwise(most_subtasks_of_partition(near, far))


def _gate_figures(network: NetworkOptions) -> dict[str, pl.Expr]:
    channels = pl.col("channels")
    exclusive = channels * network.buffers_per_channel
    wanted = exclusive + 1
    if network.max_required_buffers_per_gate is not None:
        required = pl.min_horizontal(wanted, network.max_required_buffers_per_gate)
    else:
        batch_required = pl.min_horizontal(wanted, _MAX_REQUIRED_BUFFERS_PER_GATE_FOR_BATCH)
        required = (
            pl.when(_is(*MUST_BE_PIPELINED_TYPES, *HYBRID_TYPES)).then(wanted).otherwise(batch_required)
        )
    target = exclusive + network.floating_buffers_per_gate
    # At least one floating buffer, which a local channel needs to recover.
    per_channel = (required - 1) // channels
    return {
        "exclusive_per_channel": pl.min_horizontal(network.buffers_per_channel, per_channel),
        "required": required,
        "target": target,
        "announced": target,
        "overdraft": pl.lit(0),
    }


def _result_partition_figures(network: NetworkOptions) -> dict[str, pl.Expr]:
    subpartitions = pl.col("channels")
    is_sort_shuffle = _is(*BLOCKING_TYPES) & (subpartitions >= network.sort_shuffle_min_parallelism)
    required = pl.when(is_sort_shuffle).then(network.sort_shuffle_min_buffers).otherwise(subpartitions + 1)
    bound = subpartitions * network.buffers_per_channel + network.floating_buffers_per_gate
    target = (
        pl.when(_is(*_BOUNDED))
        .then(pl.max_horizontal(required, bound))
        .when(is_sort_shuffle)
        .then(pl.max_horizontal(required, subpartitions * 4))
    )
    return {
        "exclusive_per_channel": pl.lit(0),
        "required": required,
        "target": target,
        "announced": pl.when(_is(*BLOCKING_TYPES)).then(required).otherwise(target),
        "overdraft": pl.when(_is(*MUST_BE_PIPELINED_TYPES))
        .then(network.max_overdraft_buffers_per_gate)
        .otherwise(0),
    }


def _is(*types: Type) -> pl.Expr:
    return pl.col("result_partition_type").is_in([t.value for t in types])


FIGURES = ("required", "target", "announced")
"""Figures of network buffers that are summed over a task."""


def task_network_buffers(
    network_buffers: pl.DataFrame, job_vertices: pl.DataFrame, *, network: NetworkOptions = FLINK_2_3
) -> pl.DataFrame:
    """The buffers of all gates and result partitions of a task, for the vertex's largest task.

    In: network_buffers (see count_network_buffers), counted with the same `network`; job_vertices (vertex,
    slot_sharing_group). Out (key topology_id, vertex): slot_sharing_group, gates, result_partitions, and
    `required`, `target`, `announced` in buffers and, with the suffix _bytes, in bytes. A vertex without edges
    has zeros. A figure is null if one of its summands is not bounded.

    Flink adds `announced_bytes` to the resource profile of the vertex's slot sharing group, if the author
    gave the group one (fine-grained resource management); otherwise tasks take buffers from the TaskManager's
    pool on demand, between required and target.

    Source: NettyShuffleUtils.computeNetworkBuffersForAnnouncing, NettyShuffleMaster.
    """
    is_gate = pl.col("side") == BufferSide.GATE.value
    sums = network_buffers.group_by(TOPOLOGY, "vertex").agg(
        is_gate.sum().alias("gates"),
        (~is_gate).sum().alias("result_partitions"),
        *(_sum_if_bounded(figure) for figure in FIGURES),
    )
    vertices = job_vertices.select(TOPOLOGY, "vertex", "slot_sharing_group")
    joined = join_topology(vertices, sums, {"vertex": "vertex"}, "left")
    has_none = pl.col("gates").is_null()
    return joined.select(
        *vertices.columns,
        *(pl.col(name).fill_null(0).cast(pl.Int32) for name in ("gates", "result_partitions")),
        *(pl.when(has_none).then(0).otherwise(figure).cast(pl.Int64).alias(figure) for figure in FIGURES),
    ).with_columns(_bytes(network))


def slot_network_buffers(
    task_network_buffers: pl.DataFrame, *, network: NetworkOptions = FLINK_2_3
) -> pl.DataFrame:
    """The buffers of a slot with a task of every vertex of its slot sharing group, an upper bound for its
    slots.

    In: task_network_buffers, with the same `network`. Out (key topology_id, slot_sharing_group): vertices,
    and the figures as in task_network_buffers.

    Source: SsgNetworkMemoryCalculationUtils.enrichNetworkMemory.
    """
    sums = task_network_buffers.group_by(TOPOLOGY, "slot_sharing_group").agg(
        pl.len().cast(pl.Int32).alias("vertices"), *(_sum_if_bounded(figure) for figure in FIGURES)
    )
    return sums.with_columns(_bytes(network))


def _sum_if_bounded(figure: str) -> pl.Expr:
    total = pl.col(figure).cast(pl.Int64).sum()
    return pl.when(pl.col(figure).is_not_null().all()).then(total).alias(figure)


def _bytes(network: NetworkOptions) -> list[pl.Expr]:
    return [(pl.col(figure) * network.segment_size_bytes).alias(f"{figure}_bytes") for figure in FIGURES]
