"""Quality of plans for a person at a terminal."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import write_deltalake
from rich.table import Column

from penstock.engine.machine.replace_file import replace_file
from penstock.engine.measure.bench.measure_suites import draw_differences
from penstock.engine.measure.bench.print_results import render_template
from penstock.engine.output.people import is_terminal, print_table
from penstock.engine.output.pieces import Styled
from penstock.engine.output.say import say, say_beside_output
from penstock.engine.planning.tell_metrics import number
from penstock.plans.metrics.plan_metrics import MODEL_ERROR


def print_quality(cases: Sequence[Mapping[str, Any]]) -> None:
    """Speed of each planner, then for each pair the metrics whose values differ."""
    to_the_left = ("suite", "planner")
    named = ("suite", "topologies", "operators", "planner", "planning s", "metrics s", "planned", "rejected")
    columns = [
        Column(n, justify="left" if n in to_the_left else "right", no_wrap=n not in to_the_left)
        for n in named
    ]
    print_table(columns, [
        (
            case["suite"], f"{case['inputs']:,}", f"{case['operators']:,}", row["planner"],
            f"{row['planning_seconds']:.2f}", f"{row['metrics_seconds']:.2f}",
            f"{row['planned']:,}", f"{row['rejected']:,}",
        )
        for case in cases for row in case["planners"]
    ])  # fmt: skip
    for case in cases:
        for row in case["planners"]:
            for rule, count in row["rejected_for"].items():
                name, message = row["rejected_as"][rule]
                said = f"{row['planner']}: {count:,} topologies rejected: {rule}; the first is {name}:"
                why = message.splitlines()[0].removeprefix(f"planner {row['planner']}: ")
                say_beside_output(Styled(f"{said} {why.removeprefix(f'{rule}: ')}", "dim"))
        for pair in case["compared"]:
            _print_pair(case, pair)


def _print_pair(case: Mapping[str, Any], pair: Mapping[str, Any]) -> None:
    if is_terminal():
        say()
    say(
        f"{case['suite']}: {pair['other']} compared with {pair['base']}, {pair['topologies']:,} topologies "
        "that both planned"
    )
    if not pair["topologies"]:
        return
    named = ("metric", pair["base"], pair["other"], "difference", "95% interval", "better", "equal", "worse")
    columns = [Column(name, justify="left" if name == "metric" else "right", no_wrap=True) for name in named]
    differing = [entry for entry in pair["metrics"] if entry["better"] or entry["worse"]]
    print_table(columns, [
        (
            entry["metric"], number(entry["base"]), number(entry["other"]), number(entry["difference"]),
            f"{number(entry['low'])} … {number(entry['high'])}",
            f"{entry['better']:,}", f"{entry['equal']:,}", f"{entry['worse']:,}",
        )
        for entry in differing
    ])  # fmt: skip
    same = [entry["metric"] for entry in pair["metrics"] if entry not in differing]
    if same:
        say(f"equal everywhere: {', '.join(same)}")
    say(f"rates that differ by less than {MODEL_ERROR:.0%}, the error of the cost model, count as equal")
    for entry in differing:
        for kind in ("gains", "losses"):
            if entry["metric"] in ("sustained_records_per_second", "tasks", "slots") and entry[kind]:
                listed = ", ".join(
                    f"{topology['topology']} ({number(topology['difference'])})" for topology in entry[kind]
                )
                say(f"{entry['metric']}, largest {kind}: {listed}")


# Quality of plans in a folder: a JSON document, rows of a Delta table, and a page.


Rows = tuple[str, int, str, pl.DataFrame]
"""Suite, size, planner and plan_metrics."""


def write_quality(folder: Path, results: Mapping[str, Any], plans: Sequence[Rows]) -> None:
    """quality.json and quality.html are replaced; rows of plan_metrics are added to the table `quality`."""
    with replace_file(folder / "quality.json") as file:
        file.write(f"{json.dumps(results, indent=1)}\n".encode())
    with replace_file(folder / "quality.html") as file:
        file.write(render_quality(results).encode())
    for suite, size, planner, rows in plans:
        named = rows.select(
            pl.lit(results["date"]).alias("date"),
            pl.lit(suite).alias("suite"),
            pl.lit(size).cast(pl.Int64).alias("size"),
            pl.lit(planner).alias("planner"),
            pl.all(),
        )
        floats = named.with_columns(
            pl.col(n).cast(pl.Int64) for n, k in named.schema.items() if k.is_integer()
        )
        write_deltalake(
            str(folder / "quality"),
            floats.to_arrow(compat_level=pl.CompatLevel.oldest()),
            mode="append",
            schema_mode="merge",
        )


def render_quality(results: Mapping[str, Any]) -> str:
    """The page with the results of bench --quality."""
    return render_template("quality.html.j2", results=results, number=number, plot=draw_differences)
