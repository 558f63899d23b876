"""The `execution_graph` of plan JSON from the ExecutionGraph's tables."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.joins.frames import join_local, rename
from plans.plan_json.joins.json_text import joined_lists, without_brace
from plans.tables.column_types import TOPOLOGY

_EDGE = [TOPOLOGY, "target_vertex", "input_index"]


def execution_graph_json(tables: Mapping[str, DataFrame]) -> DataFrame:
    """(topology_id, json): vertices in topological order, each with the ranges that its subtasks read.

    From job_vertices, job_edges, execution_job_vertices and execution_edges.
    """
    effective = rename(
        tables["execution_job_vertices"],
        of_vertex="vertex",
        subtasks="parallelism",
        effective_max="max_parallelism",
    )
    vertices = tables["job_vertices"].select(TOPOLOGY, "vertex", "vertex_id", "topological_order")
    inputs = joined_lists(_inputs(tables), [TOPOLOGY, "target_vertex"], ["input_index"])
    rows = join_local(
        join_local(vertices, effective, {"vertex": "of_vertex"}), inputs, {"vertex": "target_vertex"}, "left"
    )
    own = F.struct(
        F.col("vertex_id").alias("id"),
        F.col("subtasks").alias("parallelism"),
        F.col("effective_max").alias("max_parallelism"),
    )
    text = F.concat(
        without_brace(F.to_json(own)), F.lit(',"inputs":'), F.coalesce("json", F.lit("[]")), F.lit("}")
    )
    listed = joined_lists(
        rows.select(TOPOLOGY, "topological_order", text.alias("json")), [TOPOLOGY], ["topological_order"]
    )
    return listed.select(TOPOLOGY, F.concat(F.lit('{"vertices":'), "json", F.lit("}")).alias("json"))


def _inputs(tables: Mapping[str, DataFrame]) -> DataFrame:
    in_order = F.sort_array(
        F.collect_list(
            F.struct(
                "subtask", "first_partition", "last_partition", "first_subpartition", "last_subpartition"
            )
        )
    )
    ranges = tables["execution_edges"].groupBy(*_EDGE).agg(in_order.alias("ranges"))
    gates = rename(
        tables["job_edges"], at_vertex="target_vertex", at_input="input_index", data_set_id="data_set_id"
    )
    members = F.struct(
        F.col("data_set_id").alias("data_set"),
        _ranges("first_partition", "last_partition").alias("partitions_by_subtask"),
        _ranges("first_subpartition", "last_subpartition").alias("subpartitions_by_subtask"),
    )
    return join_local(ranges, gates, {"target_vertex": "at_vertex", "input_index": "at_input"}).select(
        *_EDGE, F.to_json(members).alias("json")
    )


def _ranges(first: str, last: str) -> Column:
    """One list per subtask, of the one range that it reads."""
    return F.transform("ranges", lambda row: F.array(F.array(row[first], row[last])))
