"""The first attempt of every execution vertex of a run."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.joins.frames import join_local, rename
from plans.joins.spark_schemas import spark_schema
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import ExecutionState


def create_executions(
    execution_vertices: DataFrame, job_vertices: DataFrame, execution_graph_id: str, created_at: Column
) -> DataFrame:
    """One row per attempt (key topology_id, vertex, subtask, attempt_number): executions.

    In: execution_vertices, job_vertices; the id of the run (ExecutionGraphID, 32 hex digits, drawn anew for
    each run, which is why plans hold no executions) and a timestamp. Out: attempt 0 of each, CREATED.

    Source: Execution, ExecutionAttemptID.toString, ExecutionVertexID.toString.
    """
    ids = rename(job_vertices, of_vertex="vertex", vertex_id="vertex_id")
    attempt = F.lit(0)
    state = F.lit(ExecutionState.CREATED.value)
    return join_local(execution_vertices, ids, {"vertex": "of_vertex"}).select(
        TOPOLOGY,
        "vertex",
        "subtask",
        attempt.alias("attempt_number"),
        F.concat_ws(
            "_",
            F.lit(execution_graph_id),
            "vertex_id",
            F.col("subtask").cast("string"),
            attempt.cast("string"),
        ).alias("attempt_id"),
        state.alias("state"),
        F.create_map(state, created_at).alias("state_timestamps"),
        *(
            F.lit(None).cast(column.dataType).alias(column.name)
            for column in spark_schema("executions")
            if column.nullable
        ),
    )
