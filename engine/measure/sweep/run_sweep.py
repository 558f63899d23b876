"""Measuring the cells of a sweep that have no result yet."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from penstock.engine.machine.replace_file import make_output_folder
from penstock.engine.measure.bench.measure_suites import describe_machine, describe_versions
from penstock.engine.measure.sweep.grid import Cell
from penstock.engine.measure.sweep.results_table import (
    Measured,
    append_rows,
    failure_of_row,
    forget_cells,
    measured_cells,
    quality_rows,
    result_row,
)
from penstock.engine.output.progress import Report
from penstock.plans.errors import ConfigurationError

Answer = Mapping[str, Any]
Measure = Callable[[Sequence[Cell]], Iterator[tuple[Cell, Answer]]]
"""Cells, in any order, to what was measured: `result` or `failure`, and what the cell used."""

COMMIT_SECONDS = 1.0
"""Rows that come faster are committed together; those that a kill prevents are measured again."""

_LOCK = ".lock"


class Swept(NamedTuple):
    """How many cells were measured now and before, and which failed and why, in grid order.

    A cell whose planner failed for some of its topologies counts as failed, too.
    """

    measured: int
    before: int
    failed: list[tuple[Cell, str]]


def run_sweep(
    cells: Sequence[Cell],
    folder: str,
    measure: Measure,
    report: Report,
    again: bool,
    anew: bool = False,
) -> Swept:
    """Append a row for each cell that has none to the table in `folder`; what is there stays.

    `again`: cells whose row says an error are measured once more, if they are of this grid. `anew`: rows of
    the grid are taken away first, so that all is measured. Each (cell,
    repetition) without an error is there once, however often the sweep is killed and goes on. Raises
    ConfigurationError if another sweep writes to the folder, StoreError and MachineError.
    """
    with _alone(folder):
        if anew:
            forget_cells(folder, cells)
        there = measured_cells(folder)
        todo = [cell for cell in cells if _open(there, cell, again)]
        failures = {key: row.failure for key, row in there.items()}
        versions = {
            "penstock_version": describe_versions(False).get("penstock"),
            "processor": describe_machine()["processor"],
        }
        started, pending, quality, committed = time.monotonic(), [], [], time.monotonic()
        measured = 0
        try:
            report(_label(todo, 0, started))
            for cell, answer in measure(todo):
                measured += 1
                row = result_row(cell, datetime.now(UTC), answer, versions)
                pending.append(row)
                metrics = quality_rows(row, answer)
                quality += [] if metrics is None else [metrics]
                failures[cell.key, cell.repetition] = failure_of_row(row)
                if time.monotonic() - committed >= COMMIT_SECONDS:
                    rows, metrics_of_rows, pending, quality = pending, quality, [], []
                    append_rows(folder, rows, metrics_of_rows)
                    committed = time.monotonic()
                if measured < len(todo):
                    report(_label(todo, measured, started))
        finally:
            append_rows(folder, pending, quality)
        failed = [(c, why) for c in cells if (why := failures.get((c.key, c.repetition)))]
        return Swept(measured, len(cells) - len(todo), failed)


def _open(there: Mapping[tuple[str, int], Measured], cell: Cell, again: bool) -> bool:
    row = there.get((cell.key, cell.repetition))
    return row is None or (again and row.error is not None)


def _label(todo: Sequence[Cell], done: int, started: float) -> str:
    """Which cell comes next, and how long the rest will take if it takes as long as what is done."""
    if not todo:
        return "nothing to measure"
    if not done:
        return str(todo[0])
    remaining_seconds = (time.monotonic() - started) / done * (len(todo) - done)
    return f"{todo[done]} (about {_rounded(remaining_seconds)} left)"


def _rounded(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def _alone(folder: str) -> Iterator[None]:
    """The only sweep that writes to `folder`, which is made. A killed one lets go of it."""
    make_output_folder(folder)
    with open(os.path.join(folder, _LOCK), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"--out {folder}: another sweep is writing there", "wait for it, or name another folder"
            ) from None
        yield
