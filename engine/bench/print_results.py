"""Results for a person at a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.markup import escape
from rich.table import Table

from engine.bench.summarise import best_planning
from engine.commands.people import console_for_people, print_table


def results_table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Medians: planning (warm, cold), reading, start-up, operators a second, memory and the ratio."""
    columns = (
        "planning s",
        "cold s",
        "reading s",
        "start-up s",
        "operators/s",
        "peak GiB",
        "speed",
    )
    table = _table(("suite", "operators", "planner", *columns, "failed"), left=("suite", "planner", "failed"))
    last = None
    for row in rows:
        case = (row["suite"], row["size"])
        if last not in (None, case):
            table.add_section()
        last = case
        table.add_row(
            escape(row["suite"]), f"{row['operators']:,}", row["planner"], *figures(row), failed(row)
        )
    return table


def figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns between planner and failures, as text; a dash is what was not measured."""
    cold, times = row["cold"], row["warm"] or row["cold"]
    return (
        _seconds(best_planning(row)),
        _seconds(cold and cold["planning"]),
        _seconds(times and times["read"]),
        _seconds(row["start_up_seconds"]),
        "-" if row["operators_per_second"] is None else f"{row['operators_per_second']:,}",
        "-" if row["peak_memory_bytes"] is None else f"{row['peak_memory_bytes'] / 2**30:.2f}",
        "-" if row["ratio"] is None else f"{row['ratio']:,.2f} x {row['ratio_to']}",
    )


def failed(row: Mapping[str, Any]) -> str:
    """How many repetitions failed and with what."""
    errors = sorted({failure["error"] for failure in row["failures"]})
    return f"{len(row['failures'])} of {row['repetitions']}: {', '.join(errors)}" if errors else ""


def print_equality(equality: Iterable[Mapping[str, Any]]) -> None:
    """A line a suite: whether planners give equal plans, and the first topology where they differ."""
    for line in equality_lines(equality):
        console_for_people().print(escape(line))


def equality_lines(equality: Iterable[Mapping[str, Any]]) -> list[str]:
    """What print_equality prints."""
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


def comparison_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Ratios new/old of all but start-up."""
    table = _table(
        ("suite", "operators", "planner", "old s", "new s", "new/old", ""), left=("suite", "planner", "")
    )
    for row in rows:
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        said = ("slower" if row["ratio"] is not None else "failed") if row["slower"] else ""
        cells = (_seconds(row["old"]), _seconds(row["new"]), ratio, said)
        table.add_row(escape(row["suite"]), f"{row['operators']:,}", row["planner"], *cells)
    return table


def print_tables(*tables: Table) -> None:
    """Tables with an empty line before each on a terminal."""
    console = console_for_people()
    for table in tables:
        if console.is_terminal:
            console.print()
        print_table(table)


def _table(columns: Sequence[str], left: Sequence[str]) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=name not in left)
    return table


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:,.1f}" if seconds >= 100 else f"{seconds:.2f}" if seconds >= 1 else f"{seconds:.3f}"
