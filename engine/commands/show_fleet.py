"""The summary of all plans of a version."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from rich.markup import escape
from rich.table import Table

from engine.commands.people import console_for_people, print_table
from engine.commands.show_resources import has_resources, show_fleet_resources
from engine.store.plan_versions import PlanVersion

CHAIN_LENGTHS = ((1, 1), (2, 2), (3, 3), (4, 7), (8, 15), (16, 63), (64, None))
MOST = 10
"""Lines of a table that counts kinds of things."""

_COUNTED = (
    ("operators", "stream_nodes"),
    ("stream edges", "stream_edges"),
    ("job vertices", "job_vertices"),
    ("job edges", "job_edges"),
    ("data sets", "intermediate_data_sets"),
    ("slot sharing groups", "slot_sharing_groups"),
    ("execution vertices", "execution_vertices"),
)


def show_fleet(store: str, version: PlanVersion, tables: Mapping[str, DataFrame]) -> None:
    """Print counts, chain lengths, why edges are not chained, resources, and refusals by error."""
    console = console_for_people()
    planner = f", penstock {version.planner_version}" if version.planner_version else ""
    console.print(
        f"[bold]{escape(store)}[/bold] version {version.version} "
        f"({version.published_at:%Y-%m-%d %H:%M:%S}{planner})"
    )
    _print_counts(tables)
    if "chained_operators" in tables:
        _print_chain_lengths(tables["chained_operators"])
    if "stream_edges" in tables:
        _print_reasons(tables["stream_edges"])
    if has_resources(tables):
        show_fleet_resources(tables, version.options)
    _print_refusals(tables["rejected"])


def _print_counts(tables: Mapping[str, DataFrame]) -> None:
    refused = tables["rejected"].select("topology_id").where("error_stage != 'input'")
    planned = tables["topologies"].join(refused, "topology_id", "left_anti").count()
    counts = [("planned", planned), ("refused", tables["rejected"].count())]
    counts += [(label, tables[name].count()) for label, name in _COUNTED if name in tables]
    _print_table(("", "count"), [(label, f"{count:,}") for label, count in counts])


def _print_chain_lengths(operators: DataFrame) -> None:
    lengths = operators.groupBy("topology_id", "vertex").agg(F.count("*").alias("length"))
    bucket: Column = F.lit(len(CHAIN_LENGTHS) - 1)
    for position, (_, high) in reversed(list(enumerate(CHAIN_LENGTHS[:-1]))):
        bucket = F.when(F.col("length") <= high, position).otherwise(bucket)
    found = {r["bucket"]: r["count"] for r in lengths.groupBy(bucket.alias("bucket")).count().collect()}
    rows = [(_range(*CHAIN_LENGTHS[position]), f"{found[position]:,}") for position in sorted(found)]
    _print_table(("operators in a chain", "job vertices"), rows)


def _range(low: int, high: int | None) -> str:
    return f"{low} and more" if high is None else str(low) if low == high else f"{low} to {high}"


def _print_reasons(edges: DataFrame) -> None:
    counts = edges.agg(F.count("*").alias("edges"), F.count_if("chainable").alias("chained")).first()
    if counts is None or not counts["edges"]:
        return
    reasons = (
        edges.select(F.explode("not_chainable_reasons").alias("reason"))
        .groupBy("reason")
        .count()
        .orderBy(F.desc("count"), "reason")
        .limit(MOST)
        .collect()
    )
    total = counts["edges"]
    rows = [("(chained)", f"{counts['chained']:,}", f"{counts['chained'] / total:.1%}")]
    rows += [(r["reason"], f"{r['count']:,}", f"{r['count'] / total:.1%}") for r in reasons]
    _print_table(("why edges are not chained", "stream edges", "of all"), rows)


def _print_refusals(rejected: DataFrame) -> None:
    errors = (
        rejected.groupBy("error_stage", "error")
        .agg(F.count("*").alias("count"), F.min(F.struct("name", "message")).alias("example"))
        .orderBy(F.desc("count"), "error")
        .limit(MOST)
        .collect()
    )
    rows = [
        (
            r["error"],
            r["error_stage"],
            f"{r['count']:,}",
            f"{r['example']['name'] or '(no name)'}: {r['example']['message']}",
        )
        for r in errors
    ]
    if rows:
        _print_table(("refused with", "stage", "topologies", "for example"), rows)


def _print_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    table = Table(show_edge=False, pad_edge=False, title_justify="left")
    for name in columns:
        numeric = name in ("count", "job vertices", "stream edges", "of all", "topologies")
        table.add_column(name, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    console_for_people().print()
    print_table(table)
