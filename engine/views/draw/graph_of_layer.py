"""A layer of a plan as the graph that is drawn."""

from enum import StrEnum

import polars as pl

from penstock.engine.views.draw.chaining_reasons import (
    NODE_COLUMNS,
    is_chained,
    reasons_of,
    slot_sharing,
    stream_edges_between_nodes,
)
from penstock.engine.views.draw.drawn_plan import DrawnPlan, Row
from penstock.engine.views.draw.execution_graph import execution_graph
from penstock.engine.views.draw.graph import DrawnGraph, Edge, MadeOfRows, Node
from penstock.engine.views.draw.job_graph import job_graph, parallelism_note
from penstock.plans.errors import ConfigurationError


class DrawnLayer(StrEnum):
    """The layers that can be drawn."""

    STREAM_GRAPH = "stream_graph"
    JOB_GRAPH = "job_graph"
    EXECUTION_GRAPH = "execution_graph"


_NEEDED = {
    DrawnLayer.STREAM_GRAPH: ("stream_nodes", "stream_edges"),
    DrawnLayer.JOB_GRAPH: ("job_vertices", "job_edges"),
    DrawnLayer.EXECUTION_GRAPH: ("execution_vertices", "execution_edges"),
}


def graph_of_layer(plan: DrawnPlan, layer: DrawnLayer, vertex: str | None = None) -> DrawnGraph:
    """That layer of a plan; `vertex` (see find_vertex) chooses whose tasks an execution graph shows.

    Raises ConfigurationError: the plan does not go as far, or there is no such vertex.
    """
    if not plan.has(*_NEEDED[layer]):
        raise ConfigurationError(
            f"topology {plan.topology!r}: its plan has no {layer.replace('_', ' ')}",
            "it was planned with --until; plan it without",
        )
    if layer is DrawnLayer.STREAM_GRAPH:
        return stream_graph(plan)
    if layer is DrawnLayer.JOB_GRAPH:
        return job_graph(plan)
    return execution_graph(plan, vertex)


def drawable_layers(
    plan: DrawnPlan, asked: DrawnLayer | None, vertex: str | None, *, first_only: bool
) -> list[DrawnLayer]:
    """The layers to draw: what is asked for, else those the plan has, the job graph first.

    With `vertex`, its execution graph comes first. `first_only`: only the first of them.
    """
    if asked is not None:
        return [asked]
    layers = [] if vertex is None else [DrawnLayer.EXECUTION_GRAPH]
    has = (DrawnLayer.JOB_GRAPH, DrawnLayer.STREAM_GRAPH)
    layers += [layer for layer in has if plan.has(*_NEEDED[layer])]
    return (layers or [DrawnLayer.JOB_GRAPH])[: 1 if first_only else None]


# The stream graph: operators and the edges between them, with the chains they form as boxes around them.


def stream_graph(plan: DrawnPlan) -> DrawnGraph:
    """Operators by id. Chains of several operators are boxes, if the plan includes the job graph."""
    chained = plan.frame("chained_operators", "vertex", "node", "operator_id").with_columns(
        members=pl.len().over("vertex")
    )
    vertices = plan.frame(
        "job_vertices", *("vertex", "name", "slot_sharing_group", "topological_order")
    ).rename({"name": "chain_name", "slot_sharing_group": "group_number"})
    chains = (
        vertices.join(chained.select("vertex", "members").unique(), on="vertex")
        .filter(pl.col("members") > 1)
        .sort("topological_order")
    )
    operators = (
        plan.frame("stream_nodes", *NODE_COLUMNS, "uid", "operator_factory")
        .join(chained, left_on="id", right_on="node", how="left")
        .join(vertices, on="vertex", how="left")
        .sort("id")
    )
    return DrawnGraph(
        topology=plan.topology,
        layer="stream graph",
        nodes=MadeOfRows((chains, _chain), (operators, _operator)),
        edges=MadeOfRows((stream_edges_between_nodes(plan), _edge)),
        groups=slot_sharing(plan),
    )


def _chain(row: Row) -> Node:
    return Node(
        key=f"c{row['vertex']}",
        name=row["chain_name"],
        note=f"chain of {row['members']:,} operators",
        group=row["group_number"],
        facts=(("operators", f"{row['members']:,}"),),
    )


def _operator(row: Row) -> Node:
    note = parallelism_note(row["parallelism"], row["max_parallelism"])
    return Node(
        key=f"n{row['id']}",
        name=row["name"],
        note=note,
        group=row["group_number"],
        inside=f"c{row['vertex']}" if (row["members"] or 0) > 1 else None,
        facts=(
            ("node", str(row["id"])),
            ("parallelism", note),
            ("chaining strategy", row["chaining"] or "none: it has no operator"),
            ("slot sharing group", row["slot_sharing_group"]),
            *([("operator", row["operator_factory"])] if row["operator_factory"] else []),
            *([("uid", row["uid"])] if row["uid"] else []),
            *([("operator id", row["operator_id"])] if row["operator_id"] else []),
        ),
    )


def _edge(row: Row) -> Edge:
    chained, why = is_chained(row), reasons_of(row)
    return Edge(
        source=f"n{row['source']}",
        target=f"n{row['target']}",
        label="" if chained else row["partitioner"],
        kind="chained" if chained else "pipelined",
        facts=(
            ("partitioner", row["partitioner"]),
            ("exchange mode", row["exchange_mode"]),
            ("chained", "yes" if chained else "no"),
            *([("not chained because", why)] if why else []),
            *([("input", str(row["type_number"]))] if row["type_number"] else []),
            *([("side output", row["output_tag"])] if row["output_tag"] else []),
        ),
    )
