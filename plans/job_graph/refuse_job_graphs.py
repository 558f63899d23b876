"""Topologies that Flink refuses while it builds the JobGraph."""

from functools import cache

import polars as pl

from penstock.plans.errors import NUMBER_FORMAT
from penstock.plans.frames.polars_frames import join_topology, rename
from penstock.plans.frames.polars_refusals import (
    ILLEGAL_ARGUMENT,
    ILLEGAL_STATE,
    UNSUPPORTED_OPERATION,
    first_refusals,
    refusals,
    refused_settings,
    settings_refused_at,
)
from penstock.plans.job_graph import job_graph_checks as checks
from penstock.plans.job_graph.create_vertices import CONNECTED, HEAD, parallelism_overrides
from penstock.plans.job_graph.number_slot_sharing_groups import refuse_memory_fractions
from penstock.plans.stream_graph.choose_partitioners import DEFAULT_SLOT_SHARING_GROUP
from penstock.plans.stream_graph.refuse_stream_graphs import MAX_PARALLELISM_UNREAD
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.job_settings import SettingStep
from penstock.plans.vocabulary import BLOCKING_TYPES, HYBRID_TYPES, ChainingStrategy, JobType, Layer


def refuse_stream_graphs_walked(
    walked: pl.DataFrame,
    stream_nodes: pl.DataFrame,
    stream_edges: pl.DataFrame,
    job_settings: pl.DataFrame,
) -> pl.DataFrame:
    """The reasons (see refusals) that nodes and edges give before they become operators and job edges.

    A separate pass, so that nothing reads `stream_nodes` and `stream_edges` once there is a JobGraph.
    """
    return pl.concat(
        [
            uid_collisions(walked, stream_nodes),
            unaligned_custom_partitioners(stream_edges, job_settings),
            chained_sources(stream_edges, stream_nodes, job_settings),
        ]
    )


def refuse_job_graphs(
    walk_reasons: pl.DataFrame,
    operators: pl.DataFrame,
    vertices: pl.DataFrame,
    connected_edges: pl.DataFrame,
    job_vertices: pl.DataFrame,
    job_settings: pl.DataFrame,
) -> pl.DataFrame:
    """One row per refused topology (see first_refusals), in the order of Flink's checks.

    In: walk_reasons (see refuse_stream_graphs_walked), operators, vertices, connected_edges, job_vertices,
    job_settings.

    Source: StreamGraphHasherV2; StreamingJobGraphGenerator.preValidate, checkBufferTimeout,
    validateHybridShuffleExecuteInBatchMode, setSlotSharing, setCoLocation; OperatorIDPair;
    JobVertexForwardGroup.

    Example: tests/passes/fixtures/job_graph_refusals.txt.
    """
    return first_refusals(
        [
            walk_reasons,
            refuse_job_settings(job_settings),
            empty_names(operators),
            forward_groups_refused(vertices),
            incompatible_data_sets(connected_edges),
            buffer_timeouts(connected_edges, operators),
            hybrid_in_streaming(connected_edges, job_settings),
            hybrid_beside_groups(_with_hybrid(connected_edges), job_vertices),
            co_locations(job_vertices),
            refuse_memory_fractions(operators, job_vertices, checks.MEMORY_FRACTION),
            refuse_overrides(job_vertices, job_settings),
        ]
    )


def uid_collisions(walked: pl.DataFrame, stream_nodes: pl.DataFrame) -> pl.DataFrame:
    """The reasons that uids are which collide on the walk."""
    collisions = stream_nodes.select(TOPOLOGY, "uid").filter(walked["colliding"])
    before, after = map(pl.lit, checks.COLLIDING_UID)
    message = pl.concat_str(before, "uid", after)
    location = pl.concat_str(pl.lit("uid "), "uid")
    return _refusals(collisions, [pl.lit(checks.COLLISION)], ILLEGAL_ARGUMENT, message, location)


def unaligned_custom_partitioners(stream_edges: pl.DataFrame, job_settings: pl.DataFrame) -> pl.DataFrame:
    """The reasons that custom partitioners are with unaligned checkpoints."""
    unaligned = job_settings.filter(
        (pl.col("checkpointing_interval_milliseconds") > 0)
        & pl.col("unaligned_checkpoints")
        & ~pl.col("force_unaligned_checkpoints")
    ).select(TOPOLOGY)
    if unaligned.is_empty():
        return _none()
    own_edges = join_topology(
        stream_edges.select(TOPOLOGY, "edge_id", "partitioner_class"), unaligned, {}, "semi"
    )
    rows = own_edges.filter(pl.col("partitioner_class") == "CustomPartitionerWrapper")
    message = pl.lit(checks.UNALIGNED_CUSTOM_PARTITIONER)
    location = pl.concat_str(pl.lit("edge "), "edge_id")
    return _refusals(rows, [pl.lit(checks.UNALIGNED)], UNSUPPORTED_OPERATION, message, location)


def refuse_job_settings(job_settings: pl.DataFrame) -> pl.DataFrame:
    """Refuse settings that Flink reads for every graph."""
    places = {str(step): place for step, place in checks.SETTING_STEPS.items()}
    place = pl.col("step").replace_strict(places, default=None, return_dtype=pl.Int32)
    rows = refused_settings(job_settings).with_columns(place.alias("place")).drop_nulls("place")
    return settings_refused_at(rows, Layer.JOB_GRAPH, [pl.col("place")])


def chained_sources(
    stream_edges: pl.DataFrame, stream_nodes: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """Refuse the setting that Flink reads for sources that may run inside a head with several inputs."""
    settings = refused_settings(job_settings).filter(
        pl.col("step") == SettingStep.CHAIN_DIFFERENT_MAX_PARALLELISM
    )
    if settings.is_empty():
        return _none()
    reasons = pl.col("not_chainable_reasons").cast(pl.List(pl.String)).list
    unread = pl.any_horizontal(reasons.contains(reason.value) for reason in MAX_PARALLELISM_UNREAD)
    of_nodes = stream_nodes.select(TOPOLOGY, "id", "source", "chaining")
    sources = of_nodes.filter("source").select(TOPOLOGY, "id")
    heads = of_nodes.filter(pl.col("chaining") == ChainingStrategy.HEAD_WITH_SOURCES).select(TOPOLOGY, "id")
    single = stream_edges.group_by(TOPOLOGY, "source").len().filter(pl.col("len") == 1).drop("len")
    edges = stream_edges.select(TOPOLOGY, "source", "target", "not_chainable_reasons").filter(~unread)
    edges = edges.join(sources, left_on=[TOPOLOGY, "source"], right_on=[TOPOLOGY, "id"], how="semi")
    edges = edges.join(heads, left_on=[TOPOLOGY, "target"], right_on=[TOPOLOGY, "id"], how="semi")
    edges = edges.join(single, on=[TOPOLOGY, "source"], how="semi")
    read = edges.join(settings, on=TOPOLOGY)
    return settings_refused_at(read, Layer.JOB_GRAPH, [pl.lit(checks.CHAINED_SOURCE)])


def empty_names(operators: pl.DataFrame) -> pl.DataFrame:
    """Refuse empty names, except of sources that are chained into a head."""
    names = operators.select(TOPOLOGY, "node", "operator_place", "chain_index", "name", "uid")
    rows = names.filter(((pl.col("name") == "") | (pl.col("uid") == "")) & (pl.col("chain_index") >= HEAD))
    attribute = pl.when(pl.col("name") == "").then(pl.lit("name")).otherwise(pl.lit("uid"))
    before, after = map(pl.lit, checks.EMPTY_STRING)
    message = pl.concat_str(before, attribute, after)
    order = [pl.lit(checks.EMPTY_NAME), pl.col("operator_place")]
    location = pl.concat_str(pl.lit("node "), "node")
    return _refusals(rows, order, ILLEGAL_ARGUMENT, message, location)


def forward_groups_refused(vertices: pl.DataFrame) -> pl.DataFrame:
    """The reasons that vertices are whose forward group has a smaller max parallelism."""
    rows, message = vertices.filter("too_small_max"), pl.lit(checks.TOO_SMALL_MAX)
    return _refusals(rows, [pl.lit(checks.FORWARD_GROUP)], ILLEGAL_STATE, message, _vertex())


def incompatible_data_sets(connected_edges: pl.DataFrame) -> pl.DataFrame:
    """Edges whose ids have one Java hash share a data set by accident, and must then be alike."""
    later = connected_edges.filter(pl.col("consumer_index") > 0)
    if later.is_empty():
        return _none()
    first = rename(
        connected_edges.filter(pl.col("consumer_index") == 0),
        producer="source_vertex",
        output="output_index",
        **{f"first_{attribute}": attribute for attribute in checks.INCOMPATIBLE},
    )
    problem = pl.coalesce(
        pl.when(pl.col(attribute) != pl.col(f"first_{attribute}")).then(pl.lit(message))
        for attribute, message in checks.INCOMPATIBLE.items()
    )
    rows = (
        join_topology(later, first, {"source_vertex": "producer", "output_index": "output"})
        .with_columns(problem.alias("problem"))
        .filter(pl.col("problem").is_not_null())
    )
    return _refusals(rows, _connect_order(1), ILLEGAL_STATE, pl.col("problem"), _data_set())


def buffer_timeouts(connected_edges: pl.DataFrame, operators: pl.DataFrame) -> pl.DataFrame:
    """The reasons that buffer timeouts of blocking edges are."""
    timed = timed_edges(connected_edges)
    if timed.is_empty():
        return _none()
    return timeouts_refused(with_end_name(with_end_name(timed, "source", operators), "target", operators))


def timed_edges(connected_edges: pl.DataFrame) -> pl.DataFrame:
    """Blocking edges with a buffer timeout."""
    return connected_edges.filter(
        pl.col("result_partition_type").is_in(BLOCKING_TYPES) & (pl.col("buffer_timeout") != -1)
    )


def with_end_name(edges: pl.DataFrame, end: str, operators: pl.DataFrame) -> pl.DataFrame:
    """Add the name of the operator at one end (`source` or `target`) to edges of connected_edges."""
    names = rename(operators, at="node", **{f"{end}_name": "name"})
    return join_topology(edges, names, {f"{end}_node": "at"})


def timeouts_refused(rows: pl.DataFrame) -> pl.DataFrame:
    """The reasons that timed_edges with the names of both ends are."""
    before, after = map(pl.lit, checks.OUTPUT_TAG)
    values = (
        pl.col("buffer_timeout"),
        pl.concat_str("source_name", pl.lit("-"), "source_node"),
        pl.concat_str("target_name", pl.lit("-"), "target_node"),
        pl.col("type_number"),
        pl.col("ship_strategy"),
        pl.col("exchange_mode"),
        pl.col("buffer_timeout"),
        pl.concat_str(before, "output_tag", after).fill_null(checks.NO_OUTPUT_TAG),
        pl.col("unique_id"),
    )
    *texts, last = map(pl.lit, checks.BUFFER_TIMEOUT)
    message = pl.concat_str(*(part for pair in zip(texts, values, strict=True) for part in pair), last)
    return _refusals(rows, _connect_order(0), UNSUPPORTED_OPERATION, message, _data_set())


def hybrid_in_streaming(connected_edges: pl.DataFrame, job_settings: pl.DataFrame) -> pl.DataFrame:
    """The reasons that hybrid shuffles of streaming jobs are, each with its job's first data set."""
    edges = connected_edges.filter(pl.col("result_partition_type").is_in(HYBRID_TYPES))
    if edges.is_empty():
        return _none()
    hybrid = edges.group_by(TOPOLOGY).agg(pl.col("data_set_id").min())
    streaming = job_settings.filter(pl.col("job_type") == JobType.STREAMING.value).select(TOPOLOGY)
    rows, message = join_topology(hybrid, streaming, {}, "semi"), pl.lit(checks.HYBRID_IN_STREAMING)
    return _refusals(rows, [pl.lit(checks.HYBRID_JOB)], ILLEGAL_STATE, message, _data_set())


def hybrid_beside_groups(with_hybrid: pl.DataFrame, job_vertices: pl.DataFrame) -> pl.DataFrame:
    """The reasons that named slot sharing groups are in the topologies `with_hybrid` shuffles."""
    if with_hybrid.is_empty():
        return _none()
    of_group = job_vertices.filter(pl.col("slot_sharing_group_name") != DEFAULT_SLOT_SHARING_GROUP)
    rows, message = join_topology(of_group, with_hybrid, {}, "semi"), pl.lit(checks.HYBRID_BESIDE_GROUP)
    return _refusals(rows, [pl.lit(checks.HYBRID_GROUP)], ILLEGAL_STATE, message, _vertex())


def _with_hybrid(connected_edges: pl.DataFrame) -> pl.DataFrame:
    return (
        connected_edges.filter(pl.col("result_partition_type").is_in(HYBRID_TYPES)).select(TOPOLOGY).unique()
    )


def co_locations(job_vertices: pl.DataFrame) -> pl.DataFrame:
    """The reasons that co-location groups are which several slot sharing groups have."""
    groups = job_vertices.select(
        TOPOLOGY, "slot_sharing_group", "co_location_group", "co_location_group_name"
    )
    located = groups.filter(pl.col("co_location_group").is_not_null())
    if located.is_empty():
        return _none()
    group = pl.col("slot_sharing_group")
    split = (
        located.group_by(TOPOLOGY, "co_location_group_name")
        .agg((group.min() != group.max()).alias("split"))
        .filter("split")
    )
    message, order = pl.lit(checks.SPLIT_CO_LOCATION), [pl.lit(checks.CO_LOCATION)]
    location = pl.concat_str(pl.lit("co-location group "), "co_location_group_name")
    return _refusals(split, order, ILLEGAL_STATE, message, location)


def refuse_overrides(job_vertices: pl.DataFrame, job_settings: pl.DataFrame) -> pl.DataFrame:
    """Refuse overrides that are not a parallelism, as the Dispatcher does."""
    wrong = parallelism_overrides(job_settings).filter(pl.col("override").is_null())
    if wrong.is_empty():
        return _none()
    of_vertices = job_vertices.select(TOPOLOGY, "vertex_id", "name", "creation_order")
    rows = of_vertices.join(wrong, left_on=[TOPOLOGY, "vertex_id"], right_on=[TOPOLOGY, "overridden_id"])
    before, after = map(pl.lit, checks.NOT_AN_INTEGER)
    is_number = pl.col("number").is_not_null()
    message = (
        pl.when(is_number).then(pl.lit(checks.BELOW_ONE)).otherwise(pl.concat_str(before, "given", after))
    )
    order = [pl.lit(checks.OVERRIDE), pl.col("creation_order")]
    return pl.concat(
        [
            _refusals(rows.filter(is_number), order, ILLEGAL_ARGUMENT, message, _vertex()),
            _refusals(rows.filter(~is_number), order, NUMBER_FORMAT, message, _vertex()),
        ]
    )


def _refusals(
    rows: pl.DataFrame, precedence: list[pl.Expr], error: str, message: pl.Expr, location: pl.Expr
) -> pl.DataFrame:
    return refusals(rows, Layer.JOB_GRAPH, precedence, error, message, location)


@cache
def _none() -> pl.DataFrame:
    """An empty table of refusals, for checks that end early."""
    nothing = pl.lit(None, pl.String)
    return _refusals(pl.DataFrame(schema={TOPOLOGY: pl.Int64}), [], "", nothing, nothing)


def _connect_order(step: int) -> list[pl.Expr]:
    return [pl.lit(checks.CONNECT), *map(pl.col, CONNECTED), pl.lit(step)]


def _data_set() -> pl.Expr:
    return pl.concat_str(pl.lit("data set "), "data_set_id")


def _vertex() -> pl.Expr:
    return pl.concat_str(pl.lit("vertex "), "name")
