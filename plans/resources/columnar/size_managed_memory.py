"""The amount of a slot's managed memory that each operator may use."""

from decimal import Decimal
from functools import cache
from itertools import compress, product

import polars as pl

from penstock.plans.frames.polars_frames import empty, join_topology
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import JobType, ManagedMemoryUseCase

# Use cases, state backends and fractions of managed memory, for both planners.


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

    Columns and source: see joins.size_managed_memory.

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

    Columns and source: see joins.size_managed_memory.
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
