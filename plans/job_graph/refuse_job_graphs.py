"""Topologies that Flink refuses while it makes the JobGraph."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.frames import TOPOLOGY, join_local, rename
from plans.refusals import ILLEGAL_ARGUMENT, ILLEGAL_STATE, UNSUPPORTED_OPERATION, first_refusals, refusals
from plans.stream_graph.inherit_slot_sharing_groups import DEFAULT_SLOT_SHARING_GROUP
from plans.vocabulary import JobType, Layer, ResultPartitionType

(
    _BACKLOG_INTERVAL,
    _COLLISION,
    _UNALIGNED,
    _PAUSED_SOURCES,
    _EMPTY_NAME,
    _FORWARD_GROUP,
    _CONNECT,
    _HYBRID_JOB,
    _HYBRID_GROUP,
    _CO_LOCATION,
) = range(10)
_BLOCKING = (ResultPartitionType.BLOCKING, ResultPartitionType.BLOCKING_PERSISTENT)
_HYBRID = (ResultPartitionType.HYBRID_FULL, ResultPartitionType.HYBRID_SELECTIVE)


def refuse_job_graphs(
    walked: DataFrame,
    stream_nodes: DataFrame,
    stream_edges: DataFrame,
    operators: DataFrame,
    vertices: DataFrame,
    connected_edges: DataFrame,
    named_vertices: DataFrame,
    job_settings: DataFrame,
) -> DataFrame:
    """One row a refused topology (see first_refusals), in the order of Flink's checks.

    In: walked, stream_nodes, stream_edges, operators, vertices, connected_edges, named_vertices,
    job_settings.

    Source: StreamGraphHasherV2; StreamingJobGraphGenerator.preValidate, checkBufferTimeout,
    validateHybridShuffleExecuteInBatchMode, setSlotSharing, setCoLocation; OperatorIDPair;
    JobVertexForwardGroup.
    """
    return first_refusals(
        [
            _uid_collisions(walked),
            _unaligned_custom_partitioners(stream_edges, job_settings),
            _checkpoint_intervals(job_settings),
            _empty_names(operators, walked),
            _forward_groups(vertices),
            _incompatible_data_sets(connected_edges),
            _buffer_timeouts(connected_edges, stream_nodes),
            *_hybrid(connected_edges, named_vertices, job_settings),
            _co_locations(named_vertices),
        ]
    )


def _uid_collisions(walked: DataFrame) -> DataFrame:
    collisions = walked.filter(F.col("colliding_uid").isNotNull())
    message = F.concat(
        F.lit('Hash collision on user-specified ID "'),
        "colliding_uid",
        F.lit(
            '". Most likely cause is a non-unique ID. Please check that all IDs specified via `uid(String)` '
            "are unique."
        ),
    )
    location = F.concat(F.lit("uid "), "colliding_uid")
    return refusals(collisions, Layer.JOB_GRAPH, [F.lit(_COLLISION)], ILLEGAL_ARGUMENT, message, location)


def _unaligned_custom_partitioners(stream_edges: DataFrame, job_settings: DataFrame) -> DataFrame:
    unaligned = job_settings.filter(
        (F.col("checkpointing_interval_milliseconds") > 0)
        & F.col("unaligned_checkpoints")
        & ~F.col("force_unaligned_checkpoints")
    ).select(TOPOLOGY)
    custom = stream_edges.filter(F.col("partitioner_class") == "CustomPartitionerWrapper")
    message = F.lit(
        "Unaligned checkpoints are currently not supported for custom partitioners, as rescaling is not "
        "guaranteed to work correctly.\nThe user can force Unaligned Checkpoints by using "
        "'execution.checkpointing.unaligned.forced'"
    )
    rows = join_local(custom, unaligned, {}, "left_semi")
    location = F.concat(F.lit("edge "), "edge_id")
    return refusals(rows, Layer.JOB_GRAPH, [F.lit(_UNALIGNED)], UNSUPPORTED_OPERATION, message, location)


def _checkpoint_intervals(job_settings: DataFrame) -> DataFrame:
    """The interval during backlog is checked first, pausing sources only behind custom partitioners."""
    rows = job_settings.filter(F.col("checkpointing_refusal").isNotNull())
    message = F.col("checkpointing_refusal")
    precedence = F.when(message.startswith("Pausing sources"), _PAUSED_SOURCES).otherwise(_BACKLOG_INTERVAL)
    return refusals(rows, Layer.JOB_GRAPH, [precedence], ILLEGAL_ARGUMENT, message, F.lit("config"))


def _empty_names(operators: DataFrame, walked: DataFrame) -> DataFrame:
    """Sources that are chained into a head are not looked at."""
    empty = operators.filter((F.col("chain_index") > 0) & ((F.col("name") == "") | (F.col("uid") == "")))
    orders = walked.filter(F.col("node").isNotNull() & F.col("out_index").isNull()).select(
        TOPOLOGY, F.col("node").alias("walked_node"), "vertex_postorder"
    )
    what = F.when(F.col("name") == "", F.lit("name")).otherwise(F.lit("uid"))
    message = F.concat(F.lit("Empty string operator "), what, F.lit(" is not allowed"))
    rows = join_local(empty, orders, {"node": "walked_node"})
    order = [F.lit(_EMPTY_NAME), F.col("vertex_postorder"), F.col("postorder")]
    location = F.concat(F.lit("node "), "node")
    return refusals(rows, Layer.JOB_GRAPH, order, ILLEGAL_ARGUMENT, message, location)


def _forward_groups(vertices: DataFrame) -> DataFrame:
    message = F.lit(
        "There is a job vertex in the forward group whose maximum parallelism is smaller than the "
        "group's parallelism"
    )
    location = F.concat(F.lit("vertex "), "name")
    return refusals(
        vertices.filter("too_small_max"),
        Layer.JOB_GRAPH,
        [F.lit(_FORWARD_GROUP)],
        ILLEGAL_STATE,
        message,
        location,
    )


def _incompatible_data_sets(connected_edges: DataFrame) -> DataFrame:
    """Edges whose ids have one Java hash share a data set by accident, and must then be alike."""
    first = connected_edges.filter("consumer_index = 0").select(
        TOPOLOGY,
        F.col("source_vertex").alias("producer"),
        F.col("output_index").alias("output"),
        F.col("distribution").alias("first_distribution"),
        F.col("broadcast").alias("first_broadcast"),
        F.col("forward").alias("first_forward"),
    )
    later = connected_edges.filter("consumer_index > 0")
    different = {
        "distribution pattern": F.col("distribution") != F.col("first_distribution"),
        "broadcast type": F.col("broadcast") != F.col("first_broadcast"),
        "forward type": F.col("forward") != F.col("first_forward"),
    }
    message = F.coalesce(
        *(F.when(condition, F.lit(f"Incompatible {what}.")) for what, condition in different.items())
    )
    on = {"source_vertex": "producer", "output_index": "output"}
    rows = (
        join_local(later, first, on)
        .select("*", message.alias("problem"))
        .filter(F.col("problem").isNotNull())
    )
    return refusals(rows, Layer.JOB_GRAPH, _connect_order(1), ILLEGAL_STATE, F.col("problem"), _data_set())


def _buffer_timeouts(connected_edges: DataFrame, stream_nodes: DataFrame) -> DataFrame:
    timed = connected_edges.filter(
        F.col("result_partition_type").isin(*_BLOCKING) & (F.col("buffer_timeout") != -1)
    )
    sources = rename(stream_nodes, at="id", source_name="name")
    targets = rename(stream_nodes, at="id", target_name="name")
    rows = join_local(join_local(timed, sources, {"source_node": "at"}), targets, {"target_node": "at"})
    tag = F.coalesce(F.concat(F.lit("OutputTag(Long, "), "output_tag", F.lit(")")), F.lit("null"))
    message = F.concat(
        F.lit("only canBePipelinedConsumed partition support buffer timeout "),
        "buffer_timeout",
        F.lit(" for src operator in edge ("),
        F.concat_ws("-", "source_name", F.col("source_node").cast("string")),
        F.lit(" -> "),
        F.concat_ws("-", "target_name", F.col("target_node").cast("string")),
        F.lit(", typeNumber="),
        "type_number",
        F.lit(", outputPartitioner="),
        "ship_strategy",
        F.lit(", exchangeMode="),
        "exchange_mode",
        F.lit(", bufferTimeout="),
        "buffer_timeout",
        F.lit(", outputTag="),
        tag,
        F.lit(", uniqueId="),
        "unique_id",
        F.lit(
            "). \nPlease either disable buffer timeout (via -1) or use the canBePipelinedConsumed partition."
        ),
    )
    return refusals(rows, Layer.JOB_GRAPH, _connect_order(0), UNSUPPORTED_OPERATION, message, _data_set())


def _hybrid(
    connected_edges: DataFrame, named_vertices: DataFrame, job_settings: DataFrame
) -> tuple[DataFrame, DataFrame]:
    hybrid = (
        connected_edges.filter(F.col("result_partition_type").isin(*_HYBRID))
        .groupBy(TOPOLOGY)
        .agg(F.min("data_set_id").alias("data_set_id"))
    )
    streaming = job_settings.filter(F.col("job_type") == JobType.STREAMING).select(TOPOLOGY)
    in_streaming = join_local(hybrid, streaming, {}, "left_semi")
    of_group = named_vertices.filter(F.col("slot_sharing_group_name") != DEFAULT_SLOT_SHARING_GROUP)
    beside_group = join_local(of_group, hybrid.select(TOPOLOGY), {}, "left_semi")
    return (
        refusals(
            in_streaming,
            Layer.JOB_GRAPH,
            [F.lit(_HYBRID_JOB)],
            ILLEGAL_STATE,
            F.lit("hybrid shuffle mode only supports batch job, please set execution.runtime-mode to BATCH"),
            _data_set(),
        ),
        refusals(
            beside_group,
            Layer.JOB_GRAPH,
            [F.lit(_HYBRID_GROUP)],
            ILLEGAL_STATE,
            F.lit("hybrid shuffle mode currently does not support setting non-default slot sharing group."),
            F.concat(F.lit("vertex "), "name"),
        ),
    )


def _co_locations(named_vertices: DataFrame) -> DataFrame:
    split = (
        named_vertices.filter(F.col("co_location_group").isNotNull())
        .groupBy(TOPOLOGY, "co_location_group_name")
        .agg(F.min("slot_sharing_group").alias("first"), F.max("slot_sharing_group").alias("last"))
        .filter(F.col("first") != F.col("last"))
    )
    message = F.lit("Cannot co-locate operators from different slot sharing groups")
    location = F.concat(F.lit("co-location group "), "co_location_group_name")
    return refusals(split, Layer.JOB_GRAPH, [F.lit(_CO_LOCATION)], ILLEGAL_STATE, message, location)


def _connect_order(step: int) -> list[Column]:
    order = ("vertex_postorder", "postorder", "out_index")
    return [F.lit(_CONNECT), *(F.col(name) for name in order), F.lit(step)]


def _data_set() -> Column:
    return F.concat(F.lit("data set "), "data_set_id")
