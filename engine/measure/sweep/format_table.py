"""Tables (LaTeX, Markdown, CSV) and figures of a sweep's results for papers and pages."""

import csv
import io
import os
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import polars as pl

from penstock.engine.measure.sweep.results_table import ABOUT, MEASURED, QUALITY, RESULTS
from penstock.engine.measure.sweep.sweep_spec import DEFAULT_METRICS, PARAMETERS, TableFormat
from penstock.engine.output.figures import (
    MARKERS,
    axis_label,
    choose_scale,
    figure_bytes,
    figure_text,
    new_figure,
)
from penstock.engine.store.delta_table import open_table, to_table
from penstock.engine.store.store_location import locate, store_errors
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.printable import printable

# Results of a sweep as a frame with a column for each axis of its grid.


MEASURES = ("planning_seconds", "metrics_seconds", "read_seconds", "cpu_seconds", "peak_memory_bytes")
_AXES = ("shape", "file", "spec", *(f"drawn_{name}" for name in PARAMETERS), "costs", "planner")
_NO_AXES = (*ABOUT, "failed", "compared")
_COUNTS = ("inputs", "planned", "rejected")


@without_pandas()
def read_results(folder: str) -> pl.DataFrame:
    """Read all rows. Columns: axes, Flink's options by key, counts and measures, `failed`, `compared`.

    Metrics are over the `compared` topologies that all planners planned. Seconds are null if a planner has no
    result for the same topologies and options: otherwise a planner that fails for large topologies would look
    better. `failed`: the planner failed for all or some topologies. A planner that has planned nothing is
    not compared.

    Of rows that differ only in code (of a planner, of Penstock), the newest is used. Values of options that
    are all integers are numbers. Raises InputError if the folder has no results of a sweep.
    """
    path = os.path.join(folder, RESULTS)
    with store_errors(path, "reading"):
        delta_table = open_table(locate(path))
        if delta_table is None:
            raise InputError(f"{folder} has no results of a sweep", "penstock sweep SPEC.yaml --out DIR")
        table = to_table(delta_table.scan())
    options_of_rows = [dict(options or ()) for options in table["options"].to_pylist()]
    keys = sorted({key for options in options_of_rows for key in options})
    options = [
        pl.Series(key, [options.get(key) for options in options_of_rows], dtype=pl.String) for key in keys
    ]
    rejected = [bool(rules) for rules in table["rejected_for"].to_pylist()]
    rows = from_arrow(table.drop_columns(["options"])).with_columns(
        *map(_typed, options), failed=pl.col("error").is_not_null() | pl.Series(rejected)
    )
    same = [name for name in ("topologies", *_AXES, *keys, "repetition") if name in rows.columns]
    newest = rows.sort("date", maintain_order=True).unique(same, keep="last", maintain_order=True)
    return _over_common_topologies(folder, newest, [name for name in same if name != "planner"])


def _over_common_topologies(folder: str, rows: pl.DataFrame, point: Sequence[str]) -> pl.DataFrame:
    """Add `compared` to `rows`, and average metrics over the topologies that all rows of a point planned."""
    planned = pl.col("planned").fill_null(0)
    rows = rows.with_columns(compared=planned.cast(pl.Int64), row=pl.row_index())
    compared_planners = rows.filter(planned > 0)["planner"].unique()
    compared = rows.filter(pl.col("planner").is_in(compared_planners.implode()))
    unequal = compared.filter(pl.col("failed").any().over(point) & (pl.len().over(point) > 1))
    if unequal.is_empty():
        return rows.drop("row")
    key = ["cell", "repetition", "date"]
    quality = _quality(folder, unequal["cell"].unique().to_list())
    measured = unequal.select("row", *dict.fromkeys([*key, *point])).join(quality, on=key, nulls_equal=True)
    planners_of_point = unequal.group_by(point, maintain_order=True).agg(planners=pl.len())
    common = (
        measured.group_by(*point, "topology").agg(times=pl.len())
        .join(planners_of_point, on=point, nulls_equal=True)
        .filter(pl.col("times") == pl.col("planners"))
    )  # fmt: skip
    rows_in_common = measured.join(common, on=[*point, "topology"], how="semi", nulls_equal=True)
    summary = rows_in_common.group_by("row").agg(
        pl.len().cast(pl.Int64).alias("compared"),
        *(pl.col(name).mean() for name in MEASURED),
        *(pl.col(name).quantile(0.95).alias(f"{name}_p95") for name in MEASURED),
    )
    over_common = unequal.select("row").join(summary, on="row", how="left", maintain_order="left")
    over_common = over_common.with_columns(pl.col("compared").fill_null(0))
    without_result = unequal.filter(pl.col("error").is_not_null().any().over(point))["row"]
    replaced = ["compared", *MEASURED, *(f"{name}_p95" for name in MEASURED)]
    return (
        rows.join(over_common, on="row", how="left", suffix=" common", maintain_order="left")
        .with_columns(
            pl.when(pl.col("row").is_in(unequal["row"].implode()))
            .then(pl.col(f"{name} common"))
            .otherwise(pl.col(name))
            .alias(name)
            for name in replaced
        )
        .with_columns(
            pl.when(~pl.col("row").is_in(without_result.implode())).then(pl.col(name)).alias(name)
            for name in MEASURES
        )
        .select(rows.columns)
        .drop("row")
    )


def _quality(folder: str, cells: Sequence[str]) -> pl.DataFrame:
    """Read the metrics of the topologies of these cells."""
    path = os.path.join(folder, QUALITY)
    with store_errors(path, "reading"):
        delta_table = open_table(locate(path))
        if delta_table is None:
            columns = dict.fromkeys(MEASURED, pl.Float64)
            key: dict[str, Any] = {"cell": pl.String, "repetition": pl.Int32}
            key["date"] = pl.Datetime("us", "UTC")
            return pl.DataFrame(schema={**key, "topology": pl.String, **columns})
        listed = ", ".join(f"'{cell}'" for cell in cells)
        return from_arrow(to_table(delta_table.scan(predicate=f"cell in ({listed})")))


def _axes_of(rows: pl.DataFrame) -> list[str]:
    """Return the columns that distinguish cells, which are axes and options with several values."""
    names = [*_AXES, *(name for name in rows.columns if name not in _NO_AXES)]
    return [name for name in names if name in rows.columns and rows[name].n_unique() > 1]


def _require_axis(rows: pl.DataFrame, name: str, option: str) -> str:
    """Return a column that can group rows. Raises ConfigurationError."""
    allowed = [*_AXES, "topologies", *(column for column in rows.columns if column not in _NO_AXES)]
    return _one_of(option, name, [column for column in allowed if column in rows.columns])


def _require_measure(name: str, option: str) -> str:
    """Return a measured column. Raises ConfigurationError."""
    return _one_of(
        option, name, [*MEASURES, *_COUNTS, *MEASURED, *(f"{measure}_p95" for measure in MEASURED)]
    )


def _summarised(rows: pl.DataFrame, by: Sequence[str], measures: Sequence[str]) -> pl.DataFrame:
    """Summarise each combination of `by`.

    Columns: number of cells, cells whose planner failed, topologies that metrics are over, and mean, least
    and largest of each measure.
    """
    grouped = (
        rows.group_by(by, maintain_order=True) if by else rows.with_columns(all=pl.lit("all")).group_by("all")
    )
    summary = grouped.agg(
        pl.len().alias("cells"),
        pl.col("failed").sum(),
        pl.col("compared").sum(),
        *(pl.col(name).cast(pl.Float64).mean().alias(name) for name in measures),
        *(pl.col(name).cast(pl.Float64).min().alias(f"{name} least") for name in measures),
        *(pl.col(name).cast(pl.Float64).max().alias(f"{name} largest") for name in measures),
    )
    return summary.sort(by) if by else summary.drop("all")


def _one_of(option: str, name: str, allowed: list[str]) -> str:
    if name not in allowed:
        close = get_close_matches(name, allowed, n=1)
        hint = f"did you mean {close[0]}?" if close else f"choose one of {', '.join(allowed)}"
        raise ConfigurationError(f"{option} must be a column of the results, got {name!r}", hint)
    return name


def _typed(values: pl.Series) -> pl.Series:
    numbers = values.cast(pl.Int64, strict=False)
    return numbers if numbers.null_count() == values.null_count() else values


# A figure of results: a measure over an axis, with a line for each planner or another column that
# distinguishes cells.


FORMATS = ("svg", "pdf", "png")


def plot_results(rows: pl.DataFrame, x: str, y: str, by: str | None) -> Any:
    """Make a Figure of means of `y` over `x`, with bars from the smallest to the largest value.

    Each value of column `by` has its own line; its label has the number of cells in which the planner failed.
    Raises ConfigurationError if matplotlib is not installed, or there is nothing to draw.
    """
    known = rows.filter(pl.col(x).is_not_null() & pl.col(y).is_not_null())
    failed = failures_by(rows, by)
    if known.is_empty():
        failures = (
            f";  planners failed in {sum(count for count, _ in failed.values())} cells" if failed else ""
        )
        raise ConfigurationError(f"no result has {x} and {y}{failures}")
    is_number = known.schema[x].is_numeric()
    points = _summarised(known, list(dict.fromkeys([*([] if by is None else [by]), x])), [y])
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    labels = points[x].unique(maintain_order=True).sort().to_list()
    for place, (name, line_points) in enumerate(_lines(points, by)):
        places = line_points[x].to_list() if is_number else [labels.index(value) for value in line_points[x]]
        means, least, largest = (
            line_points[column].to_list() for column in (y, f"{y} least", f"{y} largest")
        )
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
    """Count failed and all cells for each value of `by` with failures; if `by` is None, the value is ""."""
    counts = rows.select(pl.lit("").alias("by") if by is None else pl.col(by).alias("by"), "failed")
    grouped = counts.group_by("by", maintain_order=True).agg(pl.col("failed").sum(), pl.len())
    return {name: (count, cells) for name, count, cells in grouped.iter_rows() if count}


def _label(name: Any, failed: Mapping[Any, tuple[int, int]]) -> str:
    if name not in failed:
        return figure_text(name)
    count, cells = failed[name]
    return figure_text(f"{name} (failed in {count:,} of {cells:,} cells)".strip())


def write_figure(figure: Any, to: Path) -> None:
    """Write a figure in the format of the file's ending. Raises ConfigurationError and MachineError."""
    form = to.suffix.lstrip(".").lower()
    if form not in FORMATS:
        allowed = ", ".join(f".{ending}" for ending in FORMATS)
        raise ConfigurationError(f"{to} must end in a known format", f"use one of {allowed}")
    from penstock.engine.machine.replace_file import replace_file

    drawn = figure_bytes(figure, form)
    with replace_file(to) as file:
        file.write(drawn)


def _lines(points: pl.DataFrame, by: str | None) -> list[tuple[Any, pl.DataFrame]]:
    if by is None:
        return [("", points)]
    return [(key[0], part) for key, part in points.group_by(by, maintain_order=True)]


_LARGE = 1e15
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "*": "{*}",
}  # fmt: skip
# LaTeX reads text in brackets after \\ as a length, and a star as part of it.
_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>#|~]")


def formatted(rows: pl.DataFrame, form: TableFormat) -> str:
    """Format the table; numbers below 1,000 have four significant digits, but all digits in CSV."""
    if form is TableFormat.CSV:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(rows.columns)
        writer.writerows(["" if value is None else value for value in row] for row in rows.iter_rows())
        return out.getvalue()
    numeric = [kind.is_numeric() for kind in rows.dtypes]
    cells = [[_text(value) for value in row] for row in rows.iter_rows()]
    return (_latex if form is TableFormat.LATEX else _markdown)(rows.columns, numeric, cells)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < _LARGE else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else printable(str(value))


def _latex(columns: Sequence[str], numeric: Sequence[bool], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join("".join(_LATEX.get(sign, sign) for sign in cell) for cell in cells) + r" \\"

    kinds = "".join("r" if is_number else "l" for is_number in numeric)
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", line(columns), r"\midrule", *map(line, rows),
            r"\bottomrule", r"\end{tabular}", "",
        ]
    )  # fmt: skip


def _markdown(columns: Sequence[str], numeric: Sequence[bool], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(_MARKDOWN.sub(r"\\\g<0>", cell) for cell in cells) + " |"

    rule = "|" + "|".join("---:" if is_number else "---" for is_number in numeric) + "|"
    return "\n".join([line(columns), rule, *map(line, rows), ""])


# Select results for a table or a figure.


def results_in_rows(
    rows: pl.DataFrame, by: Sequence[str] | None, metrics: Sequence[str] | None
) -> pl.DataFrame:
    """Average metrics (default DEFAULT_METRICS) over cells equal in `by` (default all differing columns).

    `failed` counts cells whose planner failed for topologies, `compared` topologies that all planners
    planned.

    Raises ConfigurationError.
    """
    keys = _axes_of(rows) if by is None else [_require_axis(rows, name, "by") for name in by]
    measures = [_require_measure(name, "metric") for name in metrics or DEFAULT_METRICS]
    return _summarised(rows, keys, measures).select(*keys, "cells", "failed", "compared", *measures)


def figure_of_results(rows: pl.DataFrame, x: str | None, y: str, by: str | None) -> Any:
    """Draw plot_results. Default x: the first numeric axis, else the first axis; default lines: planners.

    Raises ConfigurationError.
    """
    axes = _axes_of(rows)
    measure = _require_measure(y, "y")
    if by is None and "planner" in axes:
        by = "planner"
    if x is None:
        other_axes = [name for name in axes if name != by]
        numbers = [name for name in other_axes if rows.schema[name].is_numeric()]
        if not other_axes and by is None:
            raise ConfigurationError("no column has several values", "name a column as x")
        x = (numbers or other_axes or [str(by)])[0]
    return plot_results(
        rows, _require_axis(rows, x, "x"), measure, None if by is None else _require_axis(rows, by, "by")
    )
