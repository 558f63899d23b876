"""Settings that Flink refuses while it translates transformations, and where on its way it reads them."""

import polars as pl

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.frames.polars_frames import join_topology
from penstock.plans.frames.polars_refusals import refused_settings, settings_refused_at
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

_STEP = pl.col("step")


def refuse_settings_of_transformations(
    transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, job_settings: pl.DataFrame
) -> list[pl.DataFrame]:
    """The reasons that settings are, where Flink reads them for transformations.

    Columns and source: see joins.refuse_settings.
    """
    settings = refused_settings(job_settings)
    if settings.is_empty():
        return []
    return [
        _refuse_operator_settings(transformations, resolved_inputs, settings),
        _refuse_input_settings(transformations, resolved_inputs, settings),
        _refuse_cached_files(settings),
    ]


def refuse_settings_of_edges(stream_edges: pl.DataFrame, job_settings: pl.DataFrame) -> list[pl.DataFrame]:
    """The reasons that settings are, where Flink reads them for edges.

    As plans.stream_graph.joins.refuse_settings.
    """
    settings = refused_settings(job_settings)
    return [] if settings.is_empty() else [_refuse_edge_settings(stream_edges, settings)]


def _refuse_operator_settings(
    transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, settings: pl.DataFrame
) -> pl.DataFrame:
    """Settings that Flink reads for an operator that does not set the value itself."""
    reads = (
        ((_STEP == SettingStep.MAX_PARALLELISM) & pl.col("max_parallelism").is_null())
        | ((_STEP == SettingStep.BUFFER_TIMEOUT) & (pl.col("buffer_timeout").fill_null(-1) < 0))
        | (_STEP == SettingStep.AUTO_GENERATE_UIDS)
    )
    operators = transformations.select(
        TOPOLOGY, "id", "transformation", "kind", "max_parallelism", "buffer_timeout"
    ).filter(pl.col("kind").is_in(list(OPERATOR_KINDS)))
    read = _joined(operators, settings).filter(reads)
    uses = resolved_inputs.filter(pl.col("out_index") == 0).select(TOPOLOGY, "source", "target", "in_index")
    placed = with_target_transformation(join_topology(read, uses, {"id": "source"}, "left"), transformations)
    is_source = pl.col("kind").is_in(sorted(SOURCE_KINDS))
    own_step = _STEP.replace_strict(
        {str(step): place for step, place in STEP_OF_OPERATOR.items()}, return_dtype=pl.Int32
    )
    order = [
        pl.when(is_source).then("target_transformation").otherwise("transformation"),
        pl.when(is_source).then("target").otherwise("id"),
        pl.when(is_source).then(BEFORE_INPUTS).otherwise(own_step),
        pl.when(is_source).then("in_index").otherwise(0),
        own_step,
    ]
    translated = placed.filter(~is_source | pl.col("target").is_not_null())
    return settings_refused_at(translated, Layer.STREAM_GRAPH, order)


def _refuse_input_settings(
    transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, settings: pl.DataFrame
) -> pl.DataFrame:
    """Virtual transformations have no max parallelism of their own; keyed inputs are sorted in memory."""
    virtual = (
        pl.col("partitioner").is_not_null()
        | pl.col("output_tag").is_not_null()
        | pl.col("selected_names").is_not_null()
        | (pl.col("input_degree") > 1)
    )
    of_max, of_memory = (
        step == _STEP for step in (SettingStep.MAX_PARALLELISM, SettingStep.SORTED_INPUTS_MEMORY)
    )
    inputs = resolved_inputs.select(TOPOLOGY, "target", "in_index", "keyed", virtual.alias("virtual"))
    read = _joined(inputs, settings).filter((of_max & pl.col("virtual")) | (of_memory & pl.col("keyed")))
    order = [
        pl.col("target_transformation"),
        pl.col("target"),
        pl.when(of_max).then(BEFORE_INPUTS).otherwise(MEMORY),
        pl.when(of_max).then("in_index").otherwise(0),
        pl.lit(MAX_PARALLELISM),
    ]
    placed = with_target_transformation(read, transformations)
    return settings_refused_at(placed, Layer.STREAM_GRAPH, order)


def _refuse_cached_files(settings: pl.DataFrame) -> pl.DataFrame:
    read = settings.filter(_STEP == SettingStep.CACHED_FILES)
    return settings_refused_at(read, Layer.STREAM_GRAPH, [pl.lit(AFTER_ALL), pl.lit(CACHED_FILES)])


def _refuse_edge_settings(stream_edges: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    of_chaining, of_max = (
        step == _STEP for step in (SettingStep.OPERATOR_CHAINING, SettingStep.CHAIN_DIFFERENT_MAX_PARALLELISM)
    )
    read = _joined(stream_edges.select(TOPOLOGY, "not_chainable_reasons"), settings).filter(
        ~_has_reason(CHAINING_UNREAD) & (of_chaining | (of_max & ~_has_reason(MAX_PARALLELISM_UNREAD)))
    )
    order = [pl.lit(AFTER_ALL), pl.when(of_chaining).then(CHAINING).otherwise(CHAINED_MAX_PARALLELISM)]
    return settings_refused_at(read, Layer.STREAM_GRAPH, order)


def with_target_transformation(rows: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """`rows` with `target_transformation`: the transformation that Flink makes the target from.

    Flink translates all operators of a sink together with the sink, regardless of their ids.
    """
    origins = nodes.select(TOPOLOGY, "id", target_transformation="transformation")
    return join_topology(rows, origins, {"target": "id"}, "left")


def _joined(rows: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """Each row once for each refused setting of its topology."""
    return rows.join(settings, on=TOPOLOGY)


def _has_reason(reasons: tuple[NotChainableReason, ...]) -> pl.Expr:
    listed = pl.col("not_chainable_reasons").cast(pl.List(pl.String))
    return pl.any_horizontal(listed.list.contains(reason.value) for reason in reasons)
