"""Inputs of physical transformations lead to physical transformations."""

from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.errors import INPUT_STAGE
from penstock.plans.frames.packed_blocks import by_number
from penstock.plans.frames.spark_frames import join_local
from penstock.plans.stream_graph.columnar.resolve_virtual_nodes import (
    KEYED_BEHIND_HASH,
    LABELS,
    MOST_EDGES,
    MULTIPLE_INPUTS,
    too_many_edges,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.joins.topologies_of_lines import TopologyTables, rejected_rows
from penstock.plans.vocabulary import VIRTUAL_KINDS, Kind, Partitioner

# Topologies whose unions of unions expand to more edges than a plan can hold are refused.


_COUNTED = f"{TOPOLOGY} bigint, id int, ways bigint, most bigint"
_ERROR = "struct<error: string, location: string, found: string, allowed: string, hint: string>"


def limit_expansion(tables: TopologyTables) -> TopologyTables:
    """The tables of the topology layer, in which topologies of too many edges are rows of `rejected` only.

    As columnar.limit_expansion. One Spark job, which finds topologies whose unions may have too many ways and
    has Python workers count these, one whole topology at a time.
    """
    wrong = _beyond_limit(tables.transformations)
    if not wrong:
        return tables
    refused = F.col(TOPOLOGY).isin(list(wrong))
    spark = tables.topologies.sparkSession
    errors = spark.createDataFrame(
        [(topology, [too_many_edges(**counts)]) for topology, counts in wrong.items()],
        f"{TOPOLOGY} bigint, errors array<{_ERROR}>",
    )
    rejected = (
        tables.topologies.filter(refused)
        .join(F.broadcast(errors), TOPOLOGY)
        .select("name", "source_file", "source_line", F.lit(INPUT_STAGE).alias("error_stage"), "errors")
    )
    return tables._replace(
        topologies=tables.topologies.filter(~refused),
        transformations=tables.transformations.filter(~refused),
        job_settings=tables.job_settings.filter(~refused),
        rejected=tables.rejected.unionByName(rejected_rows(rejected)),
    )


def _beyond_limit(transformations: DataFrame) -> dict[int, dict[str, Any]]:
    """The id, ways and most of each topology with too many edges."""
    counted = _keep_many_unions(transformations).groupBy(TOPOLOGY).applyInArrow(_count, _COUNTED)
    return {row[TOPOLOGY]: {name: row[name] for name in ("id", "ways", "most")} for row in counted.collect()}


def _keep_many_unions(transformations: DataFrame) -> DataFrame:
    """The transformations of topologies that may have too many edges.

    No union has more ways than the product of the inputs that all unions have.
    """
    inputs = F.greatest(F.size("inputs"), F.lit(1))
    doublings = F.sum(F.when(F.col("kind") == Kind.UNION, F.log2(inputs)).otherwise(0.0))
    many = (
        transformations.groupBy(TOPOLOGY)
        .agg(doublings.alias("doublings"), F.sum(inputs).alias("inputs"))
        .where(F.col("doublings") > 0)
        .where(F.col("doublings") + F.log2("inputs") > F.log2(F.lit(MOST_EDGES)))
    )
    return transformations.select(TOPOLOGY, "id", "kind", "inputs").join(many, TOPOLOGY, "left_semi")


def _count(rows: pa.Table) -> pa.Table:
    """One whole topology: its row if it has too many ways."""
    from penstock.plans.frames.polars_frames import from_arrow
    from penstock.plans.stream_graph.columnar.resolve_virtual_nodes import beyond_limit

    too_large = beyond_limit(from_arrow(rows))
    return too_large.to_arrow()


# Every virtual transformation is replaced by the physical ones above it, by pointer doubling.


def start(expanded_transformations: DataFrame) -> DataFrame:
    """One row per virtual transformation and input: the expansion by one step.

    In: expanded_transformations. Out (key topology_id, node, path): node (the virtual id), path (array of
    union input positions, the order among a node's rows), input (the id reached), open (input is virtual
    itself), and the labels picked up on the way: partition (id of the transformation that decides the
    partitioner), partitioner, exchange_mode, output_tag, selected_names.
    """
    virtual = expanded_transformations.filter(F.col("kind").isin(*VIRTUAL_KINDS))
    is_partition = F.col("kind") == Kind.PARTITION
    expansions = virtual.select(
        TOPOLOGY,
        F.col("id").alias("node"),
        F.posexplode("inputs").alias("position", "input"),
        F.when(is_partition, F.col("id")).alias("partition"),
        F.when(is_partition, F.col("partitioner")).alias("partitioner"),
        F.when(is_partition, F.coalesce("exchange_mode", F.lit("UNDEFINED"))).alias("exchange_mode"),
        F.when(F.col("kind") == Kind.SIDE_OUTPUT, F.col("tag")).alias("output_tag"),
        F.when(F.col("kind") == Kind.SELECT, F.col("names")).alias("selected_names"),
        (F.col("kind") == Kind.UNION).alias("union"),
    )
    virtual_ids = virtual.select(TOPOLOGY, "id", F.lit(True).alias("is_virtual"))
    return join_local(expansions, virtual_ids, {"input": "id"}, "left").select(
        TOPOLOGY,
        "node",
        F.when(F.col("union"), F.array("position")).otherwise(F.array().cast("array<int>")).alias("path"),
        "input",
        F.col("is_virtual").isNotNull().alias("open"),
        *LABELS,
    )


def step(expansions: DataFrame) -> DataFrame:
    """Every open row composed with the rows of the node it stands at: twice as far in one join.

    Which label wins is StreamGraph.addEdgeInternal's rule, which walks from the consumer up: partitioner,
    output tag and selected names (Flink 1.11) of the transformation nearest to the consumer, exchange mode of
    the partition farthest from it.
    """
    further = expansions.select(
        TOPOLOGY,
        F.col("node").alias("at"),
        *(F.col(c).alias(f"further_{c}") for c in ("path", "input", "open", *LABELS)),
    )

    def nearest(label: str) -> Column:
        return F.coalesce(label, f"further_{label}").alias(label)

    # No node has a negative number; null would send all rows that are done to one partition.
    stands_at = F.when(F.col("open"), F.col("input")).otherwise(-F.col("node"))
    open_ends = expansions.select("*", stands_at.alias("stands_at"))
    return join_local(open_ends, further, {"stands_at": "at"}, "left").select(
        TOPOLOGY,
        "node",
        F.concat("path", F.coalesce("further_path", F.array().cast("array<int>"))).alias("path"),
        F.coalesce("further_input", "input").alias("input"),
        F.coalesce("further_open", F.lit(False)).alias("open"),
        nearest("partition"),
        nearest("partitioner"),
        F.coalesce("further_exchange_mode", "exchange_mode").alias("exchange_mode"),
        nearest("output_tag"),
        nearest("selected_names"),
    )


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
