"""Topologies that Flink refuses while it translates transformations."""

import polars as pl

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.errors import ILLEGAL_ARGUMENT, ILLEGAL_STATE, UNSUPPORTED_OPERATION
from penstock.plans.frames.polars_frames import join_topology
from penstock.plans.frames.polars_refusals import NO_REASON, first_refusals, refusals
from penstock.plans.stream_graph.columnar.refuse_settings import (
    refuse_settings_of_edges,
    refuse_settings_of_transformations,
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

_INPUTS = pl.col("inputs").list.len()
_TOO_MANY_INPUTS = (pl.col("kind") == Kind.MULTI_INPUT) & (_INPUTS > MAX_INPUTS)
_CHANGES_PARALLELISM = (pl.col("partitioner") == "FORWARD") & (
    pl.col("source_parallelism") != pl.col("target_parallelism")
)
_OF_EDGES = (
    TOPOLOGY,
    "source",
    "target",
    "in_index",
    "partitioner",
    "edge_id",
    "source_name",
    "source_parallelism",
    "target_name",
    "target_parallelism",
)
_STRICT = ~pl.col("auto_generate_uids")
_SORTS = (pl.col("job_type") == JobType.BATCH) & pl.col("sort_inputs")
_WEIGHS = pl.col("managed_memory").map.len() > 0
_TRANSFORMATION = pl.concat_str(pl.lit("transformation "), "transformation")


def refuse_transformations(
    expanded_transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """The reasons (see refusals) that transformations give before there are nodes and edges.

    They are found here so that nothing reads `transformations` once its nodes are made.
    """
    return pl.concat(
        [
            _missing_uids(expanded_transformations, resolved_inputs, job_settings),
            _uids_of_steps(expanded_transformations),
            _too_many_inputs(expanded_transformations),
            _conflicting_weights(expanded_transformations, resolved_inputs, job_settings),
            *refuse_settings_of_transformations(expanded_transformations, resolved_inputs, job_settings),
        ]
    )


def refuse_stream_graphs(
    transformation_reasons: pl.DataFrame,
    stream_nodes: pl.DataFrame,
    marked_edges: pl.DataFrame,
    stream_edges: pl.DataFrame,
    job_settings: pl.DataFrame,
) -> pl.DataFrame:
    """One row per refused topology (see first_refusals).

    Columns and source: see joins.refuse_stream_graphs.

    Example: tests/passes/fixtures/stream_graph_refusals.txt.
    """
    return first_refusals(
        [
            transformation_reasons,
            _forward_changes(marked_edges, stream_nodes),
            *refuse_settings_of_edges(stream_edges, job_settings),
        ]
    )


def _forward_changes(marked_edges: pl.DataFrame, stream_nodes: pl.DataFrame) -> pl.DataFrame:
    changes = marked_edges.select(_OF_EDGES).filter(_CHANGES_PARALLELISM)
    if changes.is_empty():
        return NO_REASON
    changes = with_target_transformation(changes, stream_nodes)
    before, of_source, downstream, of_target, behind = map(pl.lit, FORWARD_CHANGES_PARALLELISM)
    message = pl.concat_str(
        before,
        pl.concat_str("source_name", "source", separator="-"),
        of_source,
        "source_parallelism",
        downstream,
        pl.concat_str("target_name", "target", separator="-"),
        of_target,
        "target_parallelism",
        behind,
    )
    turn = pl.coalesce("target_transformation", "target")
    order = [turn, pl.col("target"), pl.lit(EDGES), pl.col("in_index")]
    location = pl.concat_str(pl.lit("edge "), "edge_id")
    return refusals(changes, Layer.STREAM_GRAPH, order, UNSUPPORTED_OPERATION, message, location)


def _missing_uids(
    expanded_transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    strict = job_settings.filter(_STRICT).select(TOPOLOGY)
    if strict.is_empty():
        return NO_REASON
    kind = pl.col("kind")
    named = expanded_transformations.select(
        TOPOLOGY, "id", "transformation", "kind", "name", "uid", "uid_hash"
    )
    missing = join_topology(named, strict, {}, "semi").filter(
        kind.is_in(list(OPERATOR_KINDS)) & pl.col("uid").is_null() & pl.col("uid_hash").is_null()
    )
    uses = resolved_inputs.filter(pl.col("out_index") == 0).select(TOPOLOGY, "source", "target", "in_index")
    placed = with_target_transformation(
        join_topology(missing, uses, {"id": "source"}, "left"), expanded_transformations
    )
    is_source = kind.is_in(sorted(SOURCE_KINDS))
    message = pl.concat_str(pl.lit(MISSING_UID), "name")
    order = [
        pl.when(is_source).then("target_transformation").otherwise("transformation"),
        pl.when(is_source).then("target").otherwise("id"),
        pl.when(is_source).then(BEFORE_INPUTS).otherwise(UID),
        pl.when(is_source).then("in_index").otherwise(0),
        pl.lit(UID),
    ]
    translated = placed.filter(~is_source | pl.col("target").is_not_null())
    return refusals(translated, Layer.STREAM_GRAPH, order, ILLEGAL_STATE, message, _TRANSFORMATION)


def _uids_of_steps(expanded_transformations: pl.DataFrame) -> pl.DataFrame:
    """Refuses sinks whose steps have uids although the sink, and so its writer, has none."""
    steps = expanded_transformations.filter(pl.col("id") != pl.col("transformation"))
    with_uid = steps.filter((pl.col("kind") == Kind.ONE_INPUT) & (pl.col("uid") != ""))
    writers = steps.filter((pl.col("kind") == Kind.WRITER) & pl.col("uid").is_null())
    if with_uid.is_empty() or writers.is_empty():
        return NO_REASON
    refused = join_topology(writers, with_uid, {"transformation": "transformation"}, "semi")
    physical = steps.filter(pl.col("kind") != Kind.PARTITION)
    first = physical.group_by(TOPOLOGY, "transformation").agg(first=pl.col("id").min())
    sinks = expanded_transformations.select(TOPOLOGY, "id", sink_name="name")
    rows = join_topology(
        join_topology(
            refused.select(TOPOLOGY, "transformation"), first, {"transformation": "transformation"}
        ),
        sinks,
        {"transformation": "id"},
    )
    before, after = map(pl.lit, STEP_HAS_UID)
    message = pl.concat_str(before, "sink_name", after)
    order = [pl.col("transformation"), pl.col("first"), pl.lit(INPUT_COUNT), pl.lit(0)]
    return refusals(rows, Layer.STREAM_GRAPH, order, ILLEGAL_STATE, message, _TRANSFORMATION)


def _too_many_inputs(expanded_transformations: pl.DataFrame) -> pl.DataFrame:
    wide = expanded_transformations.select(TOPOLOGY, "id", "transformation", "kind", "inputs").filter(
        _TOO_MANY_INPUTS
    )
    message = pl.concat_str(pl.lit(TOO_MANY_INPUTS), _INPUTS)
    order = [pl.col("transformation"), pl.col("id"), pl.lit(INPUT_COUNT), pl.lit(0)]
    return refusals(wide, Layer.STREAM_GRAPH, order, ILLEGAL_ARGUMENT, message, _TRANSFORMATION)


def _conflicting_weights(
    expanded_transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    memory = pl.col("sorted_inputs_memory_mebibytes")
    sorting = job_settings.filter(_SORTS).select(TOPOLOGY, memory)
    if sorting.is_empty():
        return NO_REASON
    own = pl.col("managed_memory").map.get(ManagedMemoryUseCase.OPERATOR.value)
    weighing = expanded_transformations.select(TOPOLOGY, "id", "transformation", "managed_memory").filter(
        _WEIGHS
    )
    conflicting = join_topology(weighing, sorting, {}).filter(own != memory)
    keyed = resolved_inputs.filter("keyed").select(TOPOLOGY, "target")
    conflicts = join_topology(conflicting, keyed, {"id": "target"}, "semi")
    before, between, behind = map(pl.lit, CONFLICTING_WEIGHTS)
    message = pl.concat_str(before, memory, between, own, behind)
    order = [pl.col("transformation"), pl.col("id"), pl.lit(MEMORY), pl.lit(0)]
    return refusals(conflicts, Layer.STREAM_GRAPH, order, ILLEGAL_STATE, message, _TRANSFORMATION)
