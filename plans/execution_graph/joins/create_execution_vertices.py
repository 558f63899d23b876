"""One execution vertex per subtask, with its scheduling region."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from plans.tables.column_types import TOPOLOGY


def execution_vertices(task_regions: DataFrame) -> DataFrame:
    """In: task_regions (see find_pipelined_regions). Out (key topology_id, vertex, subtask):
    execution_vertices.

    Source: ExecutionJobVertex, ExecutionVertex.

    Example: a task knows its pipelined region (tests/passes/fixtures/execution_vertices.txt).

        task_regions         -> execution_vertices
        vertex  regions         vertex  subtask  pipelined_region
        1       [0, 1]          1       0        0
        3       [0, 0, 1, 1]    1       1        1
                                3       0        0
                                3       1        0
                                3       2        1
                                3       3        1
    """
    return task_regions.select(
        TOPOLOGY, "vertex", F.posexplode("regions").alias("subtask", "pipelined_region")
    )
