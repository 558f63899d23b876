"""Computes how much of a slot's managed memory each operator may use."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.plans.frames.spark_frames import join_local
from penstock.plans.resources.columnar import (
    BATCH_STATE_BACKEND_ENABLED,
    DEPRECATED_STATE_BACKEND,
    HASHMAP,
    HASHMAP_FACTORY,
    STATE_BACKEND,
    USE_CASES,
    fractions_of_slot,
)
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import JobType, ManagedMemoryUseCase


def size_managed_memory(
    chained_operators: DataFrame, job_settings: DataFrame, *, task_manager: TaskManager
) -> DataFrame:
    """The managed memory of every operator that has a share of its slot's.

    In: chained_operators, job_settings. Out (key topology_id, node, use_case): managed_memory, one row for
    each use case of which the operator has a fraction above 0.

    `fraction` is the operator's among its slot sharing group's consumers of the use case. A slot is divided
    among the use cases of the group by weight: `slot_fraction` is fraction times the use case's weight over
    the weights of the use cases that any operator of the group has. STATE_BACKEND counts only if the job's
    state backend uses managed memory; else it gets 0. Weights are the cluster's (`task_manager.options`): a
    job cannot set them. `bytes` of STATE_BACKEND and PYTHON are shared by all their users in a slot, once;
    those of OPERATOR add up. Sorters take whole pages only, of taskmanager.memory.segment-size.

    Bytes are 0 if the use case has no weight; Flink then refuses to start the operator.

    Source: StreamConfig.getManagedMemoryFractionOperatorUseCaseOfSlot,
    ManagedMemoryUtils.convertToFractionOfSlot, MemoryManager.computeMemorySize.

    Example: tests/passes/fixtures/managed_memory.txt.
    """
    settings = job_settings.select(
        TOPOLOGY,
        state_backend_uses_managed_memory(task_manager.state_backend).alias("managed_state_backend"),
    )
    consumers = chained_operators.filter(F.size("managed_memory_fraction") > 0).select(
        TOPOLOGY, "vertex", "node", "managed_memory_fraction"
    )
    slot_fraction = F.col("fraction") * _memory_of_slot(task_manager)
    return (
        join_local(consumers, settings, {})
        .select(
            TOPOLOGY,
            "vertex",
            "node",
            F.explode("managed_memory_fraction").alias("use_case", "fraction"),
            _active_use_cases().alias("active"),
        )
        .filter(F.col("fraction") > 0)
        .select(
            TOPOLOGY,
            "vertex",
            "node",
            "use_case",
            "fraction",
            slot_fraction.alias("slot_fraction"),
            F.floor(F.lit(float(task_manager.managed_bytes_per_slot)) * slot_fraction).alias("bytes"),
        )
    )


def state_backend_uses_managed_memory(of_cluster: str | None) -> Column:
    """Whether the state backend of a row of job_settings takes managed memory.

    `of_cluster`: state.backend.type of the cluster, or None. A backend that is not Flink's own is taken to
    use it, as Flink does if it cannot load the class; BATCH jobs have a backend of their own, which does
    not, unless execution.batch-state-backend.enabled is false.

    Source: StateBackendLoader.stateBackendFromApplicationOrConfigOrDefaultUseManagedMemory,
    StreamGraphGenerator.setBatchStateBackendAndTimerService.
    """
    config = F.col("config")
    # A key of the cluster beats the deprecated key of the job: the configurations are merged first.
    name = F.coalesce(
        config[STATE_BACKEND], F.lit(of_cluster), config[DEPRECATED_STATE_BACKEND], F.lit(HASHMAP)
    )
    of_batch = (F.col("job_type") == JobType.BATCH.value) & (
        F.lower(F.coalesce(config[BATCH_STATE_BACKEND_ENABLED], F.lit("true"))) == "true"
    )
    return ~of_batch & (F.lower(name) != HASHMAP) & (name != HASHMAP_FACTORY)


def _active_use_cases() -> Column:
    """Bit set of the use cases that share the slot, in the order of `USE_CASES`, the first one highest."""
    bits = F.lit(0)
    for use_case in USE_CASES:
        active = F.col("managed_memory_fraction")[use_case.value].isNotNull()
        if use_case == ManagedMemoryUseCase.STATE_BACKEND:
            active &= F.col("managed_state_backend")
        bits = bits * 2 + active.cast("int")
    return bits


def _memory_of_slot(task_manager: TaskManager) -> Column:
    """The memory that all consumers of a row's use_case together get in a slot with `active` use cases."""
    memory = F.lit(0.0)
    for use_case in USE_CASES:
        fractions = F.array(*map(F.lit, fractions_of_slot(use_case, task_manager)))
        of_use_case = F.element_at(fractions, F.col("active") + 1)
        memory = F.when(F.col("use_case") == use_case.value, of_use_case).otherwise(memory)
    return memory
