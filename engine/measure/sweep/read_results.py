"""Results of a sweep as a frame, with a column for each axis of its grid."""

import os
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import polars as pl

from penstock.engine.measure.sweep.results_table import ABOUT, MEASURED, QUALITY, RESULTS
from penstock.engine.measure.sweep.sweep_spec import PARAMETERS
from penstock.engine.store.delta_rs_table import open_table, to_table
from penstock.engine.store.store_errors import store_errors
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.frames.polars_frames import from_arrow

MEASURES = ("planning_seconds", "metrics_seconds", "read_seconds", "cpu_seconds", "peak_memory_bytes")
_AXES = ("shape", "file", "spec", *(f"drawn_{name}" for name in PARAMETERS), "costs", "planner")
_NO_AXES = (*ABOUT, "failed", "compared")
_COUNTS = ("inputs", "planned", "rejected")


@without_pandas()
def read_results(folder: str) -> pl.DataFrame:
    """All rows. Columns: axes, each option of Flink by its key, counts and measures, `failed`, `compared`.

    Metrics are over the topologies that all planners planned, `compared` of them, and seconds are null where
    a planner has no result for the same topologies and options: else a planner that fails for large
    topologies would look better. `failed`: the planner failed for all topologies or some. A planner that has
    planned nothing at all is compared with nothing.

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
    rejected = [bool(rules) for rules in table["rejected_for"].to_pylist()]
    rows = from_arrow(table.drop_columns(["options"])).with_columns(
        *map(_typed, options), failed=pl.col("error").is_not_null() | pl.Series(rejected)
    )
    same = [name for name in ("topologies", *_AXES, *keys, "repetition") if name in rows.columns]
    newest = rows.sort("date", maintain_order=True).unique(same, keep="last", maintain_order=True)
    return _over_common_topologies(folder, newest, [name for name in same if name != "planner"])


def _over_common_topologies(folder: str, rows: pl.DataFrame, point: Sequence[str]) -> pl.DataFrame:
    """`rows` with `compared`, and metrics over the topologies that all rows of a point planned."""
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
    of_point = unequal.group_by(point, maintain_order=True).agg(planners=pl.len())
    common = (
        measured.group_by(*point, "topology").agg(times=pl.len())
        .join(of_point, on=point, nulls_equal=True)
        .filter(pl.col("times") == pl.col("planners"))
    )  # fmt: skip
    kept = measured.join(common, on=[*point, "topology"], how="semi", nulls_equal=True)
    summary = kept.group_by("row").agg(
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
    """The metrics of the topologies of these cells."""
    path = os.path.join(folder, QUALITY)
    with store_errors(path, "reading"):
        delta_table = open_table(path)
        if delta_table is None:
            columns = dict.fromkeys(MEASURED, pl.Float64)
            key: dict[str, Any] = {"cell": pl.String, "repetition": pl.Int32}
            key["date"] = pl.Datetime("us", "UTC")
            return pl.DataFrame(schema={**key, "topology": pl.String, **columns})
        listed = ", ".join(f"'{cell}'" for cell in cells)
        return from_arrow(to_table(delta_table.scan(predicate=f"cell in ({listed})")))


def axes_of(rows: pl.DataFrame) -> list[str]:
    """The columns that tell cells apart: axes and options that have several values."""
    names = [*_AXES, *(name for name in rows.columns if name not in _NO_AXES)]
    return [name for name in names if name in rows.columns and rows[name].n_unique() > 1]


def require_axis(rows: pl.DataFrame, name: str, option: str) -> str:
    """A column that rows can be grouped by. Raises ConfigurationError."""
    allowed = [*_AXES, "topologies", *(column for column in rows.columns if column not in _NO_AXES)]
    return _one_of(option, name, [column for column in allowed if column in rows.columns])


def require_measure(name: str, option: str) -> str:
    """A column that is measured. Raises ConfigurationError."""
    return _one_of(
        option, name, [*MEASURES, *_COUNTS, *MEASURED, *(f"{measure}_p95" for measure in MEASURED)]
    )


def summarised(rows: pl.DataFrame, by: Sequence[str], measures: Sequence[str]) -> pl.DataFrame:
    """For each combination of `by`: how many cells, in how many the planner failed, how many topologies
    metrics are over, and mean, least and largest of each measure."""
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
        hint = f"did you mean {close[0]}?" if close else f"allowed {', '.join(allowed)}"
        raise ConfigurationError(f"{option}: found {name!r}, no such column of the results", hint)
    return name


def _typed(values: pl.Series) -> pl.Series:
    numbers = values.cast(pl.Int64, strict=False)
    return numbers if numbers.null_count() == values.null_count() else values
