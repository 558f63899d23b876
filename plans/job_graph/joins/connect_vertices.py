"""Job edges and intermediate data sets, numbered in the order in which Flink connects vertices."""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from penstock.plans.frames.packed_blocks import by_number
from penstock.plans.job_graph.joins.create_vertices import hex_id
from penstock.plans.tables import JOB_EDGES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import DistributionPattern

CONNECTED = ("vertex_postorder", "postorder", "out_index")


def connect_vertices(shared_edges: DataFrame) -> DataFrame:
    """The job edges with the columns of their data sets.

    In: shared_edges (see reuse_data_sets). Out (key topology_id, target_vertex, input_index): job_edges and
    result_partition_type, output_index (of the data set among its producer's), buffer_timeout.

    Source: StreamingJobGraphGenerator.connect, JobVertex.connectNewDataSetAsInput.

    Example: tests/passes/fixtures/connected_edges.txt.
    """
    of_target = Window.partitionBy(TOPOLOGY, "target").orderBy(*CONNECTED)
    of_data_set = Window.partitionBy(TOPOLOGY, "source_vertex", "id_lower", "id_upper").orderBy(*CONNECTED)
    first_connection = F.first(F.struct("postorder", "out_index")).over(of_data_set)
    with_index = shared_edges.select("*", (F.row_number().over(of_target) - 1).alias("input_index"))
    numbered = by_number(with_index, "source_vertex").select(
        "*",
        (F.row_number().over(of_data_set) - 1).alias("consumer_index"),
        F.first("result_partition_type").over(of_data_set).alias("data_set_type"),
        first_connection.alias("first_connection"),
    )
    of_producer = Window.partitionBy(TOPOLOGY, "source_vertex").orderBy("first_connection")
    values = {
        "target_vertex": F.col("target"),
        "data_set_id": hex_id("id_lower", "id_upper"),
        "source_node": F.col("source"),
        "target_node": F.col("target"),
        "distribution": F.when(F.col("pointwise"), F.lit(DistributionPattern.POINTWISE.value)).otherwise(
            F.lit(DistributionPattern.ALL_TO_ALL.value)
        ),
        "ship_strategy": F.col("partitioner"),
    }
    return numbered.select(
        *(values[name].alias(name) if name in values else F.col(name) for name in JOB_EDGES.names),
        F.col("data_set_type").alias("result_partition_type"),
        (F.dense_rank().over(of_producer) - 1).alias("output_index"),
        "buffer_timeout",
        "exchange_mode",
        "output_tag",
        "unique_id",
        *CONNECTED,
    )


def create_data_sets(connected_edges: DataFrame) -> DataFrame:
    """One row per data set, from its first job edge.

    In: connected_edges (see connect_vertices). Out: intermediate_data_sets.

    Example: tests/passes/fixtures/intermediate_data_sets.txt.
    """
    return (
        connected_edges.groupBy(TOPOLOGY, F.col("source_vertex").alias("vertex"), "output_index")
        .agg(
            F.min(
                F.struct(
                    "consumer_index",
                    "data_set_id",
                    "result_partition_type",
                    "distribution",
                    "forward",
                    "broadcast",
                )
            ).alias("first"),
            F.count(F.lit(1)).cast("int").alias("consumers"),
        )
        .select(
            TOPOLOGY,
            "vertex",
            "output_index",
            "first.data_set_id",
            "first.result_partition_type",
            "first.distribution",
            "first.forward",
            "first.broadcast",
            "consumers",
        )
    )
