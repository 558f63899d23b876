"""What is chosen of results for a table or a figure."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from penstock.engine.sweep.plot_results import plot_results
from penstock.engine.sweep.read_results import axes_of, require_axis, require_measure, summarised
from penstock.engine.sweep.table_format import DEFAULT_METRICS
from penstock.plans.errors import ConfigurationError


def results_in_rows(
    rows: pl.DataFrame, by: Sequence[str] | None, metrics: Sequence[str] | None
) -> pl.DataFrame:
    """Means of metrics (None: DEFAULT_METRICS) over cells that are alike in `by` (None: all that differs).

    Raises ConfigurationError.
    """
    keys = axes_of(rows) if by is None else [require_axis(rows, name, "by") for name in by]
    measures = [require_measure(name, "metric") for name in metrics or DEFAULT_METRICS]
    return summarised(rows, keys, measures).select(*keys, "cells", *measures)


def figure_of_results(rows: pl.DataFrame, x: str | None, y: str, by: str | None) -> Any:
    """See plot_results; None: the first axis with numbers, else the first; lines of planners, if several.

    Raises ConfigurationError.
    """
    axes = axes_of(rows)
    measure = require_measure(y, "y")
    if by is None and "planner" in axes:
        by = "planner"
    if x is None:
        left = [name for name in axes if name != by]
        numbers = [name for name in left if rows.schema[name].is_numeric()]
        if not left and by is None:
            raise ConfigurationError("x: found no column with several values", "name one")
        x = (numbers or left or [str(by)])[0]
    return plot_results(
        rows, require_axis(rows, x, "x"), measure, None if by is None else require_axis(rows, by, "by")
    )
