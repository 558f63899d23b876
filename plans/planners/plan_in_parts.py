"""Plan many topologies in parts, in parallel on all cores."""

import ctypes
import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from math import ceil
from threading import Event, Lock
from typing import NamedTuple, Protocol, TypeVar
from weakref import WeakSet

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.execution_graph.job_graph_arrays import TaskRows, count_task_rows
from penstock.plans.execution_graph.refuse_execution_graphs import name_most_tasks
from penstock.plans.frames.arrays import Ints
from penstock.plans.frames.polars_frames import arrow_parts, look_up, to_arrow
from penstock.plans.frames.polars_refusals import (
    first_refused,
    reject_refused,
    rows_to_keep,
    without_topologies,
)
from penstock.plans.layers import LAYER_TABLES, PlanOptions, layers_until
from penstock.plans.planners.run_passes import inputs_of, steps
from penstock.plans.stream_graph.resolve_virtual_nodes import limit_expansion
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

# All columnar passes in order, over whole topologies at once.


Tables = dict[str, pl.DataFrame]


TO_ARROW, WITHOUT_REFUSED = "to_arrow", "without_refused"
"""Stages besides the steps."""


_NO_TOPOLOGIES = np.zeros(0, np.int64)
_LAST_BEFORE_TASKS = "placed_edges"


def stages(until: Layer) -> int:
    """Return the number of stages that a run up to that layer reports."""
    return len(steps(PlanOptions(until))) + 2


class Finished(Protocol):
    """Receives the tables of a plan as soon as no step needs them."""

    def add(self, table: str, parts: Iterable[pa.Table]) -> None:
        """Take the rows of a table, in parts; each table comes at most once."""

    def clear(self) -> None:
        """Drop the rows of all tables received so far, because Flink refuses the topology."""


class InMemory:
    """Collects finished tables in memory."""

    def __init__(self) -> None:
        self.tables: dict[str, pa.Table] = {}

    def add(self, table: str, parts: Iterable[pa.Table]) -> None:
        self.tables[table] = pa.concat_tables(parts)

    def clear(self) -> None:
        self.tables = {table: rows.slice(0, 0) for table, rows in self.tables.items()}


def plan_columnar(
    topology_tables: dict[str, pl.DataFrame],
    options: PlanOptions,
    report: Callable[[str], None] = lambda stage: None,
    before_tasks: Callable[[TaskRows], None] = lambda rows: None,
) -> dict[str, pa.Table]:
    """Return the plan's tables (as in plans.tables.TABLES) of whole topologies, without refused ones.

    For the arguments see _plan_into.
    """
    finished = InMemory()
    _plan_into(finished, topology_tables, options, report, before_tasks)
    return finished.tables


def _plan_into(
    finished: Finished,
    topology_tables: dict[str, pl.DataFrame],
    options: PlanOptions,
    report: Callable[[str], None],
    before_tasks: Callable[[TaskRows], None],
) -> None:
    """Pass the plan's tables (as in plans.tables.TABLES) of whole topologies to `finished`.

    In: `topology_tables`, with topologies, transformations, job_settings, rejected, and stream_nodes and
    stream_edges of topologies given as stream graphs; it is emptied. Out: the tables of all layers up to
    `options.until`, and `rejected`, without topologies that have too many edges (see limit_expansion) or that
    Flink refuses. Refused topologies leave all tables once every refusal is known; from then on, a table is
    passed on and dropped as soon as no step needs it. A single topology may be huge, so its tables are passed
    on that way from the start. `report` is called when a step, TO_ARROW or WITHOUT_REFUSED begins,
    `before_tasks` with the number of task rows to come; its exceptions end planning.
    """
    tables: Tables = {
        **limit_expansion(topology_tables),
        "given_stream_nodes": topology_tables["stream_nodes"],
        "given_stream_edges": topology_tables["stream_edges"],
    }
    topology_tables.clear()
    rejected = tables.pop("rejected")
    alone = len(tables["topologies"]) == 1
    layers = layers_until(options.until)
    todo = steps(options)
    wanted = {source: table for layer in layers for table, source in LAYER_TABLES[layer].items()}
    refusing = [f"{layer}_refusals" for layer in layers]
    all_known_at = max((place for place, (name, _) in enumerate(todo) if name in refusing), default=-1)
    done_at = {name: place for place, (name, _) in enumerate(todo)}
    done_at |= {name: place for place, (_, derive) in enumerate(todo) for name in inputs_of(derive)}
    done_at |= dict.fromkeys([*refusing, "topologies"], all_known_at)
    done_at["job_settings"] = max(done_at.get("job_settings", all_known_at), all_known_at)

    def finish(place: int) -> None:
        nonlocal rejected
        done = {name for name in tables if done_at.get(name, -1) <= place}
        refused = _NO_TOPOLOGIES
        if place == all_known_at and todo:
            report(WITHOUT_REFUSED)
            first = first_refused([tables[name] for name in refusing if name in tables])
            rejected = pl.concat(
                [rejected, reject_refused(first, tables["topologies"], tables["job_settings"])]
            )
            refused = np.sort(first[TOPOLOGY].to_numpy())
            if len(refused):
                finished.clear()
        elif not alone and place < all_known_at:
            done -= wanted.keys()
        # Table by table, so that each reuses the memory freed by the previous one.
        for name in [*tables]:
            if name not in done and len(refused):
                report(WITHOUT_REFUSED)
                tables[name] = without_topologies(tables[name], refused)
            if name in done and name in wanted:
                report(TO_ARROW)
                accepted = rows_to_keep(tables[name], refused)
                finished.add(wanted[name], arrow_parts(tables[name], wanted[name], accepted))
            if name in done:
                del tables[name]

    finish(-1)
    for place, (produced, derive) in enumerate(todo):
        report(produced)
        tables[produced] = derive(**{name: tables[name] for name in inputs_of(derive)})
        if produced == _LAST_BEFORE_TASKS:
            try:
                before_tasks(count_task_rows(tables["ordered_vertices"], tables[_LAST_BEFORE_TASKS]))
            except NotEnoughMemoryError as error:
                raise NotEnoughMemoryError(
                    f"{error.message}; {name_most_tasks(tables)}", error.hint
                ) from None
        finish(place)
    finished.add("rejected", [to_arrow(rejected, "rejected")])


Part = TypeVar("Part")
Done = TypeVar("Done")


def side_by_side(
    work: Callable[[Part], Done], parts: Sequence[Part], given_up: threading.Event | None = None
) -> list[Done]:
    """Return `work` of every part, in order; as many at a time as polars has threads (POLARS_MAX_THREADS).

    Runs on polars' own threads, so nested polars calls execute in place instead of queueing for a busy pool:
    from any other thread, handing a call over takes longer than most calls do. After Ctrl-C or an error no
    other part is started, and `given_up` is set for the running parts; when they have ended, the first error
    is raised.
    """
    todo = enumerate(parts)
    done: dict[int, Done] = {}
    errors: list[BaseException] = []

    def give_up(error: BaseException) -> None:
        errors.append(error)
        if given_up is not None:
            given_up.set()

    def work_off(rows: pl.Series, **_: object) -> pl.Series:
        try:
            with without_pandas():
                for place, part in todo:
                    if errors:
                        break
                    done[place] = work(part)
        except BaseException as error:
            give_up(error)
        return rows

    threads = min(pl.thread_pool_size(), len(parts))
    if threading.current_thread() is threading.main_thread():
        # A thread that waits inside polars handles no signals, and the main thread must run the handlers.
        with ThreadPoolExecutor(1) as beside:
            try:
                beside.submit(in_polars_threads, work_off, threads).result()
            except BaseException as error:
                give_up(error)
    else:
        in_polars_threads(work_off, threads)
    if errors:
        raise errors[0]
    return [done[place] for place in range(len(parts))]


def in_polars_threads(call: Callable[[pl.Series], pl.Series], times: int) -> None:
    """Run the call `times` times at once. polars evaluates two or more expressions in a thread each."""
    row = pl.DataFrame({"row": [0]})
    once = pl.col("row").map_batches(call, return_dtype=pl.Int64)
    others = [once.alias(str(number)) for number in range(1, times)] or [pl.lit(1)]
    row.select(once, *others)


def one_after_the_other(work: Callable[[Part], Done], parts: Iterable[Part]) -> Iterator[Done]:
    """side_by_side that takes parts, and holds results, only for as many parts as run at once."""
    threads = pl.thread_pool_size()
    if threads == 1:
        yield from map(without_pandas()(work), parts)
        return
    pending: deque[Future[Done]] = deque()
    working = _InterruptibleWork()
    interruptible = working(without_pandas()(work))
    with ThreadPoolExecutor(threads) as pool:
        try:
            for part in parts:
                pending.append(pool.submit(interruptible, part))
                del part
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except BaseException:
            working.interrupt()
            raise


class _InterruptibleWork:
    """Work in threads that stops early once its results are no longer wanted.

    Signals reach the main thread only. A process that is stopped by a signal would wait for its threads, and
    nothing else ends a loop over the rows of one large part.
    """

    def __init__(self) -> None:
        self._threads: set[int] = set()  #: running the work
        self._interrupted = False
        self._lock = Lock()
        _RUNNING_WORK.add(self)

    def __call__(self, work: Callable[[Part], Done]) -> Callable[[Part], Done]:
        """`work`, which raises KeyboardInterrupt after `interrupt`."""

        def interruptible(part: Part) -> Done:
            thread = threading.get_ident()
            with self._lock:
                if self._interrupted:
                    raise KeyboardInterrupt
                self._threads.add(thread)
            try:
                return work(part)
            finally:
                with self._lock:
                    self._threads.discard(thread)

        return interruptible

    def interrupt(self) -> None:
        interrupt = ctypes.py_object(KeyboardInterrupt)
        with self._lock:
            self._interrupted = True
            for thread in self._threads:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), interrupt)


_RUNNING_WORK: WeakSet[_InterruptibleWork] = WeakSet()


def interrupt_parts() -> None:
    """Stop the threads of one_after_the_other, of all callers."""
    for working in list(_RUNNING_WORK):
        working.interrupt()


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector in the block; its search of long lists takes a quarter of a walk."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


ROWS_OF_A_PART = 150_000
"""Transformations or stream nodes per part. Smaller parts spend more time in Python, larger ones on data."""

_SIZED_BY = ("transformations", "stream_nodes")
_SPLIT = (*_SIZED_BY, "topologies", "job_settings", "stream_edges")


class InParts(NamedTuple):
    """The tables, and the seconds per stage as its share of the elapsed time, as parts overlap."""

    tables: dict[str, pa.Table]
    seconds: dict[str, float]


def plan_in_parts(
    topology_tables: dict[str, pl.DataFrame],
    options: PlanOptions,
    report: Callable[[str], None] = lambda stage: None,
    before_tasks: Callable[[TaskRows], None] = lambda rows: None,
) -> InParts:
    """Run plan_columnar on all topologies in parts; `topology_tables` is emptied.

    Parts of a fleet run in parallel, because many steps of a pass use one thread only, and small tables stay
    in the processor's caches. A topology is never split. `report` is called once per stage of a part,
    whenever all parts together have done the work of one more stage. `before_tasks` is called for each part,
    from its thread (see plan_columnar).
    """
    parts = split_by_topology(topology_tables)
    topology_tables.clear()
    watch = _Watch(report, len(parts))

    def plan(part: Tables) -> dict[str, pa.Table]:
        with watch.part() as stage:
            return plan_columnar(part, options, stage, before_tasks)

    started = time.monotonic()
    with without_garbage_collection():
        planned = side_by_side(plan, parts, watch.given_up)
    wall = time.monotonic() - started
    tables = planned[0]
    if len(planned) > 1:
        tables = {name: pa.concat_tables([part[name] for part in planned]) for name in tables}
    share = wall / max(wall, sum(watch.seconds.values()))
    return InParts(tables, {stage: spent * share for stage, spent in watch.seconds.items()})


def plan_alone(
    finished: Finished,
    topology_tables: dict[str, pl.DataFrame],
    options: PlanOptions,
    report: Callable[[str], None],
    before_tasks: Callable[[TaskRows], None],
) -> dict[str, float]:
    """Run _plan_into on one topology, in polars' threads like parts; return the seconds per stage."""
    watch = _Watch(report, 1)

    def plan(only: Tables) -> None:
        with watch.part() as stage:
            _plan_into(finished, only, options, stage, before_tasks)

    with without_garbage_collection():
        side_by_side(plan, [topology_tables], watch.given_up)
    return watch.seconds


class _Watch:
    """Seconds by stage of parts in threads. After an error elsewhere, a part ends with its current stage."""

    def __init__(self, report: Callable[[str], None], parts: int) -> None:
        self.seconds: dict[str, float] = {}
        self.given_up = Event()
        self._report, self._parts, self._stages, self._lock = report, parts, 0, Lock()

    @contextmanager
    def part(self) -> Iterator[Callable[[str], None]]:
        """Yield the function to which a part reports its stages."""
        running, started = "", time.monotonic()
        seen: set[str] = set()

        def begin(stage: str) -> None:
            nonlocal running, started
            if self.given_up.is_set():
                raise KeyboardInterrupt
            now = time.monotonic()
            with self._lock:
                if running:
                    self.seconds[running] = self.seconds.get(running, 0.0) + now - started
                if stage and stage not in seen:
                    seen.add(stage)
                    if self._stages % self._parts == 0:
                        self._report(stage)
                    self._stages += 1
            running, started = stage, now

        yield begin
        begin("")


def split_by_topology(tables: Mapping[str, pl.DataFrame]) -> list[Tables]:
    """Divide `tables` into parts that are planned in parallel (see split_into), equally many per thread."""
    rows, threads = _rows(tables), pl.thread_pool_size()
    return split_into(
        tables, 1 if rows < 2 * ROWS_OF_A_PART else ceil(rows / ROWS_OF_A_PART / threads) * threads
    )


def split_into(tables: Mapping[str, pl.DataFrame], parts: int) -> list[Tables]:
    """Divide `tables` into about `parts` parts of whole topologies, of equal size if topologies are small.

    The first part has the rejected topologies.
    """
    if parts < 2 or len(tables["topologies"]) < 2:
        return [dict(tables)]
    numbers = _part_numbers(tables, parts)
    count = int(numbers.max()) + 1
    part_of = tables["topologies"].select(TOPOLOGY, part=pl.Series(values=numbers))
    split = {name: _split(tables[name], part_of, count) for name in _SPLIT}
    rejected = tables["rejected"]
    return [
        {name: split[name][part] if name in split else rejected for name in tables}
        | {"rejected": rejected if part == 0 else rejected.clear()}
        for part in range(count)
    ]


def _rows(tables: Mapping[str, pl.DataFrame]) -> int:
    return sum(len(tables[name]) for name in _SIZED_BY)


def _part_numbers(tables: Mapping[str, pl.DataFrame], parts: int) -> Ints:
    """Return the part of each topology; a part is adjacent topologies, and all parts have the same size."""
    sizes = pl.concat([tables[name].select(TOPOLOGY) for name in _SIZED_BY]).group_by(TOPOLOGY).len("rows")
    rows = look_up(tables["topologies"].select(TOPOLOGY), sizes, {})["rows"].fill_null(0).to_numpy()
    before = np.cumsum(rows) - rows
    return np.unique(before * parts // rows.sum(), return_inverse=True)[1].astype(np.int64)


def _split(rows: pl.DataFrame, part_of: pl.DataFrame, count: int) -> list[pl.DataFrame]:
    """Return the rows of each part; slices without a copy if rows are ordered by part."""
    parts = look_up(rows.select(TOPOLOGY), part_of, {})["part"].to_numpy()
    if (parts[1:] < parts[:-1]).any():
        order = np.argsort(parts, kind="stable")
        rows, parts = rows[order], parts[order]
    bounds = np.searchsorted(parts, np.arange(count + 1)).tolist()
    return [rows.slice(start, end - start) for start, end in pairwise(bounds)]
