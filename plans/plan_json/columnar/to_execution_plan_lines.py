"""Flink's execution plan, as getExecutionPlan() writes it, from the tables of a plan."""

import orjson
import polars as pl

from plans.columnar.frames import join_topology
from plans.plan_json.columnar.describe_vertices import SHOWN
from plans.plan_json.columnar.join_parts import Tables, listed
from plans.plan_json.columnar.json_text import json_lists, json_object, quoted, values
from plans.plan_json.columnar.view_lines import view_lines
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import Kind

EXECUTION_PLAN_COLUMNS = {
    "topologies": (TOPOLOGY, "name", "stream_graph_settings"),
    "rejected": (TOPOLOGY, "name", "error", "message"),
    "transformations": (TOPOLOGY, "id", "kind"),
    "stream_nodes": (TOPOLOGY, "id", "name", "description", "parallelism", "among_sources"),
    "stream_edges": (TOPOLOGY, "source", "target", "in_index", "partitioner"),
}
"""The columns that to_execution_plan_lines reads, by table."""


def to_execution_plan_lines(tables: Tables) -> pl.DataFrame:
    """(name, line): one row per planned topology and one per row of `rejected`, in the order of the tables.

    Nodes are in the order of their ids, sinks last.
    Source: org.apache.flink.streaming.api.graph.JSONGenerator.
    """
    nodes = join_topology(tables["stream_nodes"], _sinks(tables), {"id": "sink_id"}, "left")
    nodes = join_topology(nodes, _predecessors(tables["stream_edges"]), {"id": "target"}, "left")
    is_source = pl.col("among_sources")
    is_sink = pl.col("sink").fill_null(False)
    pact = pl.when(is_source).then(pl.lit("Data Source")).when(is_sink).then(pl.lit("Data Sink"))
    members = {
        "id": pl.col("id").cast(pl.String),
        "type": quoted(pl.col("name")),
        "pact": quoted(pact.otherwise(pl.lit("Operator"))),
        "contents": quoted(SHOWN),
        "parallelism": pl.col("parallelism").cast(pl.String),
        "predecessors": pl.when(~is_source).then(pl.col("predecessors").fill_null("[]")),
    }
    ordered = nodes.with_columns(last=is_sink)
    listed_nodes = listed(ordered, ["last", "id"], json_object(members))
    return view_lines(tables, ['"execution_plan":{"nodes":[', listed_nodes, "]}"])


def _predecessors(edges: pl.DataFrame) -> pl.DataFrame:
    """(topology_id, target, predecessors): the inputs of a node as a JSON list."""
    members = values(edges, id="source", ship_strategy="partitioner")
    # JSONGenerator counts the entry before it asks whether it is the first: all are "second".
    members["side"] = pl.lit('"second"')
    lists = json_lists(edges, [TOPOLOGY, "target"], ["in_index"], json_object(members))
    return lists.rename({"json": "predecessors"})


def _sinks(tables: Tables) -> pl.DataFrame:
    """(topology_id, sink_id, sink): the nodes that Flink registers as sinks."""
    transformations = tables["transformations"]
    sinks = transformations.filter(pl.col("kind") == Kind.SINK).select(TOPOLOGY, sink_id="id")
    given = tables["topologies"].filter(pl.col("stream_graph_settings").is_not_null())
    rows = [
        (topology, sink)
        for topology, settings in given.select(TOPOLOGY, "stream_graph_settings").iter_rows()
        for sink in orjson.loads(settings)["sinks"]
    ]
    both = pl.concat([sinks, pl.DataFrame(rows, sinks.schema, orient="row")])
    return both.unique().with_columns(sink=pl.lit(value=True))
