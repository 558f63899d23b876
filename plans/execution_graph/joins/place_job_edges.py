"""Job edges know the parallelism of both ends."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.execution_graph.place_job_edges import CARRIED
from plans.joins.frames import join_local, rename
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import DistributionPattern


def place_job_edges(connected_edges: DataFrame, execution_job_vertices: DataFrame) -> DataFrame:
    """One row per job edge (key topology_id, target_vertex, input_index): what execution edges follow from.

    In: connected_edges (see connect_vertices), execution_job_vertices. Out: source_vertex, output_index,
    consumer_index, result_partition_type, all_to_all (pointwise otherwise), and the parallelism of both ends
    as producers and consumers.
    """
    of_source = rename(execution_job_vertices, producer="vertex", producers="parallelism")
    of_target = rename(execution_job_vertices, consumer="vertex", consumers="parallelism")
    edges = connected_edges.select(
        TOPOLOGY,
        *CARRIED,
        (F.col("distribution") == DistributionPattern.ALL_TO_ALL.value).alias("all_to_all"),
    )
    known = join_local(edges, of_source, {"source_vertex": "producer"})
    return join_local(known, of_target, {"target_vertex": "consumer"})
