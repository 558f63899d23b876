"""One topology's plan, drawn."""

from collections import defaultdict
from collections.abc import Mapping

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from rich.markup import escape

from engine.commands.people import console_for_people
from engine.commands.show_resources import has_resources, show_topology_resources

VERTICES = 500
"""Vertices shown; a person reads no more, and `penstock export` has them all."""

MAX_INDENT = 10
_VERTEX = ["topology_id", "vertex"]


def show_topology(name: str, tables: Mapping[str, DataFrame], options: Mapping[str, str]) -> None:
    """Print its refusal, or its vertices with their chains, what each reads and why that is not chained, and
    its resources. `options`: the plan's."""
    console = console_for_people()
    console.print(f"[bold]{escape(name)}[/bold]")
    refusals = tables["rejected"].collect()
    for refusal in refusals:
        console.print(f"refused ({refusal['error_stage']}): [red]{escape(refusal['error'])}[/red]")
        console.print(f"  {escape(refusal['message'])}")
    if "job_vertices" in tables and not any(r["error_stage"] != "input" for r in refusals):
        _print_vertices(tables)
        if has_resources(tables):
            show_topology_resources(tables, options)


def _print_vertices(tables: Mapping[str, DataFrame]) -> None:
    console = console_for_people()
    vertices = tables["job_vertices"].orderBy("topological_order").limit(VERTICES)
    shown = vertices.select(*_VERTEX)
    operators, inputs = defaultdict(list), defaultdict(list)
    followers: dict[int, list[int]] = defaultdict(list)
    for row in _chained_edges(tables, shown).orderBy("source", "out_index").collect():
        followers[row["source"]].append(row["target"])
    chained = tables["chained_operators"].join(F.broadcast(shown), _VERTEX)
    for row in chained.orderBy("chain_index", "node").collect():
        operators[row["vertex"]].append(row)
    for row in _inputs(tables, shown).orderBy("input_index").collect():
        inputs[row["vertex"]].append(row)
    counts = {t: tables[t].count() for t in ("job_vertices", "chained_operators", "job_edges")}
    console.print(
        f"{counts['chained_operators']:,} operators in {counts['job_vertices']:,} job vertices, "
        f"{counts['job_edges']:,} job edges"
    )
    for vertex in vertices.collect():
        _print_vertex(vertex, _drawn(operators[vertex["vertex"]], followers), inputs[vertex["vertex"]])
    if counts["job_vertices"] > VERTICES:
        console.print(
            f"\n… and {counts['job_vertices'] - VERTICES:,} more vertices; penstock export has them all"
        )


def _inputs(tables: Mapping[str, DataFrame], shown: DataFrame) -> DataFrame:
    """Per job edge into the vertices shown: the producer, the partition and why the edge is not chained."""
    edges = tables["job_edges"].alias("e")
    same = [F.col("e.topology_id") == F.col("k.topology_id"), F.col("e.target_vertex") == F.col("k.vertex")]
    wanted = edges.join(F.broadcast(shown).alias("k"), same, "left_semi")
    producers = tables["job_vertices"].alias("p")
    data_sets = tables["intermediate_data_sets"].alias("d")
    stream_edges = tables["stream_edges"].alias("s")
    return (
        wanted.join(
            producers,
            [F.col("e.topology_id") == F.col("p.topology_id"), F.col("e.source_vertex") == F.col("p.vertex")],
        )
        .join(
            data_sets,
            [
                F.col("e.topology_id") == F.col("d.topology_id"),
                F.col("e.source_vertex") == F.col("d.vertex"),
                F.col("e.data_set_id") == F.col("d.data_set_id"),
            ],
        )
        .join(
            stream_edges,
            [
                F.col("e.topology_id") == F.col("s.topology_id"),
                F.col("e.target_node") == F.col("s.target"),
                F.col("e.in_index") == F.col("s.in_index"),
            ],
            "left",
        )
        .select(
            F.col("e.target_vertex").alias("vertex"),
            "e.input_index",
            "e.ship_strategy",
            "e.distribution",
            "d.result_partition_type",
            F.col("p.topological_order").alias("producer"),
            F.col("p.name").alias("producer_name"),
            "s.not_chainable_reasons",
        )
    )


def _chained_edges(tables: Mapping[str, DataFrame], shown: DataFrame) -> DataFrame:
    """The stream edges inside the chains of the vertices shown."""
    inside = tables["chained_operators"].join(F.broadcast(shown), _VERTEX, "left_semi").alias("o")
    same = [F.col("e.topology_id") == F.col("o.topology_id"), F.col("e.target") == F.col("o.node")]
    chained = tables["stream_edges"].where("chainable").alias("e")
    return chained.join(inside, same, "left_semi").select("source", "target", "out_index")


def _drawn(operators: list[Row], followers: Mapping[int, list[int]]) -> list[str]:
    """A line an operator, depth first; indented where a chain branches, so that a long chain stays narrow."""
    by_node = {row["node"]: row for row in operators}
    fed = {target for node in by_node for target in followers.get(node, ()) if target in by_node}
    stack = [(row["node"], 0) for row in reversed(operators) if row["node"] not in fed]
    lines = []
    while stack:
        node, depth = stack.pop()
        operator = by_node[node]
        start = "● " if operator["chain_index"] <= 1 else "↳ "
        kind = "  [dim]chained source[/dim]" if operator["chain_index"] == 0 else ""
        lines.append("  " * min(depth, MAX_INDENT) + start + escape(operator["name"]) + kind)
        chained = [target for target in followers.get(node, ()) if target in by_node]
        stack += [(target, depth + (len(chained) > 1)) for target in reversed(chained)]
    return lines


def _print_vertex(vertex: Row, chain: list[str], inputs: list[Row]) -> None:
    console = console_for_people()
    most = "" if vertex["max_parallelism"] < 0 else f", at most {vertex['max_parallelism']}"
    console.print(
        f"\n[bold]\\[{vertex['topological_order']}][/bold] parallelism {vertex['parallelism']}{most}  "
        f"[dim]{vertex['invokable']}, slot sharing group {vertex['slot_sharing_group']}[/dim]"
    )
    for line in chain:
        console.print(f"  {line}")
    for edge in inputs:
        reasons = ", ".join(edge["not_chainable_reasons"] or ())
        why = f"  [dim]not chained: {reasons}[/dim]" if reasons else ""
        producer = f"\\[{edge['producer']}] {escape(_short(edge['producer_name']))}"
        partition = f"{edge['distribution']} {edge['result_partition_type']}"
        console.print(f"     ← {producer}  [cyan]{edge['ship_strategy']}[/cyan] {partition}{why}")


def _short(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "…"
