"""Every virtual transformation is replaced by the physical ones above it, by pointer doubling."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from penstock.plans.frames.spark_frames import join_local
from penstock.plans.stream_graph.expand_virtual_nodes import LABELS
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import VIRTUAL_KINDS, Kind


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
