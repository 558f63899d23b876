"""Results of a sweep as a frame, with a column for each axis of its grid."""

import os
from collections.abc import Sequence
from difflib import get_close_matches

import polars as pl

from penstock.engine.store.delta_rs_table import open_table, to_table
from penstock.engine.store.store_errors import store_errors
from penstock.engine.sweep.results_table import ABOUT, MEASURED, RESULTS
from penstock.engine.sweep.sweep_spec import PARAMETERS
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.columnar.frames import from_arrow
from penstock.plans.errors import ConfigurationError, InputError

MEASURES = ("planning_seconds", "metrics_seconds", "read_seconds", "cpu_seconds", "peak_memory_bytes")
_AXES = ("shape", "file", "spec", *(f"drawn_{name}" for name in PARAMETERS), "costs", "planner")
_COUNTS = ("inputs", "planned", "rejected")


@without_pandas()
def read_results(folder: str) -> pl.DataFrame:
    """All rows without an error. Columns: axes, each option of Flink by its key, counts and measures.

    Of rows that differ in code alone (of a planner, of Penstock) the newest is taken. Values of options that
    are all whole numbers are numbers. Raises InputError where no sweep has written.
    """
    path = os.path.join(folder, RESULTS)
    with store_errors(path, "reading"):
        delta_table = open_table(path)
        if delta_table is None:
            raise InputError(f"{folder}: found no results of a sweep", "penstock sweep SPEC.yaml --out DIR")
        table = to_table(delta_table.scan())
    options_of_rows = [dict(options or ()) for options in table["options"].to_pylist()]
    keys = sorted({key for options in options_of_rows for key in options})
    options = [
        pl.Series(key, [options.get(key) for options in options_of_rows], dtype=pl.String) for key in keys
    ]
    rows = from_arrow(table.drop_columns(["options"])).with_columns(map(_typed, options))
    known = rows.filter(pl.col("error").is_null()).sort("date", maintain_order=True)
    same = [name for name in ("topologies", *_AXES, *keys, "repetition") if name in known.columns]
    return known.unique(same, keep="last", maintain_order=True)


def axes_of(rows: pl.DataFrame) -> list[str]:
    """The columns that tell cells apart: axes and options that have several values."""
    names = [*_AXES, *(name for name in rows.columns if name not in ABOUT)]
    return [name for name in names if name in rows.columns and rows[name].n_unique() > 1]


def require_axis(rows: pl.DataFrame, name: str, option: str) -> str:
    """A column that rows can be grouped by. Raises ConfigurationError."""
    allowed = [*_AXES, "topologies", *(column for column in rows.columns if column not in ABOUT)]
    return _one_of(option, name, [column for column in allowed if column in rows.columns])


def require_measure(name: str, option: str) -> str:
    """A column that is measured. Raises ConfigurationError."""
    return _one_of(
        option, name, [*MEASURES, *_COUNTS, *MEASURED, *(f"{measure}_p95" for measure in MEASURED)]
    )


def summarised(rows: pl.DataFrame, by: Sequence[str], measures: Sequence[str]) -> pl.DataFrame:
    """For each combination of `by`: how many cells, and mean, least and largest of each measure."""
    grouped = (
        rows.group_by(by, maintain_order=True) if by else rows.with_columns(all=pl.lit("all")).group_by("all")
    )
    summary = grouped.agg(
        pl.len().alias("cells"),
        *(pl.col(name).cast(pl.Float64).mean().alias(name) for name in measures),
        *(pl.col(name).cast(pl.Float64).min().alias(f"{name} least") for name in measures),
        *(pl.col(name).cast(pl.Float64).max().alias(f"{name} largest") for name in measures),
    )
    return summary.sort(by) if by else summary.drop("all")


def _one_of(option: str, name: str, allowed: list[str]) -> str:
    if name not in allowed:
        close = get_close_matches(name, allowed, n=1)
        hint = f"did you mean {close[0]}?" if close else f"allowed {', '.join(allowed)}"
        raise ConfigurationError(f"{option}: found {name!r}, no such column of the results", hint)
    return name


def _typed(values: pl.Series) -> pl.Series:
    numbers = values.cast(pl.Int64, strict=False)
    return numbers if numbers.null_count() == values.null_count() else values
