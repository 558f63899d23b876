"""Plan a fleet in parts while it is read, so that memory does not grow with the fleet."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Condition
from typing import Any

import polars as pl
import pyarrow as pa

from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.execution_graph.job_graph_arrays import TaskRows
from penstock.plans.layers import PlanOptions
from penstock.plans.planners.plan_in_parts import (
    Tables,
    in_polars_threads,
    plan_columnar,
    without_garbage_collection,
)
from penstock.plans.topology.find_topology_files import TopologyPaths, topology_paths
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.lines_batch import (
    TopologyTexts,
    read_topology_objects,
    read_topology_texts,
)
from penstock.plans.topology.read_topology_files import read_topology_files
from penstock.plans.topology.read_topology_tables import read_topology_folder, read_topology_tables
from penstock.plans.topology.topologies_of_lines import TopologyTables

ROWS_AT_A_TIME = 100_000
"""Transformations or stream nodes per part. Larger parts are no faster and take more memory."""


def plan_as_read(
    parts: Iterator[Tables],
    options: PlanOptions,
    take: Callable[[dict[str, pa.Table]], None],
    before_tasks: Callable[[TaskRows], None] = lambda rows: None,
    at_once: int | None = None,
) -> None:
    """Run plan_columnar on `parts` and pass their tables to `take`, in order, in this thread.

    One part is read while `at_once` others are planned (by default and at most one per thread of polars) and
    one is taken. `before_tasks` is called from the planning threads and must not wait for another call,
    because a thread of polars may plan a part in the middle of another one. The first error stops everything
    and is raised here.
    """
    threads = pl.thread_pool_size()
    queue = _PartQueue(parts, threads if at_once is None else min(threads, at_once))

    def plan() -> None:
        with queue.raising_here():
            while (numbered := queue.next_to_plan()) is not None:
                place, part = numbered

                def plan_part(
                    rows: pl.Series, place: int = place, part: Tables = part, **_: object
                ) -> pl.Series:
                    with queue.raising_here(), without_pandas():
                        queue.planned(place, plan_columnar(part, options, queue.check, before_tasks))
                    return rows

                del part
                # For one part only, so that reading, which waits for polars' threads, can continue in
                # between.
                in_polars_threads(plan_part, 1)

    with without_garbage_collection():
        targets = [queue.read, *[plan] * queue.threads]
        threads_started = [threading.Thread(target=work, daemon=True) for work in targets]
        for thread in threads_started:
            thread.start()
        try:
            while (tables := queue.next_to_take()) is not None:
                take(tables)
                del tables
        except BaseException as error:
            queue.give_up(error)
        for thread in threads_started:
            thread.join()
    if queue.error is not None:
        raise queue.error


class _PartQueue:
    """Parts in progress. One that is read waits, and at most as many as there are threads are
    planned ahead.
    """

    def __init__(self, parts: Iterator[Tables], threads: int) -> None:
        self.threads = threads
        self.error: BaseException | None = None
        self._parts = parts
        self._changed = Condition()
        self._read: list[Tables] = []
        self._done: dict[int, dict[str, pa.Table]] = {}
        self._started = self._taken = 0
        self._all_read = False

    def read(self) -> None:
        """Read all parts, none before the one before it is being planned."""
        with self.raising_here(), without_pandas():
            for part in self._parts:
                with self._changed:
                    self._changed.wait_for(lambda: not self._read or self.error is not None)
                    if self.error is not None:
                        return
                    self._read.append(part)
                    self._changed.notify_all()
                del part
            with self._changed:
                self._all_read = True
                self._changed.notify_all()

    def next_to_plan(self) -> tuple[int, Tables] | None:
        """Return a part and its number; None if there are no more."""

        def is_ready() -> bool:
            ahead = self._started - self._taken
            return bool(self._read) and ahead <= self.threads

        with self._changed:
            self._changed.wait_for(
                lambda: is_ready() or self.error is not None or (self._all_read and not self._read)
            )
            if self.error is not None or not self._read:
                return None
            self._started += 1
            self._changed.notify_all()
            return self._started - 1, self._read.pop()

    def planned(self, place: int, tables: dict[str, pa.Table]) -> None:
        """Store the tables of a part until its turn."""
        with self._changed:
            self._done[place] = tables
            self._changed.notify_all()

    def next_to_take(self) -> dict[str, pa.Table] | None:
        """Return the tables of the next part in order; None after the last part or an error."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._taken in self._done
                    or self.error is not None
                    or (self._all_read and not self._read and self._taken == self._started)
                )
            )
            if self.error is not None or self._taken not in self._done:
                return None
            self._taken += 1
            self._changed.notify_all()
            return self._done.pop(self._taken - 1)

    def check(self, stage: str) -> None:
        """Called when a stage of a part begins; stop the part after an error elsewhere."""
        if self.error is not None:
            raise KeyboardInterrupt

    def give_up(self, error: BaseException) -> None:
        """Stop all threads; the first error counts."""
        with self._changed:
            self.error = self.error or error
            self._changed.notify_all()

    @contextmanager
    def raising_here(self) -> Iterator[None]:
        """Within the block, any exception stops everything."""
        try:
            yield
        except BaseException as error:
            self.give_up(error)


Topologies = (
    str
    | Path
    | Sequence[str | Path]
    | TopologyPaths
    | tuple[Any, Any]
    | Iterable[Mapping[str, Any] | str | bytes]
    | TopologyTexts
)


def read_topologies(
    topologies: Topologies,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    before_block: Callable[[], None] = lambda: None,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> TopologyTables:
    """Return the tables of `topologies`, given as paths, objects, or the tables (topologies, transformations)
    themselves.

    As engine.planning.plan_on_spark.read_topologies; paths are local, tables are PyArrow's or Polars'. For
    `max_line_bytes`, `before_block` and `job_defaults` see read_topology_files. Raises InputError, and
    SchemaError for tables with other columns.
    """
    if isinstance(topologies, TopologyTexts):
        return read_topology_texts(topologies, job_defaults)
    given: Any = topologies if isinstance(topologies, str | Path | TopologyPaths) else list(topologies)
    if (paths := topology_paths(given)) is not None:
        if (folder := paths.folder) is not None:
            return read_topology_folder(folder, job_defaults)
        return read_topology_files(paths.paths, max_line_bytes, before_block, job_defaults)
    match given:
        case [pa.Table() | pl.DataFrame() as rows, pa.Table() | pl.DataFrame() as transformations]:
            return read_topology_tables(_as_arrow(rows), _as_arrow(transformations), job_defaults)
    return read_topology_objects(given, job_defaults)


def _as_arrow(table: pl.DataFrame | pa.Table) -> pa.Table:
    return table.to_arrow(compat_level=pl.CompatLevel.oldest()) if isinstance(table, pl.DataFrame) else table
