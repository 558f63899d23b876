"""Inputs of physical transformations lead to physical transformations."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.frames.packed_blocks import by_number
from penstock.plans.frames.spark_frames import join_local
from penstock.plans.stream_graph.resolve_virtual_nodes import KEYED_BEHIND_HASH, MULTIPLE_INPUTS
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Kind, Partitioner


def resolve_virtual_nodes(expanded_transformations: DataFrame, virtual_expansions: DataFrame) -> DataFrame:
    """One row per StreamEdge, in the order in which Flink adds them to their target.

    In: expanded_transformations; virtual_expansions (see expand_virtual_nodes). Out (key topology_id, target,
    in_index): source, type_number, the labels of the virtual transformations between the two (null = none),
    keyed (the target reads a hash partition directly) and direct (no virtual transformation in between).

    Source: StreamGraph.addEdgeInternal, the virtual transformations' translators.

    Example: tests/passes/fixtures/resolved_inputs.txt.
    """
    inputs = expanded_transformations.filter(F.col("kind").isin(*OPERATOR_KINDS)).select(
        TOPOLOGY,
        F.col("id").alias("target"),
        F.col("kind"),
        F.col("position").alias("translated"),
        F.posexplode("inputs").alias("position", "input"),
    )
    # A sink's translator gives no stream node ids to transformations that have it as an input; a sink that
    # was expanded is a union of nothing.
    gives_none = (F.col("kind") == Kind.SINK) | ((F.col("kind") == Kind.UNION) & (F.size("inputs") == 0))
    sinks = expanded_transformations.filter(gives_none).select(TOPOLOGY, "id", F.lit(True).alias("sink"))
    behind_virtual = join_local(
        virtual_expansions.drop("open").withColumnRenamed("input", "behind"), sinks, {"behind": "id"}, "left"
    ).withColumnRenamed("sink", "behind_is_sink")
    keyed = (
        F.col("kind").isin(*KEYED_BEHIND_HASH)
        & (F.col("partition") == F.col("input"))
        & (F.col("partitioner") == Partitioner.HASH)
    )
    # Both by input, so that edges are exchanged once.
    looked_up = join_local(inputs, behind_virtual, {"input": "node"}, "left")
    ends = join_local(looked_up, sinks, {"input": "id"}, "left").select(
        "*",
        F.coalesce("behind", "input").alias("source"),
        F.when(F.col("kind").isin(MULTIPLE_INPUTS), F.col("position") + 1).otherwise(0).alias("type_number"),
        F.coalesce(keyed, F.lit(False)).alias("keyed"),
    )
    reads_sink = F.when(F.col("behind").isNull(), F.col("sink")).otherwise(F.col("behind_is_sink"))
    return number_edges(
        ends.filter(reads_sink.isNull()).select(
            TOPOLOGY,
            "target",
            "source",
            "type_number",
            "partition",
            "partitioner",
            "exchange_mode",
            "output_tag",
            "selected_names",
            "keyed",
            "translated",
            F.struct("position", "path").alias("order"),
        )
    )


def number_edges(edges: DataFrame) -> DataFrame:
    """`edges` with in_index, out_index, unique_id as Flink counts them, in_degree, input_degree, out_degree.

    In: edges with topology_id, source, target, type_number, translated (the target's position among all
    transformations) and order (sorts a target's edges, those of an input before those of the next). Out: the
    last two are gone.
    """
    # By type_number first, which changes nothing, so that one sort serves both windows.
    of_target = Window.partitionBy(TOPOLOGY, "target")
    numbered = by_number(edges, "target").select(
        *(name for name in edges.columns if name != "order"),
        (F.row_number().over(of_target.orderBy("type_number", "order")) - 1).alias("in_index"),
        F.count(F.lit(1)).over(of_target).cast("int").alias("in_degree"),
        F.count(F.lit(1))
        .over(Window.partitionBy(TOPOLOGY, "target", "type_number"))
        .cast("int")
        .alias("input_degree"),
    )
    of_source = Window.partitionBy(TOPOLOGY, "source")
    of_pair = Window.partitionBy(TOPOLOGY, "source", "target")
    return by_number(numbered, "source").select(
        *(name for name in numbered.columns if name != "translated"),
        (F.row_number().over(of_source.orderBy("translated", "in_index")) - 1).alias("out_index"),
        (F.row_number().over(of_pair.orderBy("in_index")) - 1).alias("unique_id"),
        F.count(F.lit(1)).over(of_source).cast("int").alias("out_degree"),
    )
