"""Several parts of the work at once, in threads: what polars, Arrow and numpy do needs no lock of Python."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import polars as pl

Part = TypeVar("Part")
Done = TypeVar("Done")


def side_by_side(work: Callable[[Part], Done], parts: Sequence[Part]) -> list[Done]:
    """`work` of every part, in order; as many at a time as polars has threads (POLARS_MAX_THREADS)."""
    threads = min(pl.thread_pool_size(), len(parts))
    if threads <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, parts))


def one_after_the_other(work: Callable[[Part], Done], parts: Iterable[Part]) -> Iterator[Done]:
    """As `side_by_side`, but parts are taken, and results kept, only as many as are worked on."""
    threads = pl.thread_pool_size()
    if threads == 1:
        yield from map(work, parts)
        return
    pending: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for part in parts:
            pending.append(pool.submit(work, part))
            del part
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
