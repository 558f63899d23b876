"""Stream edges get their partitioner and know the nodes at both ends."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.plans.frames.spark_frames import join_local, rename
from penstock.plans.stream_graph.choose_partitioners import (
    ALIGNED,
    CLASSES,
    DEGREES,
    KEYED,
    PLACES,
    POINTWISE,
    SOURCE_ATTRIBUTES,
    TARGET_ATTRIBUTES,
    UNSPECIFIED_FORWARD,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import JobType, Partitioner, StreamExchangeMode


def choose_partitioners(
    resolved_inputs: DataFrame,
    stream_nodes: DataFrame,
    job_settings: DataFrame,
    given_stream_edges: DataFrame,
) -> DataFrame:
    """The StreamGraph's edges, each with what decides whether it chains: attributes of its ends.

    In: resolved_inputs, stream_nodes, job_settings, given_stream_edges (schema STREAM_EDGES; edges of
    topologies given as StreamGraphs, passed on). Out (key topology_id, target, in_index): the columns of
    STREAM_EDGES except the verdicts on chaining, and source_*/target_* attributes of the ends, in_degree
    (edges into the target), input_degree (edges into the same input of it) and out_degree.

    An edge without a partitioner is forward between equal parallelisms and rebalance otherwise.

    Source: StreamGraph.createActualEdge, StreamEdge, PartitionTransformationTranslator (BATCH exchange counts
    in BATCH mode only), StreamGraphGenerator.generate (unaligned checkpoints).

    Example: tests/passes/fixtures/edges_with_ends.txt.
    """
    sources = rename(stream_nodes, source="id", **{f"source_{a}": a for a in SOURCE_ATTRIBUTES})
    targets = rename(stream_nodes, target="id", **{f"target_{a}": a for a in TARGET_ATTRIBUTES})
    settings = job_settings.select(TOPOLOGY, "dynamic", (F.col("job_type") == JobType.BATCH).alias("batch"))

    def with_ends(edges: DataFrame) -> DataFrame:
        with_source = join_local(edges, sources, {"source": "source"})
        return join_local(with_source, targets, {"target": "target"})

    translated = _chosen(join_local(with_ends(resolved_inputs), settings, {}))
    return translated.unionByName(with_ends(_with_degrees(given_stream_edges)).drop("source_buffer_timeout"))


def _chosen(edges: DataFrame) -> DataFrame:
    unspecified_forward = F.col("source_parallelism") == F.col("target_parallelism")
    chosen = edges.select(
        "*",
        F.coalesce(
            "partitioner",
            F.when(unspecified_forward, F.lit(Partitioner.FORWARD.value)).otherwise(
                F.lit(Partitioner.REBALANCE.value)
            ),
        ).alias("chosen"),
        (F.col("partitioner").isNull() & unspecified_forward & F.col("dynamic")).alias("unspecified"),
        F.when(~F.col("batch") & (F.col("exchange_mode") == StreamExchangeMode.BATCH), None)
        .otherwise(F.col("exchange_mode"))
        .alias("mode"),
    )
    is_keyed = F.col("chosen").isin(*KEYED)
    printed = F.upper("chosen")
    partitioner_class = F.lit(None).cast("string")
    for partitioner, name in CLASSES.items():
        partitioner_class = F.when(F.col("chosen") == partitioner, F.lit(name)).otherwise(partitioner_class)
    partitioner_class = F.when(F.col("unspecified"), F.lit(UNSPECIFIED_FORWARD)).otherwise(partitioner_class)
    return chosen.select(
        *PLACES,
        printed.alias("partitioner"),
        partitioner_class.alias("partitioner_class"),
        F.when(is_keyed, F.concat_ws("#", printed, "partition"))
        .otherwise(partitioner_class)
        .alias("partitioner_key"),
        F.col("chosen").isin(*POINTWISE).alias("pointwise"),
        (F.col("chosen") == Partitioner.BROADCAST).alias("broadcast"),
        F.coalesce("mode", F.lit(StreamExchangeMode.UNDEFINED.value)).alias("exchange_mode"),
        "output_tag",
        "selected_names",
        F.col("source_buffer_timeout").alias("buffer_timeout"),
        (~F.col("chosen").isin(*ALIGNED)).alias("supports_unaligned_checkpoints"),
        _edge_id(printed).alias("edge_id"),
        F.lit(None).cast("string").alias("persistent_data_set"),
        *DEGREES,
        *(f"source_{a}" for a in SOURCE_ATTRIBUTES if a != "buffer_timeout"),
        *(f"target_{a}" for a in TARGET_ATTRIBUTES),
    )


def _edge_id(partitioner: Column) -> Column:
    return F.concat(
        "source_name",
        F.lit("-"),
        "source",
        F.lit("_"),
        "target_name",
        F.lit("-"),
        "target",
        F.lit("_"),
        "type_number",
        F.lit("_"),
        partitioner,
        F.lit("_"),
        "unique_id",
    )


def _with_degrees(given_stream_edges: DataFrame) -> DataFrame:
    def size_of(*keys: str) -> Column:
        return F.count(F.lit(1)).over(Window.partitionBy(TOPOLOGY, *keys)).cast("int")

    return given_stream_edges.drop("chainable", "chained_source", "not_chainable_reasons").select(
        "*",
        size_of("target").alias("in_degree"),
        size_of("target", "type_number").alias("input_degree"),
        size_of("source").alias("out_degree"),
    )
