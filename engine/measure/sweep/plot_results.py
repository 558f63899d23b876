"""A figure of results: a measure over an axis, a line for each planner or whatever else tells cells apart."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from penstock.engine.measure.sweep.read_results import summarised
from penstock.engine.output.figures import (
    MARKERS,
    axis_label,
    choose_scale,
    figure_bytes,
    figure_text,
    new_figure,
)
from penstock.plans.errors import ConfigurationError

FORMATS = ("svg", "pdf", "png")


def plot_results(rows: pl.DataFrame, x: str, y: str, by: str | None) -> Any:
    """A Figure of matplotlib: means of `y` over `x`, with bars from the least to the largest value.

    `by`: the column of which each value has a line of its own; its label says in how many cells the planner
    failed. Raises ConfigurationError where matplotlib is
    not installed, or there is nothing to draw.
    """
    known = rows.filter(pl.col(x).is_not_null() & pl.col(y).is_not_null())
    failed = failures_by(rows, by)
    if known.is_empty():
        why = f"; planners failed in {sum(count for count, _ in failed.values())} cells" if failed else ""
        raise ConfigurationError(f"found no result with {x} and {y}{why}")
    is_number = known.schema[x].is_numeric()
    points = summarised(known, list(dict.fromkeys([*([] if by is None else [by]), x])), [y])
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    labels = points[x].unique(maintain_order=True).sort().to_list()
    for place, (name, of_line) in enumerate(_lines(points, by)):
        places = of_line[x].to_list() if is_number else [labels.index(value) for value in of_line[x]]
        means, least, largest = (of_line[column].to_list() for column in (y, f"{y} least", f"{y} largest"))
        bars = [
            [mean - low for mean, low in zip(means, least, strict=True)],
            [high - mean for mean, high in zip(means, largest, strict=True)],
        ]
        style = {"marker": MARKERS[place % len(MARKERS)], "capsize": 3, "linewidth": 1.2, "markersize": 4}
        axes.errorbar(places, means, yerr=bars, label=_label(name, failed), **style)
    if is_number:
        choose_scale(axes.set_xscale, labels)
    else:
        axes.set_xticks(range(len(labels)), [figure_text(label) for label in labels], rotation=20, ha="right")
    choose_scale(axes.set_yscale, [value for value in points[f"{y} least"] if value is not None])
    axes.set_xlabel(axis_label(x))
    axes.set_ylabel(axis_label(y))
    axes.grid(alpha=0.3)
    if by is not None:
        without_line = [name for name in failed if name not in points[by].to_list()]
        for name in without_line:
            axes.plot([], [], " ", label=_label(name, failed))
        axes.legend(title=figure_text(by), frameon=False)
    elif failed:
        axes.set_title(_label("", failed), fontsize="medium")
    return figure


def failures_by(rows: pl.DataFrame, by: str | None) -> dict[Any, tuple[int, int]]:
    """For each value of `by` (None: of all rows, as "") with failures: cells that failed, and all cells."""
    counts = rows.select(pl.lit("").alias("by") if by is None else pl.col(by).alias("by"), "failed")
    grouped = counts.group_by("by", maintain_order=True).agg(pl.col("failed").sum(), pl.len())
    return {name: (count, cells) for name, count, cells in grouped.iter_rows() if count}


def _label(name: Any, failed: Mapping[Any, tuple[int, int]]) -> str:
    if name not in failed:
        return figure_text(name)
    count, cells = failed[name]
    return figure_text(f"{name} (failed in {count:,} of {cells:,} cells)".strip())


def write_figure(figure: Any, to: Path) -> None:
    """Write a figure as the end of the file's name says. Raises ConfigurationError and MachineError."""
    form = to.suffix.lstrip(".").lower()
    if form not in FORMATS:
        allowed = ", ".join(f".{ending}" for ending in FORMATS)
        raise ConfigurationError(f"{to}: the end of its name says no format", f"allowed: {allowed}")
    from penstock.engine.machine.replace_file import replace_file

    drawn = figure_bytes(figure, form)
    with replace_file(to) as file:
        file.write(drawn)


def _lines(points: pl.DataFrame, by: str | None) -> list[tuple[Any, pl.DataFrame]]:
    if by is None:
        return [("", points)]
    return [(key[0], part) for key, part in points.group_by(by, maintain_order=True)]
