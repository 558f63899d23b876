"""Run sweeps by a library call."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.engine.library.check_arguments import (
    Config,
    arguments_of_call,
    path,
    require_session,
    seconds,
    strings,
)
from penstock.engine.measure.sweep.sweep_spec import DEFAULT_METRICS, TableFormat
from penstock.engine.output.pieces import html_table
from penstock.engine.planning.plan_by_custom_planners import DEFAULT_SECONDS
from penstock.plans.errors import ConfigurationError
from penstock.plans.printable import limited
from penstock.plans.vocabulary import TableFormatName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["sweep"]


class SweepResults(NamedTuple):
    """The measurements of a sweep.

    Attributes:
        cells: Cells in the grid.
        measured: Cells that this call measured.
        before: Cells that were measured earlier.
        failed: Cells whose planner failed for some topologies or all, each with its reason.
        folder: Holds the Delta tables results and quality, of this and earlier grids.
    """

    folder: str
    cells: int
    measured: int
    before: int
    failed: list[tuple[str, str]]

    @property
    def results(self) -> pa.Table:
        """All rows of the folder, typed: axes of the grid, options of Flink by key, counts, measures, errors.

        Metrics are means over the `compared` topologies that all planners planned.
        """
        return _arrow(self._rows())

    def table(self, by: Sequence[str] | None = None, metrics: Sequence[str] | None = None) -> pa.Table:
        """Average metrics over the cells with equal values in `by`.

        Args:
            by: Columns of `results`; default: all axes with several values.
            metrics: Columns of `results` to average; default: sustained_records_per_second, slots and
                planning_seconds.

        Returns:
            pyarrow.Table: The columns of `by`, numbers of cells, failed cells and compared topologies, and
            the metrics.

        Raises:
            ConfigurationError: There is no such column.
        """
        from penstock.engine.measure.sweep.format_table import results_in_rows

        return _arrow(results_in_rows(self._rows(), by, metrics))

    def format(
        self,
        format: TableFormatName,
        by: Sequence[str] | None = None,
        metrics: Sequence[str] | None = None,
    ) -> str:
        """Return the result of `table` as text.

        Args:
            format: "markdown", "latex" or "csv".
            by: As for `table`.
            metrics: As for `table`.

        Returns:
            The text, for LaTeX with the package booktabs.

        Raises:
            ConfigurationError: There is no such format or column.
        """
        from penstock.engine.library.check_arguments import member
        from penstock.engine.measure.sweep.format_table import formatted, results_in_rows

        return formatted(results_in_rows(self._rows(), by, metrics), member("format", format, TableFormat))

    def plot(self, x: str | None = None, y: str = DEFAULT_METRICS[0], by: str | None = None) -> Any:
        """Plot a measure over an axis of the grid.

        Args:
            x: Column of the horizontal axis; default: the first column of numbers with several values.
            y: Column of the vertical axis; default sustained_records_per_second.
            by: Column that has a line for each value; default: the planner.

        Returns:
            A Figure of matplotlib, which a notebook shows.

        Raises:
            ConfigurationError: matplotlib is not installed (extra `figures`), or there is no such column.
        """
        from penstock.engine.measure.sweep.format_table import figure_of_results

        return figure_of_results(self._rows(), x, y, by)

    def _rows(self) -> pl.DataFrame:
        from penstock.engine.measure.sweep.format_table import read_results

        return read_results(self.folder)

    def __repr__(self) -> str:
        return (
            f"<penstock.SweepResults: {self.cells:,} cells, {self.measured:,} measured now, "
            f"{self.before:,} before, {len(self.failed):,} failed>"
        )

    def _repr_html_(self) -> str:
        from penstock.engine.measure.sweep.format_table import results_in_rows

        table = results_in_rows(self._rows(), None, None)
        rows = [tuple(_cell(value) for value in row) for row in table.iter_rows()]
        return html_table(repr(self)[10:-1], table.columns, rows)


def sweep(
    spec: Mapping[str, Any] | str | os.PathLike[str],
    out: str | os.PathLike[str] = "penstock-sweep",
    *,
    retry_failed: bool = False,
    force: bool = False,
    depends: Sequence[str | os.PathLike[str]] = (),
    timeout_seconds: float = 3600,
    time_limit: float = DEFAULT_SECONDS,
    config: Config = None,
    spark: "SparkSession | None" = None,
) -> SweepResults:
    """Measure each combination of topologies, options, costs and planners that a spec lists.

    Results accumulate in a folder: cells that it holds are not measured again.

    Args:
        spec: Path of a spec file, or its content as a mapping (docs/sweeps.md). Its `planners` may be
            functions of modules.
        out: Folder of the results; default "penstock-sweep".
        retry_failed: Measure cells again that failed.
        force: Measure all cells again.
        depends: Files that planners read or run beside their imports; a change of one means new cells.
        timeout_seconds: Seconds for one cell.
        time_limit: Seconds, above 0, for each batch of a custom planner.
        config: Options by key, or a directory of YAML files.
        spark: A SparkSession, whose workers measure.

    Returns:
        SweepResults: `results` has one row per cell and repetition, of earlier grids in the folder, too.

    Raises:
        InputError: Lists all faults of the spec.
        ConfigurationError: Another argument is invalid.
        StoreError: The folder is not one of sweeps.

    Examples:
        >>> results = penstock.sweep({"topologies": {"shape": "chain", "operators": 3}})
        >>> results.results.num_rows
        1
    """
    from penstock.engine.measure.sweep.run_sweep import prepare_sweep, sweep_grid
    from penstock.engine.output.progress import Report

    if spark is not None:
        from penstock.engine.spark.session import is_connect, use_this_python

        require_session(spark)
        if is_connect(spark):
            raise ConfigurationError(
                "spark must be a session of classic Spark, whose JVM a sweep needs, got one of Spark Connect",
                "leave spark out: this machine measures",
            )
        use_this_python(spark)
    is_map = config is None or isinstance(config, Mapping)
    folder = path("out", out)
    with arguments_of_call():
        prepared = prepare_sweep(
            _with_names(spec) if isinstance(spec, Mapping) else path("spec", spec),
            None if is_map else path("config", config),
            strings("config", config) if is_map else {},  # type: ignore[arg-type]
            seconds("time_limit", time_limit),
            [path("depends", file) for file in depends],
        )
        swept = sweep_grid(
            prepared,
            folder,
            Report(),
            again=bool(retry_failed),
            anew=bool(force),
            timeout=seconds("timeout_seconds", timeout_seconds),
            spark=spark,
        )
    failed = [(limited(str(cell)), why) for cell, why in swept.failed]
    return SweepResults(folder, len(prepared.cells), swept.measured, swept.before, failed)


def _with_names(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec with names in place of its planners' functions. Raises ConfigurationError."""
    from penstock.engine.planning.find_custom_planners import importable_name

    planners = spec.get("planners")
    listed = planners if isinstance(planners, list | tuple) else [planners]
    if not any(map(callable, listed)):
        return dict(spec)
    return {**spec, "planners": [importable_name(p, "planners") if callable(p) else p for p in listed]}


def _arrow(rows: pl.DataFrame) -> pa.Table:
    return rows.to_arrow(compat_level=pl.CompatLevel.oldest())


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
