"""Runs several parts of the work at once in threads: polars, Arrow and numpy release Python's lock."""

import gc
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import polars as pl

from operators.common.without_pandas import without_pandas

Part = TypeVar("Part")
Done = TypeVar("Done")


def side_by_side(
    work: Callable[[Part], Done], parts: Sequence[Part], given_up: threading.Event | None = None
) -> list[Done]:
    """`work` of every part, in order; as many at a time as polars has threads (POLARS_MAX_THREADS).

    Runs on polars' own threads, so nested polars calls execute in place instead of queueing for a busy pool:
    from any other thread, handing a call over takes longer than most calls do. After Ctrl-C or an error no
    other part is started, and `given_up` is set for the parts that run; when they have ended, the first error
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
        # A thread that waits inside polars handles no signals, and the main thread has handlers to run.
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
    """Runs the call `times` times at once: polars evaluates two or more expressions in a thread each."""
    row = pl.DataFrame({"row": [0]})
    once = pl.col("row").map_batches(call, return_dtype=pl.Int64)
    others = [once.alias(str(number)) for number in range(1, times)] or [pl.lit(1)]
    row.select(once, *others)


def one_after_the_other(work: Callable[[Part], Done], parts: Iterable[Part]) -> Iterator[Done]:
    """side_by_side that takes parts, and keeps results, only for as many parts as run at once."""
    threads = pl.thread_pool_size()
    if threads == 1:
        yield from map(without_pandas()(work), parts)
        return
    pending: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for part in parts:
            pending.append(pool.submit(without_pandas()(work), part))
            del part
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """No search for cycles as long as this lasts; looking through long lists takes a quarter of a walk."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
