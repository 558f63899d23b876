"""Results for a person at a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich.table import Column

from penstock.engine.measure.bench.history import Series
from penstock.engine.measure.bench.how_sure import seconds_text
from penstock.engine.measure.bench.summarise import best_planning
from penstock.engine.output.people import is_terminal, print_table
from penstock.engine.output.say import say


def print_results(rows: Iterable[Mapping[str, Any]]) -> None:
    """Medians and how far they may be off. On a terminal: what fits 80 columns, a table for each suite."""
    listed = list(rows)
    if is_terminal():
        for suite, of_suite in groupby(listed, key=lambda row: str(row["suite"])):
            say()
            say(suite)
            _print_suite(list(of_suite))
        return
    measured = (
        "planning s",
        "from … to",
        "cold s",
        "reading s",
        "start-up s",
        "CPU s",
        "peak GiB",
        "speed",
    )
    columns = _columns(("suite", "operators", "planner", *measured, "failed"), ("suite", "planner", "failed"))
    _print_table(columns, [_cells(row) for row in listed])


def _print_suite(rows: Sequence[Mapping[str, Any]]) -> None:
    """The speed, which is last of `figures`, without the planner that it is relative to; the page has all."""
    bases = sorted({row["ratio_to"] for row in rows if row["ratio_to"]})
    speed = f"x {' or '.join(bases)}" if bases else "speed"
    named = ("operators", "planner", "plan s", "from … to", "CPU s", "GiB", speed)
    columns = _columns(named, ("planner",))
    sizes = groupby(rows, key=lambda row: row["size"])
    print_table(columns, *([_short_cells(row) for row in of_size] for _, of_size in sizes))
    for row in rows:
        if failed(row):
            say(f"{row['operators']:,} {row['planner']}: failed {failed(row)}")


def _short_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    spent, ends, _, _, _, cpu, memory, _ = figures(row)
    speed = "-" if row["ratio"] is None else f"{row['ratio']:,.2f}"
    return (f"{row['operators']:,}", row["planner"], spent, ends, cpu, memory, speed)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["suite"], f"{row['operators']:,}", row["planner"], *figures(row), failed(row))


def figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns between planner and failures, as text; a dash is what was not measured."""
    cold, times = row["cold"], row["warm"] or row["cold"]
    return (
        seconds_text(best_planning(row)),
        _ends(row["interval"]),
        seconds_text(cold and cold["planning"]),
        seconds_text(times and times["read"]),
        seconds_text(row["start_up_seconds"]),
        seconds_text(row["cpu_seconds"]),
        "-" if row["peak_memory_bytes"] is None else f"{row['peak_memory_bytes'] / 2**30:.2f}",
        "-" if row["ratio"] is None else f"{row['ratio']:,.2f} x {row['ratio_to']}",
    )


def _ends(interval: Sequence[float] | None) -> str:
    """The ends of an interval of more than one measurement."""
    if interval is None or not interval[2]:
        return "-"
    return f"{seconds_text(interval[0])} … {seconds_text(interval[1])}"


def failed(row: Mapping[str, Any]) -> str:
    """How many repetitions failed and with what."""
    errors = sorted({failure["error"] for failure in row["failures"]})
    return f"{len(row['failures'])} of {row['repetitions']}: {', '.join(errors)}" if errors else ""


def print_equality(equality: Iterable[Mapping[str, Any]]) -> None:
    """One line per suite: whether planners give equal plans, and the first topology where they differ."""
    for line in equality_lines(equality):
        say(line)


def equality_lines(equality: Iterable[Mapping[str, Any]]) -> list[str]:
    """The sentences that print_equality prints."""
    lines = []
    for entry in equality:
        where = f"{entry['suite']} at {entry['operators']:,} operators"
        lines += [
            f"{where}: {planner} gave no plans to compare: {failure['error']}"
            for planner, failure in entry["failures"].items()
        ]
        different = [pair for pair in entry["pairs"] if pair["differing"]]
        lines += [
            f"{where}: {' and '.join(pair['planners'])} differ at {pair['layer']} in "
            f"{pair['differing']:,} of {pair['topologies']:,} topologies, first in {pair['first']}"
            for pair in different
        ]
        planners = sorted({planner for pair in entry["pairs"] for planner in pair["planners"]})
        if planners and not different:
            lines.append(f"{where}: the plans of {' and '.join(planners)} are equal in every layer")
    return lines


def print_comparison(rows: Sequence[Mapping[str, Any]]) -> None:
    """Ratios new/old of all but start-up."""
    columns = _columns(
        ("suite", "operators", "planner", "old s", "new s", "new/old", ""), ("suite", "planner", "")
    )
    compared = []
    for row in rows:
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        said = ("slower" if row["ratio"] is not None else "failed") if row["slower"] else ""
        cells = (seconds_text(row["old"]), seconds_text(row["new"]), ratio, said)
        compared.append((row["suite"], f"{row['operators']:,}", row["planner"], *cells))
    _print_table(columns, compared)


def _print_table(columns: Sequence[Column], *groups: Sequence[Sequence[str]]) -> None:
    if is_terminal():
        say()
    print_table(columns, *groups)


def _columns(names: Sequence[str], left_aligned: Sequence[str]) -> list[Column]:
    return [
        Column(name) if name in left_aligned else Column(name, justify="right", no_wrap=True)
        for name in names
    ]


def print_history(series: Iterable[Series]) -> None:
    """The first and the newest run of each series, and a sentence for each change."""
    listed = list(series)
    named = ("suite", "operators", "planner", "runs", "since", "first s", "newest s")
    columns = _columns(named, ("suite", "planner", "since"))
    _print_table(
        columns,
        [
            (
                one_series.suite,
                f"{one_series.operators:,}",
                one_series.planner,
                f"{len(one_series.runs):,}",
                one_series.runs[0].date[:10],
                seconds_text(one_series.runs[0].seconds),
                seconds_text(one_series.runs[-1].seconds),
            )
            for one_series in listed
        ],
    )
    for one_series in listed:
        for change in one_series.changes:
            run, last = one_series.runs[change.place], one_series.runs[change.place - 1]
            slower = change.after > change.before
            ratio = max(change.after, change.before) / min(change.after, change.before)
            upgraded = f"; Penstock {last.version} before, {run.version} then" * (run.version != last.version)
            say(
                f"{one_series.suite}, {one_series.operators:,} operators: "
                f"{one_series.planner} is {ratio:.2f} times as "
                f"{'slow' if slower else 'fast'} since {run.date}: {seconds_text(change.after)} s, "
                f"{seconds_text(change.before)} s before{upgraded}"
            )
    if listed and not any(one_series.changes for one_series in listed):
        say("no change of the medians that is more than noise")
