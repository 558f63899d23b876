"""The summary of all plans of a version."""

from collections.abc import Sequence

import polars as pl
from rich.table import Column

from penstock.engine.commands.show_resources import has_resources, show_fleet_resources
from penstock.engine.output.people import print_table
from penstock.engine.output.pieces import Styled
from penstock.engine.output.say import say
from penstock.engine.store.open_plan import StoredPlan
from penstock.plans.job_graph.columnar.is_chained import IS_CHAINED
from penstock.plans.tables.column_types import TOPOLOGY

CHAIN_LENGTHS = ((1, 1), (2, 2), (3, 3), (4, 7), (8, 15), (16, 63), (64, None))
MOST = 10
"""Lines of a table that counts kinds of things."""

COUNTED = (
    ("operators", "stream_nodes"),
    ("stream edges", "stream_edges"),
    ("job vertices", "job_vertices"),
    ("job edges", "job_edges"),
    ("data sets", "intermediate_data_sets"),
    ("slot sharing groups", "slot_sharing_groups"),
    ("execution vertices", "execution_vertices"),
)


def show_fleet(store: str, plan: StoredPlan) -> None:
    """Print counts, chain lengths, why edges are not chained, resources, and refusals by error."""
    version = plan.version
    planner = f", penstock {version.planner_version}" if version.planner_version else ""
    say(
        Styled(store, "bold"),
        f" version {version.version} ({version.published_at.astimezone():%Y-%m-%d %H:%M:%S}{planner})",
    )
    _print_counts(plan)
    if plan.has("chained_operators"):
        _print_chain_lengths(plan.table("chained_operators"))
    if plan.has("stream_edges"):
        _print_reasons(plan.table("stream_edges"))
    if has_resources(plan):
        show_fleet_resources(plan)
    _print_refusals(plan.table("rejected"))


def _print_counts(plan: StoredPlan) -> None:
    counted = {
        "planned": plan.table("topologies"),
        "refused": plan.table("rejected"),
        **{label: plan.table(name) for label, name in COUNTED if plan.has(name)},
    }
    found = pl.collect_all([rows.select(pl.len()) for rows in counted.values()], engine="streaming")
    rows = [(label, f"{count.item():,}") for label, count in zip(counted, found, strict=True)]
    _print_table(("", "count"), rows)


def _print_chain_lengths(operators: pl.LazyFrame) -> None:
    lengths = operators.group_by(TOPOLOGY, "vertex").len("length")
    counted = lengths.group_by("length").len().sort("length").collect(engine="streaming")
    found = [0] * len(CHAIN_LENGTHS)
    for length, count in counted.iter_rows():
        found[next(i for i, (_, most) in enumerate(CHAIN_LENGTHS) if most is None or length <= most)] += count
    rows = [(_range(*CHAIN_LENGTHS[i]), f"{count:,}") for i, count in enumerate(found) if count]
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
        said = f"shares are of all {total:,} edges, and add up to more than 100%"
        say(f"an edge counts once for each of its reasons: {said}")


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
    say()
    print_table(
        [
            Column(name, justify="right", no_wrap=True) if name in numeric else Column(name)
            for name in columns
        ],
        rows,
    )
