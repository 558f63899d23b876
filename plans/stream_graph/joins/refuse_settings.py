"""Settings that Flink refuses while it translates transformations, and where on its way it reads them."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.frames.spark_frames import join_local
from penstock.plans.frames.spark_refusals import refused_settings, settings_refused_at
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from penstock.plans.stream_graph.refuse_settings import (
    AFTER_ALL,
    BEFORE_INPUTS,
    CACHED_FILES,
    CHAINED_MAX_PARALLELISM,
    CHAINING,
    CHAINING_UNREAD,
    MAX_PARALLELISM,
    MAX_PARALLELISM_UNREAD,
    MEMORY,
    STEP_OF_OPERATOR,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.setting_refusals import SettingStep
from penstock.plans.vocabulary import SOURCE_KINDS, Layer


def refuse_settings(
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
    first_use = first_uses(join_local(resolved_inputs, refused, {}, "left_semi"), transformations)
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
    placed = with_target_transformation(read, transformations)
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


def with_target_transformation(rows: DataFrame, transformations: DataFrame) -> DataFrame:
    """`rows` with `target_transformation`: the transformation that Flink makes the target from.

    Flink translates all operators of a sink together with the sink, regardless of their ids.
    """
    origins = transformations.select(TOPOLOGY, "id", F.col("transformation").alias("target_transformation"))
    return join_local(rows, origins, {"target": "id"}, "left")


def first_uses(inputs: DataFrame, transformations: DataFrame) -> DataFrame:
    """Each source of resolved `inputs` with `use`, the input for which Flink translates it."""
    return (
        with_target_transformation(inputs, transformations)
        .groupBy(TOPOLOGY, "source")
        .agg(F.min(F.struct("target_transformation", "target", "in_index")).alias("use"))
    )


def _has_reason(reasons: tuple[NotChainableReason, ...]) -> Column:
    return F.arrays_overlap("not_chainable_reasons", F.array(*(F.lit(reason.value) for reason in reasons)))
