"""Physical transformations become stream nodes."""

from itertools import chain

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.operators.kinds import OPERATOR_KINDS, OperatorKind
from penstock.plans.frames.spark_frames import join_local, rename
from penstock.plans.stream_graph.columnar.translate_nodes import ONLY_GIVEN
from penstock.plans.stream_graph.inherit_slot_sharing_groups import DEFAULT_SLOT_SHARING_GROUP
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import SOURCE_KINDS, ChainingStrategy, JobType, Kind, ManagedMemoryUseCase


def _attribute_of_kind(attribute: str) -> Column:
    """The attribute of OperatorKind that belongs to the row's kind."""
    index = OperatorKind._fields.index(attribute)
    pairs = ((F.lit(kind), F.lit(properties[index])) for kind, properties in OPERATOR_KINDS.items())
    return F.create_map(*chain.from_iterable(pairs))[F.col("kind")]


def translate_nodes(
    expanded_transformations: DataFrame,
    job_settings: DataFrame,
    resolved_inputs: DataFrame,
    inherited_groups: DataFrame,
    given_stream_nodes: DataFrame,
) -> DataFrame:
    """The StreamGraph's nodes; nodes of topologies given as StreamGraphs are passed on.

    In: expanded_transformations, job_settings, resolved_inputs, inherited_groups (see
    inherit_slot_sharing_groups), given_stream_nodes (schema STREAM_NODES). Out: stream_nodes. Sources without
    a reader are left out.

    Source: the translators in org.apache.flink.streaming.runtime.translators, SimpleTransformationTranslator,
    BatchExecutionUtils (keyed operators of BATCH jobs sort their input, head a chain and weigh memory).

    Example: tests/passes/fixtures/stream_nodes.txt.
    """
    physical = expanded_transformations.filter(F.col("kind").isin(*OPERATOR_KINDS))
    read = resolved_inputs.select(TOPOLOGY, "source").distinct()
    sources = join_local(
        physical.filter(F.col("kind").isin(*SOURCE_KINDS)), read, {"id": "source"}, "left_semi"
    )
    operators = physical.filter(~F.col("kind").isin(*SOURCE_KINDS)).unionByName(sources)
    keyed = (
        resolved_inputs.filter("keyed").select(TOPOLOGY, "target").distinct().withColumn("keyed", F.lit(True))
    )
    settings = job_settings.select(
        TOPOLOGY,
        F.col("parallelism").alias("job_parallelism"),
        F.col("max_parallelism").alias("job_max_parallelism"),
        F.col("buffer_timeout").alias("job_buffer_timeout"),
        (F.col("job_type") == JobType.BATCH).alias("batch"),
        "sort_inputs",
        "sorted_inputs_memory_mebibytes",
    )
    groups = rename(inherited_groups, id="id", effective_group="slot_sharing_group")
    with_keys = join_local(operators, keyed, {"id": "target"}, "left")
    with_groups = join_local(with_keys, groups, {"id": "id"}, "left")
    return join_local(with_groups, settings, {}).select(*_node_columns()).unionByName(given_stream_nodes)


def _node_columns() -> list[Column | str]:
    kind = F.col("kind")
    sorts = F.col("batch") & F.coalesce("keyed", F.lit(False))
    chaining = F.coalesce("chaining", _attribute_of_kind("chaining"))
    heads_instead = chaining.isin(ChainingStrategy.ALWAYS, ChainingStrategy.HEAD_WITH_SOURCES)
    sorting_weight = F.create_map(
        F.lit(ManagedMemoryUseCase.OPERATOR.value), F.col("sorted_inputs_memory_mebibytes")
    )
    sorts_with_memory = sorts & F.col("sort_inputs")
    state_backend = F.array(F.lit(ManagedMemoryUseCase.STATE_BACKEND.value))
    return [
        TOPOLOGY,
        "id",
        F.concat(_attribute_of_kind("name_prefix"), "name").alias("name"),
        F.coalesce("parallelism", "job_parallelism").alias("parallelism"),
        F.coalesce("max_parallelism", "job_max_parallelism").alias("max_parallelism"),
        F.col("parallelism").isNotNull().alias("parallelism_configured"),
        F.coalesce("effective_group", F.lit(DEFAULT_SLOT_SHARING_GROUP)).alias("slot_sharing_group"),
        "co_location_group",
        "uid",
        "uid_hash",
        F.when(F.col("buffer_timeout") >= 0, F.col("buffer_timeout"))
        .otherwise(F.col("job_buffer_timeout"))
        .alias("buffer_timeout"),
        F.when(sorts & heads_instead, F.lit(ChainingStrategy.HEAD.value))
        .otherwise(chaining)
        .alias("chaining"),
        (kind == Kind.SOURCE).alias("source"),
        (kind == Kind.LEGACY_SOURCE).alias("legacy_source"),
        kind.isin(Kind.ASYNC, Kind.WRITER).alias("yielding"),
        (kind == Kind.SOURCE).alias("coordinated"),
        _attribute_of_kind("invokable").alias("invokable"),
        _attribute_of_kind("operator_factory").alias("operator_factory"),
        F.lit(False).alias("input_format"),
        F.lit(False).alias("output_format"),
        F.lit(False).alias("no_output_until_end_of_input"),
        F.col("concurrent_attempts").alias("supports_concurrent_execution_attempts"),
        F.when(
            sorts_with_memory,
            F.coalesce(F.when(F.size("managed_memory") > 0, F.col("managed_memory")), sorting_weight),
        )
        .otherwise(F.col("managed_memory"))
        .alias("managed_memory"),
        F.when(F.col("keyed"), F.array_union("slot_scope", state_backend))
        .otherwise(F.col("slot_scope"))
        .alias("slot_scope"),
        F.when(sorts_with_memory, F.create_map(F.lit(0), F.lit("SORTED")))
        .otherwise(F.create_map().cast("map<int,string>"))
        .alias("input_requirements"),
        "min_resources",
        "preferred_resources",
        kind.isin(*SOURCE_KINDS).alias("among_sources"),
        F.coalesce("keyed", F.lit(False)).alias("keyed"),
        *(F.lit(None).cast("string").alias(name) for name in ONLY_GIVEN),
        "transformation",
    ]
