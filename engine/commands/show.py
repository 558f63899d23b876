"""The commands `penstock show` and `penstock rejected`, which print plans and refusals of a store."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import polars as pl
import typer
from rich.table import Column

from penstock.engine.commands.reads_plan import PlansToRead, opened_plan
from penstock.engine.commands.size import has_resources, show_fleet_resources, show_topology_resources
from penstock.engine.output.people import print_table
from penstock.engine.output.pieces import Piece, StyledText
from penstock.engine.output.print_line import print_line
from penstock.engine.output.write_lines import write_texts
from penstock.engine.store.plan_tables import PlanTables
from penstock.plans.job_graph.choose_result_partition_types import IS_CHAINED
from penstock.plans.plan_json.to_topology_lines import json_lists, json_object, values
from penstock.plans.tables.column_types import TOPOLOGY

# `penstock rejected`: list rejected topologies and the reasons.


_ERROR = ("error", "location", "found", "allowed", "hint")


def rejected_command(
    store: PlansToRead,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="One line per topology; default: one per reason.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines with every error, for programs.")] = False,
) -> None:
    """List why topologies were refused, the most frequent reason first; or each topology, with --all.

    Examples:
        penstock rejected plans
        penstock rejected plans --all --json

    Exit codes:
        4: Not a store, no such version, or a damaged table.
    """
    with opened_plan(store, version) as plan:
        refused = plan.table("rejected")
        if json:
            write_texts(_lines(refused.collect()), None)
        else:
            _print(refused, every)


def _lines(refused: pl.DataFrame) -> pl.Series:
    """Format every column as JSON, ordered by name, without nulls."""
    numbered = refused.with_row_index("row")
    errors = (
        numbered.select("row", pl.col("errors").alias("of_row"))
        .filter(pl.col("of_row").list.len() > 0)
        .explode("of_row")
        .with_row_index("position")
        .unnest("of_row")
    )
    listed = json_lists(errors, ["row"], ["position"], json_object(values(errors, *_ERROR)))
    rows = numbered.join(listed, on="row", how="left", maintain_order="left")
    members = values(rows, *(name for name in refused.columns if name != "errors"))
    line = json_object(members | {"errors": pl.col("json").fill_null("[]")})
    return rows.select("name", line.alias("line")).sort("name", "line")["line"]


def _print(refused: pl.LazyFrame, every: bool) -> None:
    columns = [Column(name) for name in ("topology", "where", "stage", "error", "message")]
    selected = refused.sort("name", "source_file", "source_line").select(
        pl.col("name").fill_null("(no name)"),
        pl.concat_str("source_file", "source_line", separator=":", ignore_nulls=True).alias("where"),
        "error_stage",
        "error",
        "message",
    )
    rows = selected.collect()
    if rows.is_empty():
        print_line("nothing was refused")
        return
    if every:
        print_table(columns, rows.rows())
        print_line(f"{len(rows):,} refused")
        return
    reasons = rows.group_by("error_stage", "error", "message", maintain_order=True).agg(
        pl.len(), pl.first("name", "where")
    )
    shown = reasons.sort("len", descending=True, maintain_order=True).select(
        pl.col("len").map_elements("{:,}".format, return_dtype=pl.String),
        *("name", "where", "error_stage", "error", "message"),
    )
    print_table([Column("topologies"), Column("the first"), *columns[1:]], shown.rows())
    count = "one reason" if len(reasons) == 1 else f"{len(reasons):,} reasons"
    more = "" if len(reasons) == len(rows) else f" for {count}; --all lists each"
    print_line(f"{len(rows):,} refused{more}")


# One topology's plan as text.


Row = Mapping[str, Any]

VERTICES = 500
"""Vertices shown. People read no more; `penstock export` writes all."""

MAX_INDENT = 10
_VERTEX_OF_TOPOLOGY = (
    "vertex",
    "topological_order",
    "parallelism",
    "max_parallelism",
    "invokable",
    "slot_sharing_group",
)


def _show_topology(name: str, plan: PlanTables) -> None:
    """Print a topology's refusals and, if it is planned, its vertices and resources.

    Each vertex is shown with its chain, its inputs, and the reasons why these are not chained. `plan` holds
    the rows of that topology only.
    """
    print_line(StyledText(name, "bold"))
    refusals = plan.table("rejected").select("error_stage", "error", "message").collect().rows(named=True)
    for refusal in refusals:
        print_line(f"refused ({refusal['error_stage']}): ", StyledText(refusal["error"], "red"))
        print_line(f"  {refusal['message']}")
    is_planned = not plan.table("topologies").select("name").head(1).collect().is_empty()
    if is_planned and plan.has("job_vertices"):
        _print_vertices(plan)
        if has_resources(plan):
            show_topology_resources(plan)


def _print_vertices(plan: PlanTables) -> None:
    job_vertices, chained = plan.table("job_vertices"), plan.table("chained_operators")
    vertices = job_vertices.select(_VERTEX_OF_TOPOLOGY).sort("topological_order").head(VERTICES).collect()
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
    print_line(f"{total_operators:,} operators in {total:,} job vertices, {job_edges:,} job edges")
    for vertex in vertices.iter_rows(named=True):
        key = vertex["vertex"]
        _print_vertex(vertex, _drawn(chains[key], followers), reads[key])
    if total > VERTICES:
        print_line()
        print_line(f"… and {total - VERTICES:,} more vertices; penstock export writes all")


def _by_vertex(rows: pl.DataFrame) -> Mapping[int, list[Row]]:
    rows_by_vertex: dict[int, list[Row]] = defaultdict(list)
    for row in rows.iter_rows(named=True):
        rows_by_vertex[row["vertex"]].append(row)
    return rows_by_vertex


def _inputs(plan: PlanTables, shown: pl.LazyFrame) -> pl.LazyFrame:
    """Return producer, partition and reasons against chaining of each job edge into the shown vertices."""
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


def _chained_edges(plan: PlanTables, drawn: pl.LazyFrame) -> pl.LazyFrame:
    """Return the stream edges inside the chains of the shown vertices."""
    chained = plan.table("stream_edges").filter("chainable").select("source", "target", "out_index")
    return chained.join(drawn, left_on="target", right_on="node", how="semi")


def _drawn(operators: Sequence[Row], followers: Mapping[int, list[int]]) -> list[list[Piece]]:
    """Format one line per operator, depth first, indented only where a chain branches."""
    by_node = {row["node"]: row for row in operators}
    fed = {target for node in by_node for target in followers.get(node, ()) if target in by_node}
    stack = [(row["node"], 0) for row in reversed(operators) if row["node"] not in fed]
    lines: list[list[Piece]] = []
    while stack:
        node, depth = stack.pop()
        operator = by_node[node]
        start = "● " if operator["chain_index"] <= 1 else "↳ "
        kind = StyledText("  chained source" if operator["chain_index"] == 0 else "", "dim")
        lines.append(["  " * min(depth, MAX_INDENT) + start, operator["name"], kind])
        chained = [target for target in followers.get(node, ()) if target in by_node]
        stack += [(target, depth + (len(chained) > 1)) for target in reversed(chained)]
    return lines


def _print_vertex(vertex: Row, chain: list[list[Piece]], inputs: Sequence[Row]) -> None:
    most = "" if vertex["max_parallelism"] < 0 else f", at most {vertex['max_parallelism']}"
    print_line()
    print_line(
        StyledText(f"[{vertex['topological_order']}]", "bold"),
        f" parallelism {vertex['parallelism']}{most}  ",
        StyledText(f"{vertex['invokable']}, slot sharing group {vertex['slot_sharing_group']}", "dim"),
    )
    for line in chain:
        print_line("  ", *line)
    for edge in inputs:
        reasons = ", ".join(edge["not_chainable_reasons"] or ())
        print_line(
            f"     ← [{edge['producer']}] ",
            _short(edge["producer_name"]),
            "  ",
            StyledText(edge["ship_strategy"], "cyan"),
            f" {edge['distribution']} {edge['result_partition_type']}",
            StyledText(f"  not chained: {reasons}" if reasons else "", "dim"),
        )


def _short(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "…"


def show_command(
    store: PlansToRead,
    topology: Annotated[
        str | None,
        typer.Option("--topology", metavar="NAME", help="Show this topology's vertices, chains and edges."),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON, for programs.")] = False,
) -> None:
    """Show the plans of a store: counts, chains and refusals, or one topology in full.

    Examples:
        penstock show plans
        penstock show plans@3 --topology word-count

    Exit codes:
        4: Not a store, no such version or topology, or a damaged table.
    """
    with opened_plan(store, version, topology) as plan:
        if json:
            import orjson

            write_texts([orjson.dumps(show_in_json(plan)).decode()], None)
        elif topology is None:
            show_fleet(plan)
        else:
            _show_topology(topology, plan)


# `penstock show --json`.


_VERTEX = (
    *("vertex", "vertex_id", "name", "parallelism", "max_parallelism", "invokable", "slot_sharing_group"),
    "topological_order",
)
_INPUT = ("target_vertex", "input_index", "source_vertex", "data_set_id", "distribution", "ship_strategy")
_REFUSAL = ("name", "error_stage", "error", "message")


def show_in_json(plan: PlanTables) -> dict[str, Any]:
    """Return the version and counts of rows; also counts by reason and error, or the only topology's plan."""
    summary = {
        "store": plan.label,
        "version": plan.version,
        "published_at": None if plan.published_at is None else plan.published_at.isoformat(),
        "planner_version": plan.planner_version,
        "options": dict(plan.options),
        "counts": _counts(plan),
    }
    if plan.topology is None:
        return summary | _fleet(plan)
    return summary | {"topology": plan.topology, **_topology(plan)}


def _counts(plan: PlanTables) -> dict[str, int]:
    counted = {"planned": "topologies", "refused": "rejected"} | {
        label.replace(" ", "_"): table for label, table in COUNTED if plan.has(table)
    }
    row_counts = pl.collect_all([plan.table(table).select(pl.len()) for table in counted.values()])
    return {label: count.item() for label, count in zip(counted, row_counts, strict=True)}


def _fleet(plan: PlanTables) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    if plan.has("chained_operators"):
        lengths = plan.table("chained_operators").group_by(TOPOLOGY, "vertex").len("operators")
        by_length = lengths.group_by("operators").len("job_vertices").sort("operators")
        figures["chain_lengths"] = by_length.collect(engine="streaming").to_dicts()
    if plan.has("stream_edges"):
        edges = plan.table("stream_edges")
        figures["chained_edges"] = edges.select(IS_CHAINED.sum()).collect().item()
        reasons = (
            edges.filter(~IS_CHAINED).select(reason="not_chainable_reasons").explode("reason").drop_nulls()
        )
        figures["not_chainable_reasons"] = _by_count(reasons, ["reason"], "stream_edges")
    if plan.has("required_slots"):
        figures["slots"] = (
            plan.table("required_slots").select(pl.col("slots").cast(pl.Int64).sum()).collect().item()
        )
    errors = plan.table("rejected").select("error_stage", "error")
    figures["refusals"] = _by_count(errors, ["error_stage", "error"], "topologies")
    return figures


def _by_count(rows: pl.LazyFrame, by: list[str], counted: str) -> list[dict[str, Any]]:
    grouped = rows.group_by(by).len(counted).sort(counted, *by, descending=[True, *[False] * len(by)])
    return grouped.collect(engine="streaming").to_dicts()


def _topology(plan: PlanTables) -> dict[str, Any]:
    refusals = plan.table("rejected").select(_REFUSAL).collect().to_dicts()
    if not plan.has("job_vertices"):
        return {"refusals": refusals}
    vertices = plan.table("job_vertices").select(_VERTEX).sort("topological_order").collect()
    operators = plan.table("chained_operators").select("vertex", "node", "operator_id", "name", "chain_index")
    inputs = plan.table("job_edges").select(_INPUT).sort("target_vertex", "input_index").collect()
    chains = _by(operators.sort("vertex", "chain_index", "node").collect(), "vertex")
    reads = _by(inputs, "target_vertex")
    description: dict[str, Any] = {
        "refusals": refusals,
        "vertices": [
            {**row, "operators": chains.get(row["vertex"], []), "inputs": reads.get(row["vertex"], [])}
            for row in vertices.iter_rows(named=True)
        ],
    }
    if plan.has("required_slots"):
        slots = plan.table("required_slots").drop(TOPOLOGY).sort("slot_sharing_group")
        description["slot_sharing_groups"] = slots.collect().to_dicts()
    return description


def _by(rows: pl.DataFrame, key: str) -> dict[int, list[dict[str, Any]]]:
    rows_by_key: dict[int, list[dict[str, Any]]] = {}
    for row in rows.iter_rows(named=True):
        rows_by_key.setdefault(row.pop(key), []).append(row)
    return rows_by_key


# Summary of all plans of a version.


CHAIN_LENGTHS = ((1, 1), (2, 2), (3, 3), (4, 7), (8, 15), (16, 63), (64, None))
MOST = 10
"""Rows of a table that counts kinds."""

COUNTED = (
    ("operators", "stream_nodes"),
    ("stream edges", "stream_edges"),
    ("job vertices", "job_vertices"),
    ("job edges", "job_edges"),
    ("data sets", "intermediate_data_sets"),
    ("slot sharing groups", "slot_sharing_groups"),
    ("execution vertices", "execution_vertices"),
)


def show_fleet(plan: PlanTables) -> None:
    """Print counts, chain lengths, reasons against chaining, resources, and refusals by error."""
    planner = f", penstock {plan.planner_version}" if plan.planner_version else ""
    assert plan.published_at is not None
    print_line(
        StyledText(plan.label, "bold"),
        f" version {plan.version} ({plan.published_at.astimezone():%Y-%m-%d %H:%M:%S}{planner})",
    )
    _print_counts(plan)
    if plan.has("chained_operators"):
        _print_chain_lengths(plan.table("chained_operators"))
    if plan.has("stream_edges"):
        _print_reasons(plan.table("stream_edges"))
    if has_resources(plan):
        show_fleet_resources(plan)
    _print_refusals(plan.table("rejected"))


def _print_counts(plan: PlanTables) -> None:
    counted = {
        "planned": plan.table("topologies"),
        "refused": plan.table("rejected"),
        **{label: plan.table(name) for label, name in COUNTED if plan.has(name)},
    }
    row_counts = pl.collect_all([rows.select(pl.len()) for rows in counted.values()], engine="streaming")
    rows = [(label, f"{count.item():,}") for label, count in zip(counted, row_counts, strict=True)]
    _print_table(("", "count"), rows)


def _print_chain_lengths(operators: pl.LazyFrame) -> None:
    lengths = operators.group_by(TOPOLOGY, "vertex").len("length")
    counted = lengths.group_by("length").len().sort("length").collect(engine="streaming")
    chains = [0] * len(CHAIN_LENGTHS)
    for length, count in counted.iter_rows():
        chains[next(i for i, (_, most) in enumerate(CHAIN_LENGTHS) if most is None or length <= most)] += (
            count
        )
    rows = [(_range(*CHAIN_LENGTHS[i]), f"{count:,}") for i, count in enumerate(chains) if count]
    _print_table(("operators in a chain", "job vertices"), rows)


def _range(low: int, high: int | None) -> str:
    return f"{low} and more" if high is None else str(low) if low == high else f"{low} to {high}"


def _print_reasons(edges: pl.LazyFrame) -> None:
    counts = edges.select(edges=pl.len(), chained=IS_CHAINED.sum())
    reasons = (
        edges.filter(~IS_CHAINED)
        .select(reason="not_chainable_reasons")
        .explode("reason")
        .drop_nulls()
        .group_by("reason")
        .len("count")
        .sort("count", "reason", descending=[True, False])
        .head(MOST)
    )
    counted, why = pl.collect_all([counts, reasons], engine="streaming")
    total, chained = counted.row(0)
    if not total:
        return
    rows = [
        (reason, f"{count:,}", f"{count / total:.1%}")
        for reason, count in [("(chained)", chained), *why.iter_rows()]
    ]
    _print_table(("why edges are not chained", "stream edges", "of all"), rows)
    if chained + sum(count for _, count in why.iter_rows()) > total:
        shares = f"shares are of all {total:,} edges, and add up to more than 100%"
        print_line(f"an edge counts once for each of its reasons: {shares}")


def _print_refusals(rejected: pl.LazyFrame) -> None:
    errors = (
        rejected.select("error_stage", "error", "name", "message")
        .sort("name", "message")
        .group_by("error_stage", "error")
        .agg(pl.len().alias("count"), pl.first("name", "message"))
        .sort("count", "error", "error_stage", descending=[True, False, False])
        .head(MOST)
        .select("error", "error_stage", "count", "name", "message")
    )
    rows = [
        (error, stage, f"{count:,}", f"{name or '(no name)'}: {message}")
        for error, stage, count, name, message in errors.collect().iter_rows()
    ]
    if rows:
        _print_table(("refused with", "stage", "topologies", "for example"), rows)


def _print_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    numeric = ("count", "job vertices", "stream edges", "of all", "topologies")
    print_line()
    print_table(
        [
            Column(name, justify="right", no_wrap=True) if name in numeric else Column(name)
            for name in columns
        ],
        rows,
    )
