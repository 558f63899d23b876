"""Tables as papers and pages take them: LaTeX, Markdown and CSV."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

import polars as pl

from penstock.engine.measure.sweep.plot_results import plot_results
from penstock.engine.measure.sweep.read_results import axes_of, require_axis, require_measure, summarised
from penstock.engine.measure.sweep.sweep_spec import DEFAULT_METRICS, TableFormat
from penstock.plans.errors import ConfigurationError
from penstock.plans.printable import printable

_LARGE = 1e15
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "[": "{[}", "*": "{*}",
}  # fmt: skip
# What follows \\ in brackets is a length to LaTeX, and a star is a part of it.
_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>#|~]")


def formatted(rows: pl.DataFrame, form: TableFormat) -> str:
    """The table as text; numbers below 1,000 with four significant digits, but in CSV as they are."""
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


# Chooses the results for a table or a figure.


def results_in_rows(
    rows: pl.DataFrame, by: Sequence[str] | None, metrics: Sequence[str] | None
) -> pl.DataFrame:
    """Means of metrics (None: DEFAULT_METRICS) over cells that are alike in `by` (None: all that differs).

    `failed` counts cells whose planner failed for topologies, `compared` the topologies that all planned.

    Raises ConfigurationError.
    """
    keys = axes_of(rows) if by is None else [require_axis(rows, name, "by") for name in by]
    measures = [require_measure(name, "metric") for name in metrics or DEFAULT_METRICS]
    return summarised(rows, keys, measures).select(*keys, "cells", "failed", "compared", *measures)


def figure_of_results(rows: pl.DataFrame, x: str | None, y: str, by: str | None) -> Any:
    """The figure of plot_results. Default x: the first numeric axis, else the first; default lines: planners.

    Raises ConfigurationError.
    """
    axes = axes_of(rows)
    measure = require_measure(y, "y")
    if by is None and "planner" in axes:
        by = "planner"
    if x is None:
        other_axes = [name for name in axes if name != by]
        numbers = [name for name in other_axes if rows.schema[name].is_numeric()]
        if not other_axes and by is None:
            raise ConfigurationError("x: found no column with several values", "name one")
        x = (numbers or other_axes or [str(by)])[0]
    return plot_results(
        rows, require_axis(rows, x, "x"), measure, None if by is None else require_axis(rows, by, "by")
    )
