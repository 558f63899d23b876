"""Topologies that Flink refuses while it makes the JobGraph."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.plans.errors import ILLEGAL_ARGUMENT, ILLEGAL_STATE, NUMBER_FORMAT, UNSUPPORTED_OPERATION
from penstock.plans.frames.spark_frames import (
    first_of_topology,
    first_refusals,
    join_few,
    join_local,
    refusals,
    refused_settings,
    rename,
    settings_refused_at,
)
from penstock.plans.job_graph.columnar.create_vertices import HEAD
from penstock.plans.job_graph.joins.create_vertices import CONNECTED, parallelism_overrides
from penstock.plans.job_graph.joins.number_slot_sharing_groups import refuse_memory_fractions
from penstock.plans.job_graph.refuse_job_graphs import (
    BELOW_ONE,
    BUFFER_TIMEOUT,
    CHAINED_SOURCE,
    CO_LOCATION,
    COLLIDING_UID,
    COLLISION,
    CONNECT,
    EMPTY_NAME,
    EMPTY_STRING,
    FORWARD_GROUP,
    HYBRID_BESIDE_GROUP,
    HYBRID_GROUP,
    HYBRID_IN_STREAMING,
    HYBRID_JOB,
    INCOMPATIBLE,
    MEMORY_FRACTION,
    NO_OUTPUT_TAG,
    NOT_AN_INTEGER,
    OUTPUT_TAG,
    OVERRIDE,
    SETTING_STEPS,
    SPLIT_CO_LOCATION,
    TOO_SMALL_MAX,
    UNALIGNED,
    UNALIGNED_CUSTOM_PARTITIONER,
)
from penstock.plans.stream_graph.choose_partitioners import DEFAULT_SLOT_SHARING_GROUP
from penstock.plans.stream_graph.columnar.refuse_stream_graphs import MAX_PARALLELISM_UNREAD
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.job_settings import SettingStep
from penstock.plans.vocabulary import BLOCKING_TYPES, HYBRID_TYPES, ChainingStrategy, JobType, Layer


def refuse_job_graphs(
    walked: DataFrame,
    stream_nodes: DataFrame,
    stream_edges: DataFrame,
    operators: DataFrame,
    vertices: DataFrame,
    connected_edges: DataFrame,
    job_vertices: DataFrame,
    job_settings: DataFrame,
) -> DataFrame:
    """One row per refused topology (see first_refusals), in the order of Flink's checks.

    In: walked, stream_nodes, stream_edges, operators, vertices, connected_edges, job_vertices,
    job_settings. What only some settings refuse is not looked for where no job has them.

    Source: StreamGraphHasherV2; StreamingJobGraphGenerator.preValidate, checkBufferTimeout,
    validateHybridShuffleExecuteInBatchMode, setSlotSharing, setCoLocation; OperatorIDPair;
    JobVertexForwardGroup.

    Example: tests/passes/fixtures/job_graph_refusals.txt.
    """
    return first_refusals(
        [
            _uid_collisions(walked, stream_nodes),
            *_unaligned_custom_partitioners(stream_edges, job_settings),
            _settings(job_settings),
            *_chained_sources(stream_edges, stream_nodes, job_settings),
            _empty_names(operators),
            _forward_groups(vertices),
            _incompatible_data_sets(connected_edges),
            _buffer_timeouts(connected_edges, stream_nodes),
            *_hybrid(connected_edges, job_vertices, job_settings),
            _co_locations(job_vertices),
            refuse_memory_fractions(operators, job_vertices, MEMORY_FRACTION),
            *_overrides(job_vertices, job_settings),
        ]
    )


def _uid_collisions(walked: DataFrame, stream_nodes: DataFrame) -> DataFrame:
    colliding = walked.filter(F.col("colliding_node").isNotNull()).select(TOPOLOGY, "colliding_node")
    collisions = join_few(stream_nodes.select(TOPOLOGY, "id", "uid"), colliding, {"id": "colliding_node"})
    before, after = map(F.lit, COLLIDING_UID)
    message = F.concat(before, "uid", after)
    location = F.concat(F.lit("uid "), "uid")
    return refusals(collisions, Layer.JOB_GRAPH, [F.lit(COLLISION)], ILLEGAL_ARGUMENT, message, location)


def _unaligned_custom_partitioners(stream_edges: DataFrame, job_settings: DataFrame) -> list[DataFrame]:
    unaligned = job_settings.filter(
        (F.col("checkpointing_interval_milliseconds") > 0)
        & F.col("unaligned_checkpoints")
        & ~F.col("force_unaligned_checkpoints")
    ).select(TOPOLOGY)
    if unaligned.isEmpty():
        return []
    custom = stream_edges.filter(F.col("partitioner_class") == "CustomPartitionerWrapper")
    message = F.lit(UNALIGNED_CUSTOM_PARTITIONER)
    rows = join_local(custom, unaligned, {}, "left_semi")
    location = F.concat(F.lit("edge "), "edge_id")
    return [refusals(rows, Layer.JOB_GRAPH, [F.lit(UNALIGNED)], UNSUPPORTED_OPERATION, message, location)]


def _settings(job_settings: DataFrame) -> DataFrame:
    """Settings that Flink reads for every graph."""
    place = F.coalesce(*(F.when(F.col("step") == step, place) for step, place in SETTING_STEPS.items()))
    rows = refused_settings(job_settings).select("*", place.alias("place")).filter("place IS NOT NULL")
    return settings_refused_at(rows, Layer.JOB_GRAPH, [F.col("place")])


def _chained_sources(
    stream_edges: DataFrame, stream_nodes: DataFrame, job_settings: DataFrame
) -> list[DataFrame]:
    """For a head with several inputs, Flink checks the sources that may run inside it."""
    settings = refused_settings(job_settings).filter(
        F.col("step") == SettingStep.CHAIN_DIFFERENT_MAX_PARALLELISM
    )
    if settings.isEmpty():
        return []
    refused = settings.select(TOPOLOGY).distinct()
    edges = join_local(
        stream_edges.select(TOPOLOGY, "source", "target", "not_chainable_reasons"), refused, {}, "left_semi"
    )
    nodes = join_local(stream_nodes.select(TOPOLOGY, "id", "source", "chaining"), refused, {}, "left_semi")
    one_output = edges.groupBy(TOPOLOGY, "source").agg(F.count(F.lit(1)).alias("outputs"))
    unread = F.array(*(F.lit(reason.value) for reason in MAX_PARALLELISM_UNREAD))
    checked = join_local(edges, settings, {}).filter(~F.arrays_overlap("not_chainable_reasons", unread))
    sources = rename(nodes.filter("source"), source_id="id")
    heads = rename(nodes.filter(F.col("chaining") == ChainingStrategy.HEAD_WITH_SOURCES), head_id="id")
    single = rename(one_output.filter("outputs = 1"), single_source="source")
    read = join_local(checked, sources, {"source": "source_id"}, "left_semi")
    read = join_local(read, heads, {"target": "head_id"}, "left_semi")
    read = join_local(read, single, {"source": "single_source"}, "left_semi")
    return [settings_refused_at(read, Layer.JOB_GRAPH, [F.lit(CHAINED_SOURCE)])]


def _empty_names(operators: DataFrame) -> DataFrame:
    """Sources that are chained into a head are exempt."""
    empty = operators.filter((F.col("chain_index") >= HEAD) & ((F.col("name") == "") | (F.col("uid") == "")))
    attribute = F.when(F.col("name") == "", F.lit("name")).otherwise(F.lit("uid"))
    before, after = map(F.lit, EMPTY_STRING)
    message = F.concat(before, attribute, after)
    order = [F.lit(EMPTY_NAME), F.col("vertex_postorder"), F.col("postorder")]
    location = F.concat(F.lit("node "), "node")
    return refusals(empty, Layer.JOB_GRAPH, order, ILLEGAL_ARGUMENT, message, location)


def _forward_groups(vertices: DataFrame) -> DataFrame:
    message = F.lit(TOO_SMALL_MAX)
    location = F.concat(F.lit("vertex "), "name")
    return refusals(
        vertices.filter("too_small_max"),
        Layer.JOB_GRAPH,
        [F.lit(FORWARD_GROUP)],
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
    message = F.coalesce(
        *(
            F.when(F.col(attribute) != F.col(f"first_{attribute}"), F.lit(incompatible))
            for attribute, incompatible in INCOMPATIBLE.items()
        )
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
        F.col("result_partition_type").isin(*BLOCKING_TYPES) & (F.col("buffer_timeout") != -1)
    )
    sources = rename(stream_nodes, at="id", source_name="name")
    targets = rename(stream_nodes, at="id", target_name="name")
    of_edges = ("source_node", "target_node", "buffer_timeout", "type_number", "ship_strategy")
    first = first_of_topology(
        timed.select(
            TOPOLOGY, *CONNECTED, *of_edges, "exchange_mode", "output_tag", "unique_id", "data_set_id"
        ),
        list(CONNECTED),
    )
    with_source = join_few(sources, first, {"at": "source_node"}).withColumnRenamed("at", "source_node")
    rows = join_few(targets, with_source, {"at": "target_node"}).withColumnRenamed("at", "target_node")
    before, after = map(F.lit, OUTPUT_TAG)
    values = (
        F.col("buffer_timeout"),
        F.concat_ws("-", "source_name", F.col("source_node").cast("string")),
        F.concat_ws("-", "target_name", F.col("target_node").cast("string")),
        F.col("type_number"),
        F.col("ship_strategy"),
        F.col("exchange_mode"),
        F.col("buffer_timeout"),
        F.coalesce(F.concat(before, "output_tag", after), F.lit(NO_OUTPUT_TAG)),
        F.col("unique_id"),
    )
    *texts, last = map(F.lit, BUFFER_TIMEOUT)
    message = F.concat(*(part for pair in zip(texts, values, strict=True) for part in pair), last)
    return refusals(rows, Layer.JOB_GRAPH, _connect_order(0), UNSUPPORTED_OPERATION, message, _data_set())


def _hybrid(
    connected_edges: DataFrame, job_vertices: DataFrame, job_settings: DataFrame
) -> tuple[DataFrame, DataFrame]:
    hybrid = (
        connected_edges.filter(F.col("result_partition_type").isin(*HYBRID_TYPES))
        .groupBy(TOPOLOGY)
        .agg(F.min("data_set_id").alias("data_set_id"))
    )
    streaming = job_settings.filter(F.col("job_type") == JobType.STREAMING).select(TOPOLOGY)
    in_streaming = join_local(hybrid, streaming, {}, "left_semi")
    of_group = job_vertices.filter(F.col("slot_sharing_group_name") != DEFAULT_SLOT_SHARING_GROUP)
    beside_group = join_local(of_group, hybrid.select(TOPOLOGY), {}, "left_semi")
    return (
        refusals(
            in_streaming,
            Layer.JOB_GRAPH,
            [F.lit(HYBRID_JOB)],
            ILLEGAL_STATE,
            F.lit(HYBRID_IN_STREAMING),
            _data_set(),
        ),
        refusals(
            beside_group,
            Layer.JOB_GRAPH,
            [F.lit(HYBRID_GROUP)],
            ILLEGAL_STATE,
            F.lit(HYBRID_BESIDE_GROUP),
            F.concat(F.lit("vertex "), "name"),
        ),
    )


def _co_locations(job_vertices: DataFrame) -> DataFrame:
    split = (
        job_vertices.filter(F.col("co_location_group").isNotNull())
        .groupBy(TOPOLOGY, "co_location_group_name")
        .agg(F.min("slot_sharing_group").alias("first"), F.max("slot_sharing_group").alias("last"))
        .filter(F.col("first") != F.col("last"))
    )
    message = F.lit(SPLIT_CO_LOCATION)
    location = F.concat(F.lit("co-location group "), "co_location_group_name")
    return refusals(split, Layer.JOB_GRAPH, [F.lit(CO_LOCATION)], ILLEGAL_STATE, message, location)


def _overrides(job_vertices: DataFrame, job_settings: DataFrame) -> list[DataFrame]:
    """The Dispatcher refuses overrides of vertices that are not a parallelism."""
    overrides = parallelism_overrides(job_settings)
    if overrides is None:
        return []
    is_number = F.col("number").isNotNull()
    rows = join_local(job_vertices, overrides.filter("override IS NULL"), {"vertex_id": "overridden_id"})
    before, after = map(F.lit, NOT_AN_INTEGER)
    message = F.when(is_number, F.lit(BELOW_ONE)).otherwise(F.concat(before, "given", after))
    order, location = [F.lit(OVERRIDE), F.col("creation_order")], F.concat(F.lit("vertex "), "name")
    return [
        refusals(rows.filter(condition), Layer.JOB_GRAPH, order, error, message, location)
        for condition, error in ((is_number, ILLEGAL_ARGUMENT), (~is_number, NUMBER_FORMAT))
    ]


def _connect_order(step: int) -> list[Column]:
    return [F.lit(CONNECT), *map(F.col, CONNECTED), F.lit(step)]


def _data_set() -> Column:
    return F.concat(F.lit("data set "), "data_set_id")
