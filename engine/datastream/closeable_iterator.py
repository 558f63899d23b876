"""Results of a job, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any


class CloseableIterator:
    """Iterates over `results`; closed, it has none."""

    def __init__(self, results: Iterator[Any]) -> None:
        self._results = results

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        return next(self._results)

    def next(self) -> Any:
        """The next result. StopIteration where there is none."""
        return next(self._results)

    def close(self) -> None:
        """Give up the rest."""
        self._results = iter(())

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
