"""Results of a job, one by one. Source: pyflink.datastream.data_stream.CloseableIterator."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Protocol


class Closeable(Protocol):
    """An iterator that can be closed."""

    def __iter__(self) -> Iterator[Any]: ...

    def __next__(self) -> Any: ...

    def close(self) -> None:
        """Give up the rest."""


class CloseableIterator:
    """Iterates over `results`; closed, it has none."""

    def __init__(self, results: Closeable) -> None:
        self._results = results

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        return next(self._results)

    def next(self) -> Any:
        """The next result. StopIteration where there is none."""
        return next(self._results)

    def close(self) -> None:
        """Give up the rest: a job that is still running is cancelled."""
        self._results.close()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
