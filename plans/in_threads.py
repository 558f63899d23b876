"""Parts of some work that follow one another, several at a time."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Done = TypeVar("Done")


def in_threads(work: Callable[[Part], Done], parts: Iterable[Part], threads: int) -> Iterator[Done]:
    """`work` of every part, in order. Parts are taken, and results kept, only for as many as run at once."""
    pending: deque[Future[Done]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for part in parts:
            pending.append(pool.submit(work, part))
            del part
            if len(pending) > threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
