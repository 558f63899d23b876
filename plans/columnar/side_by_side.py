"""Several parts of the work at once, in threads: what polars, Arrow and numpy do needs no lock of Python."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
