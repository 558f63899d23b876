"""One topology's plan, drawn."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from penstock.engine.commands.look.show_resources import has_resources, show_topology_resources
from penstock.engine.output.pieces import Piece, Styled
from penstock.engine.output.say import say
from penstock.engine.store.open_plan import StoredPlan

Row = Mapping[str, Any]

VERTICES = 500
"""Vertices shown; a person reads no more, and `penstock export` has them all."""

MAX_INDENT = 10
_VERTEX = (
    "vertex",
    "topological_order",
    "parallelism",
    "max_parallelism",
    "invokable",
    "slot_sharing_group",
)


def show_topology(name: str, plan: StoredPlan) -> None:
    """Print its refusals and, if it is planned, its vertices with their chains, what each reads and why that
    is not chained, and its resources. `plan`: with the rows of that topology only."""
    say(Styled(name, "bold"))
    refusals = plan.table("rejected").select("error_stage", "error", "message").collect().rows(named=True)
    for refusal in refusals:
        say(f"refused ({refusal['error_stage']}): ", Styled(refusal["error"], "red"))
        say(f"  {refusal['message']}")
    is_planned = not plan.table("topologies").select("name").head(1).collect().is_empty()
    if is_planned and plan.has("job_vertices"):
        _print_vertices(plan)
        if has_resources(plan):
            show_topology_resources(plan)


def _print_vertices(plan: StoredPlan) -> None:
    job_vertices, chained = plan.table("job_vertices"), plan.table("chained_operators")
    vertices = job_vertices.select(_VERTEX).sort("topological_order").head(VERTICES).collect()
    shown = vertices.lazy().select("vertex")
    drawn = chained.select("vertex", "node", "chain_index", "name").join(shown, on="vertex", how="semi")
    counted = [rows.select(pl.len()) for rows in (chained, job_vertices, plan.table("job_edges"))]
    operators, edges, inputs, *counts = pl.collect_all(
        [
            drawn.sort("chain_index", "node"),
            _chained_edges(plan, drawn).sort("source", "out_index"),
            _inputs(plan, shown).sort("input_index"),
            *counted,
        ],
        engine="streaming",
    )
    followers: dict[int, list[int]] = defaultdict(list)
    for source, target in edges.select("source", "target").iter_rows():
        followers[source].append(target)
    chains, reads = _by_vertex(operators), _by_vertex(inputs)
    total_operators, total, job_edges = (count.item() for count in counts)
    say(f"{total_operators:,} operators in {total:,} job vertices, {job_edges:,} job edges")
    for vertex in vertices.iter_rows(named=True):
        key = vertex["vertex"]
        _print_vertex(vertex, _drawn(chains[key], followers), reads[key])
    if total > VERTICES:
        say()
        say(f"… and {total - VERTICES:,} more vertices; penstock export has them all")


def _by_vertex(rows: pl.DataFrame) -> Mapping[int, list[Row]]:
    rows_by_vertex: dict[int, list[Row]] = defaultdict(list)
    for row in rows.iter_rows(named=True):
        rows_by_vertex[row["vertex"]].append(row)
    return rows_by_vertex


def _inputs(plan: StoredPlan, shown: pl.LazyFrame) -> pl.LazyFrame:
    """Per job edge into the vertices shown: the producer, the partition and why the edge is not chained."""
    wanted = plan.table("job_edges").join(shown, left_on="target_vertex", right_on="vertex", how="semi")
    producers = plan.table("job_vertices").select(
        source_vertex="vertex", producer="topological_order", producer_name="name"
    )
    data_sets = plan.table("intermediate_data_sets").select(
        "data_set_id", "result_partition_type", source_vertex="vertex"
    )
    reasons = plan.table("stream_edges").select("in_index", "not_chainable_reasons", target_node="target")
    return (
        wanted.select(
            "input_index",
            "ship_strategy",
            "distribution",
            "source_vertex",
            "data_set_id",
            "target_node",
            "in_index",
            vertex="target_vertex",
        )
        .join(producers, on="source_vertex")
        .join(data_sets, on=["source_vertex", "data_set_id"])
        .join(reasons, on=["target_node", "in_index"], how="left")
    )


def _chained_edges(plan: StoredPlan, drawn: pl.LazyFrame) -> pl.LazyFrame:
    """The stream edges inside the chains of the vertices shown."""
    chained = plan.table("stream_edges").filter("chainable").select("source", "target", "out_index")
    return chained.join(drawn, left_on="target", right_on="node", how="semi")


def _drawn(operators: Sequence[Row], followers: Mapping[int, list[int]]) -> list[list[Piece]]:
    """One line per operator, depth first; indented where a chain branches, so long chains stay narrow."""
    by_node = {row["node"]: row for row in operators}
    fed = {target for node in by_node for target in followers.get(node, ()) if target in by_node}
    stack = [(row["node"], 0) for row in reversed(operators) if row["node"] not in fed]
    lines: list[list[Piece]] = []
    while stack:
        node, depth = stack.pop()
        operator = by_node[node]
        start = "● " if operator["chain_index"] <= 1 else "↳ "
        kind = Styled("  chained source" if operator["chain_index"] == 0 else "", "dim")
        lines.append(["  " * min(depth, MAX_INDENT) + start, operator["name"], kind])
        chained = [target for target in followers.get(node, ()) if target in by_node]
        stack += [(target, depth + (len(chained) > 1)) for target in reversed(chained)]
    return lines


def _print_vertex(vertex: Row, chain: list[list[Piece]], inputs: Sequence[Row]) -> None:
    most = "" if vertex["max_parallelism"] < 0 else f", at most {vertex['max_parallelism']}"
    say()
    say(
        Styled(f"[{vertex['topological_order']}]", "bold"),
        f" parallelism {vertex['parallelism']}{most}  ",
        Styled(f"{vertex['invokable']}, slot sharing group {vertex['slot_sharing_group']}", "dim"),
    )
    for line in chain:
        say("  ", *line)
    for edge in inputs:
        reasons = ", ".join(edge["not_chainable_reasons"] or ())
        say(
            f"     ← [{edge['producer']}] ",
            _short(edge["producer_name"]),
            "  ",
            Styled(edge["ship_strategy"], "cyan"),
            f" {edge['distribution']} {edge['result_partition_type']}",
            Styled(f"  not chained: {reasons}" if reasons else "", "dim"),
        )


def _short(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "…"
