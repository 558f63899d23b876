"""Flink's plan of a job, as its REST interface gives it at /jobs/:id/plan, from the tables of a plan."""

import polars as pl

from plans.columnar.frames import join_topology
from plans.plan_json.columnar.describe_vertices import describe_vertices
from plans.plan_json.columnar.join_parts import Tables, listed
from plans.plan_json.columnar.json_text import json_lists, json_object, quoted, values
from plans.plan_json.columnar.view_lines import view_lines
from plans.tables.column_types import TOPOLOGY

FLINK_PLAN_COLUMNS = {
    "topologies": (TOPOLOGY, "name"),
    "rejected": (TOPOLOGY, "name", "error", "message"),
    "job_settings": (TOPOLOGY, "job_type", "vertex_description_mode"),
    "stream_nodes": (TOPOLOGY, "id", "name", "description"),
    "stream_edges": (TOPOLOGY, "source", "target", "in_index", "out_index", "chainable", "chained_source"),
    "job_vertices": (TOPOLOGY, "vertex", "vertex_id", "parallelism", "creation_order"),
    "job_edges": (TOPOLOGY, "target_vertex", "input_index", "source_vertex", "data_set_id", "ship_strategy"),
    "intermediate_data_sets": (TOPOLOGY, "vertex", "data_set_id", "result_partition_type"),
}
"""The columns that to_flink_plan_lines reads, by table."""


def to_flink_plan_lines(tables: Tables) -> pl.DataFrame:
    """(name, line): one row per planned topology and one per row of `rejected`, in the order of the tables.

    `jid` is left out: Flink draws it. Raises NotEnoughMemoryError as describe_vertices.
    Source: org.apache.flink.runtime.jobgraph.jsonplan.JsonPlanGenerator.
    """
    vertices = join_topology(describe_vertices(tables), _inputs(tables), {"vertex": "target_vertex"}, "left")
    members = {
        "id": quoted(pl.col("vertex_id")),
        "operator": pl.lit('""'),
        "parallelism": pl.col("parallelism").cast(pl.String),
        "operator_strategy": pl.lit('""'),
        "description": quoted(pl.col("description")),
        "optimizer_properties": pl.lit("{}"),
        "inputs": pl.col("inputs"),
    }
    # As after execute(name), which wins over pipeline.name.
    names = tables["topologies"].select(TOPOLOGY, "name")
    jobs = join_topology(names, tables["job_settings"].select(TOPOLOGY, "job_type"), {})
    head = jobs.select(TOPOLOGY, json=json_object(values(jobs, name="name", type="job_type")).str.head(-1))
    nodes = listed(vertices, ["creation_order"], json_object(members))
    return view_lines(tables, ['"flink_plan":', head, ',"nodes":[', nodes, "]}"])


def _inputs(tables: Tables) -> pl.DataFrame:
    """(topology_id, target_vertex, inputs): the job edges that a vertex reads as a JSON list."""
    vertices, data_sets = tables["job_vertices"], tables["intermediate_data_sets"]
    edges = join_topology(
        tables["job_edges"].select(FLINK_PLAN_COLUMNS["job_edges"]),
        vertices.select(TOPOLOGY, "vertex", "vertex_id"),
        {"source_vertex": "vertex"},
    )
    types = data_sets.select(
        TOPOLOGY, "vertex", "data_set_id", exchange=pl.col("result_partition_type").str.to_lowercase()
    )
    typed = join_topology(edges, types, {"source_vertex": "vertex", "data_set_id": "data_set_id"})
    written = values(
        typed, id="vertex_id", num="input_index", exchange="exchange", ship_strategy="ship_strategy"
    )
    lists = json_lists(typed, [TOPOLOGY, "target_vertex"], ["input_index"], json_object(written))
    return lists.rename({"json": "inputs"})
