"""Topologies that Flink refuses while it translates transformations."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.errors import ILLEGAL_ARGUMENT, ILLEGAL_STATE, UNSUPPORTED_OPERATION
from penstock.plans.frames.spark_frames import (
    first_refusals,
    join_local,
    refusals,
    refused_settings,
    settings_refused_at,
)
from penstock.plans.stream_graph.columnar.refuse_stream_graphs import (
    AFTER_ALL,
    BEFORE_INPUTS,
    CACHED_FILES,
    CHAINED_MAX_PARALLELISM,
    CHAINING,
    CHAINING_UNREAD,
    CONFLICTING_WEIGHTS,
    EDGES,
    FORWARD_CHANGES_PARALLELISM,
    INPUT_COUNT,
    MAX_INPUTS,
    MAX_PARALLELISM,
    MAX_PARALLELISM_UNREAD,
    MEMORY,
    MISSING_UID,
    STEP_HAS_UID,
    STEP_OF_OPERATOR,
    TOO_MANY_INPUTS,
    UID,
)
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.job_settings import SettingStep
from penstock.plans.vocabulary import SOURCE_KINDS, JobType, Kind, Layer, ManagedMemoryUseCase

# Settings that Flink refuses while it translates transformations, and where on its way it reads them.


def _refuse_settings(
    transformations: DataFrame, resolved_inputs: DataFrame, stream_edges: DataFrame, job_settings: DataFrame
) -> list[DataFrame]:
    """The reasons (see refusals) that settings are, each where Flink reads it first.

    In: transformations, resolved_inputs, stream_edges, job_settings.

    Source: StreamGraphGenerator.transform, SimpleTransformationTranslator.configure,
    BatchExecutionUtils.applyBatchExecutionSettings, StreamingJobGraphGenerator.isChainable.
    """
    settings = refused_settings(job_settings)
    if settings.isEmpty():
        return []
    return [
        _refuse_operator_settings(transformations, resolved_inputs, settings),
        _refuse_input_settings(transformations, resolved_inputs, settings),
        _refuse_cached_files(settings),
        _refuse_edge_settings(stream_edges, settings),
    ]


def _refuse_operator_settings(
    transformations: DataFrame, resolved_inputs: DataFrame, settings: DataFrame
) -> DataFrame:
    """Settings that Flink reads for an operator that does not set the value itself."""
    step = F.col("step")
    reads = (
        ((step == SettingStep.MAX_PARALLELISM) & F.col("max_parallelism").isNull())
        | ((step == SettingStep.BUFFER_TIMEOUT) & (F.coalesce("buffer_timeout", F.lit(-1)) < 0))
        | (step == SettingStep.AUTO_GENERATE_UIDS)
    )
    operators = transformations.filter(F.col("kind").isin(*OPERATOR_KINDS)).select(
        TOPOLOGY, "id", "transformation", "kind", "max_parallelism", "buffer_timeout"
    )
    read = join_local(operators, settings, {}).filter(reads)
    refused = settings.select(TOPOLOGY).distinct()
    first_use = _first_uses(join_local(resolved_inputs, refused, {}, "left_semi"), transformations)
    placed = join_local(read, first_use, {"id": "source"}, "left")
    is_source = F.col("kind").isin(*SOURCE_KINDS)
    own_step = F.coalesce(*(F.when(step == name, F.lit(place)) for name, place in STEP_OF_OPERATOR.items()))
    order = [
        F.when(is_source, F.col("use.target_transformation")).otherwise(F.col("transformation")),
        F.when(is_source, F.col("use.target")).otherwise(F.col("id")),
        F.when(is_source, BEFORE_INPUTS).otherwise(own_step),
        F.when(is_source, F.col("use.in_index")).otherwise(0),
        own_step,
    ]
    translated = placed.filter(~is_source | F.col("use").isNotNull())
    return settings_refused_at(translated, Layer.STREAM_GRAPH, order)


def _refuse_input_settings(
    transformations: DataFrame, resolved_inputs: DataFrame, settings: DataFrame
) -> DataFrame:
    """Virtual transformations have no max parallelism of their own; keyed inputs are sorted in memory."""
    virtual = (
        F.col("partitioner").isNotNull()
        | F.col("output_tag").isNotNull()
        | F.col("selected_names").isNotNull()
        | (F.col("input_degree") > 1)
    )
    inputs = resolved_inputs.select(TOPOLOGY, "target", "in_index", "keyed", virtual.alias("virtual"))
    of_max, of_memory = (
        F.col("step") == step for step in (SettingStep.MAX_PARALLELISM, SettingStep.SORTED_INPUTS_MEMORY)
    )
    read = join_local(inputs, settings, {}).filter((of_max & F.col("virtual")) | (of_memory & F.col("keyed")))
    order = [
        F.col("target_transformation"),
        F.col("target"),
        F.when(of_max, BEFORE_INPUTS).otherwise(MEMORY),
        F.when(of_max, F.col("in_index")).otherwise(0),
        F.lit(MAX_PARALLELISM),
    ]
    placed = _with_target_transformation(read, transformations)
    return settings_refused_at(placed, Layer.STREAM_GRAPH, order)


def _refuse_cached_files(settings: DataFrame) -> DataFrame:
    read = settings.filter(F.col("step") == SettingStep.CACHED_FILES)
    return settings_refused_at(read, Layer.STREAM_GRAPH, [F.lit(AFTER_ALL), F.lit(CACHED_FILES)])


def _refuse_edge_settings(stream_edges: DataFrame, settings: DataFrame) -> DataFrame:
    edges = stream_edges.select(TOPOLOGY, "not_chainable_reasons")
    of_chaining, of_max = (
        F.col("step") == step
        for step in (SettingStep.OPERATOR_CHAINING, SettingStep.CHAIN_DIFFERENT_MAX_PARALLELISM)
    )
    one_input = ~_has_reason(CHAINING_UNREAD)
    read = join_local(edges, settings, {}).filter(
        one_input & (of_chaining | (of_max & ~_has_reason(MAX_PARALLELISM_UNREAD)))
    )
    order = [F.lit(AFTER_ALL), F.when(of_chaining, CHAINING).otherwise(CHAINED_MAX_PARALLELISM)]
    return settings_refused_at(read, Layer.STREAM_GRAPH, order)


def _with_target_transformation(rows: DataFrame, transformations: DataFrame) -> DataFrame:
    """`rows` with `target_transformation`: the transformation that Flink makes the target from.

    Flink translates all operators of a sink together with the sink, regardless of their ids.
    """
    origins = transformations.select(TOPOLOGY, "id", F.col("transformation").alias("target_transformation"))
    return join_local(rows, origins, {"target": "id"}, "left")


def _first_uses(inputs: DataFrame, transformations: DataFrame) -> DataFrame:
    """Each source of resolved `inputs` with `use`, the input for which Flink translates it."""
    return (
        _with_target_transformation(inputs, transformations)
        .groupBy(TOPOLOGY, "source")
        .agg(F.min(F.struct("target_transformation", "target", "in_index")).alias("use"))
    )


def _has_reason(reasons: tuple[NotChainableReason, ...]) -> Column:
    return F.arrays_overlap("not_chainable_reasons", F.array(*(F.lit(reason.value) for reason in reasons)))


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
            *_refuse_settings(expanded_transformations, resolved_inputs, stream_edges, job_settings),
        ]
    )


def _forward_changes(marked_edges: DataFrame, expanded_transformations: DataFrame) -> DataFrame:
    changes = marked_edges.filter(
        (F.col("partitioner") == "FORWARD") & (F.col("source_parallelism") != F.col("target_parallelism"))
    )
    changes = _with_target_transformation(changes, expanded_transformations)
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
    first_use = _first_uses(join_local(resolved_inputs, strict, {}, "left_semi"), expanded_transformations)
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
