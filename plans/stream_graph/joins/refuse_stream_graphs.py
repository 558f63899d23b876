"""Topologies that Flink refuses while it translates transformations."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.errors import ILLEGAL_ARGUMENT, ILLEGAL_STATE, UNSUPPORTED_OPERATION
from penstock.plans.frames.spark_frames import join_local
from penstock.plans.frames.spark_refusals import first_refusals, refusals
from penstock.plans.stream_graph.joins.refuse_settings import (
    first_uses,
    refuse_settings,
    with_target_transformation,
)
from penstock.plans.stream_graph.refuse_settings import BEFORE_INPUTS, EDGES, INPUT_COUNT, MEMORY, UID
from penstock.plans.stream_graph.refuse_stream_graphs import (
    CONFLICTING_WEIGHTS,
    FORWARD_CHANGES_PARALLELISM,
    MAX_INPUTS,
    MISSING_UID,
    STEP_HAS_UID,
    TOO_MANY_INPUTS,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import SOURCE_KINDS, JobType, Kind, Layer, ManagedMemoryUseCase


def refuse_stream_graphs(
    expanded_transformations: DataFrame,
    resolved_inputs: DataFrame,
    marked_edges: DataFrame,
    stream_edges: DataFrame,
    job_settings: DataFrame,
) -> DataFrame:
    """One row per refused topology (see first_refusals).

    In: expanded_transformations, resolved_inputs, marked_edges, stream_edges, job_settings. Flink translates
    operators in creation order, each one's sources just before it; it raises what it meets first on that way.
    What only some settings refuse is not looked for where no job has them.

    Source: StreamGraph.createActualEdge, SinkTransformationTranslator.SinkExpander,
    StreamGraphUtils.validateTransformationUid,
    MultipleInputSelectionHandler.checkSupportedInputCount,
    ManagedMemoryUtils.validateUseCaseWeightsNotConflict.

    Example: tests/passes/fixtures/stream_graph_refusals.txt.
    """
    return first_refusals(
        [
            _forward_changes(marked_edges, expanded_transformations),
            *_missing_uids(expanded_transformations, resolved_inputs, job_settings),
            *_uids_of_steps(expanded_transformations),
            _too_many_inputs(expanded_transformations),
            *_conflicting_weights(expanded_transformations, resolved_inputs, job_settings),
            *refuse_settings(expanded_transformations, resolved_inputs, stream_edges, job_settings),
        ]
    )


def _forward_changes(marked_edges: DataFrame, expanded_transformations: DataFrame) -> DataFrame:
    changes = marked_edges.filter(
        (F.col("partitioner") == "FORWARD") & (F.col("source_parallelism") != F.col("target_parallelism"))
    )
    changes = with_target_transformation(changes, expanded_transformations)
    before, of_source, downstream, of_target, behind = map(F.lit, FORWARD_CHANGES_PARALLELISM)
    message = F.concat(
        before,
        F.concat_ws("-", "source_name", F.col("source").cast("string")),
        of_source,
        "source_parallelism",
        downstream,
        F.concat_ws("-", "target_name", F.col("target").cast("string")),
        of_target,
        "target_parallelism",
        behind,
    )
    turn = F.coalesce("target_transformation", "target")
    order = [turn, F.col("target"), F.lit(EDGES), F.col("in_index")]
    location = F.concat(F.lit("edge "), "edge_id")
    return refusals(changes, Layer.STREAM_GRAPH, order, UNSUPPORTED_OPERATION, message, location)


def _missing_uids(
    expanded_transformations: DataFrame, resolved_inputs: DataFrame, job_settings: DataFrame
) -> list[DataFrame]:
    strict = job_settings.filter(~F.col("auto_generate_uids")).select(TOPOLOGY)
    if strict.isEmpty():
        return []
    unnamed = expanded_transformations.filter(
        F.col("kind").isin(*OPERATOR_KINDS) & F.col("uid").isNull() & F.col("uid_hash").isNull()
    )
    named = unnamed.select(TOPOLOGY, "id", "transformation", "kind", "name")
    missing = join_local(named, strict, {}, "left_semi")
    first_use = first_uses(join_local(resolved_inputs, strict, {}, "left_semi"), expanded_transformations)
    placed = join_local(missing, first_use, {"id": "source"}, "left")
    is_source = F.col("kind").isin(*SOURCE_KINDS)
    message = F.concat(F.lit(MISSING_UID), "name")
    order = [
        F.when(is_source, F.col("use.target_transformation")).otherwise(F.col("transformation")),
        F.when(is_source, F.col("use.target")).otherwise(F.col("id")),
        F.when(is_source, BEFORE_INPUTS).otherwise(UID),
        F.when(is_source, F.col("use.in_index")).otherwise(0),
        F.lit(UID),
    ]
    translated = placed.filter(~is_source | F.col("use").isNotNull())
    return [refusals(translated, Layer.STREAM_GRAPH, order, ILLEGAL_STATE, message, _transformation())]


def _uids_of_steps(expanded_transformations: DataFrame) -> list[DataFrame]:
    """Refuses sinks whose steps have uids although the sink, and so its writer, has none."""
    steps = expanded_transformations.filter(F.col("id") != F.col("transformation"))
    kind = F.col("kind")
    if steps.isEmpty():
        return []
    sinks = (
        steps.filter(kind != Kind.PARTITION)
        .groupBy(TOPOLOGY, "transformation")
        .agg(
            F.min("id").alias("first"),
            F.bool_or((kind == Kind.ONE_INPUT) & (F.col("uid") != "")).alias("step_has_uid"),
            F.bool_or((kind == Kind.WRITER) & F.col("uid").isNull()).alias("sink_has_none"),
        )
        .filter("step_has_uid AND sink_has_none")
    )
    names = expanded_transformations.select(
        TOPOLOGY, F.col("id").alias("of_sink"), F.col("name").alias("sink_name")
    )
    rows = join_local(sinks, names, {"transformation": "of_sink"})
    before, after = map(F.lit, STEP_HAS_UID)
    message = F.concat(before, "sink_name", after)
    order = [F.col("transformation"), F.col("first"), F.lit(INPUT_COUNT), F.lit(0)]
    return [refusals(rows, Layer.STREAM_GRAPH, order, ILLEGAL_STATE, message, _transformation())]


def _too_many_inputs(expanded_transformations: DataFrame) -> DataFrame:
    wide = expanded_transformations.filter(
        (F.col("kind") == Kind.MULTI_INPUT) & (F.size("inputs") > MAX_INPUTS)
    )
    message = F.concat(F.lit(TOO_MANY_INPUTS), F.size("inputs"))
    order = [F.col("transformation"), F.col("id"), F.lit(INPUT_COUNT), F.lit(0)]
    return refusals(wide, Layer.STREAM_GRAPH, order, ILLEGAL_ARGUMENT, message, _transformation())


def _conflicting_weights(
    expanded_transformations: DataFrame, resolved_inputs: DataFrame, job_settings: DataFrame
) -> list[DataFrame]:
    sorting = job_settings.filter((F.col("job_type") == JobType.BATCH) & F.col("sort_inputs")).select(
        TOPOLOGY, "sorted_inputs_memory_mebibytes"
    )
    if sorting.isEmpty():
        return []
    keyed = resolved_inputs.filter("keyed").select(TOPOLOGY, "target").distinct()
    own = F.col("managed_memory")[ManagedMemoryUseCase.OPERATOR.value]
    weighing = expanded_transformations.filter(F.size("managed_memory") > 0)
    conflicts = join_local(join_local(weighing, keyed, {"id": "target"}, "left_semi"), sorting, {}).filter(
        own != F.col("sorted_inputs_memory_mebibytes")
    )
    before, between, behind = map(F.lit, CONFLICTING_WEIGHTS)
    message = F.concat(before, "sorted_inputs_memory_mebibytes", between, own, behind)
    order = [F.col("transformation"), F.col("id"), F.lit(MEMORY), F.lit(0)]
    return [refusals(conflicts, Layer.STREAM_GRAPH, order, ILLEGAL_STATE, message, _transformation())]


def _transformation() -> Column:
    return F.concat(F.lit("transformation "), "transformation")
