"""One execution vertex a subtask, with its scheduling region."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.tables.column_types import TOPOLOGY


def execution_vertices(task_regions: DataFrame) -> DataFrame:
    """In: task_regions (see find_pipelined_regions). Out (key topology_id, vertex, subtask):
    execution_vertices.

    Source: ExecutionJobVertex, ExecutionVertex.
    """
    return task_regions.select(
        TOPOLOGY, "vertex", F.posexplode("regions").alias("subtask", "pipelined_region")
    )
