"""Iterates over the entries of a map state, which may be removed on the way."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any


class RemovingIterator(Iterator[Any]):
    """Pairs of a key and what is given for it; `remove` forgets the last key.

    Source: pyflink.fn_execution.state_impl.RemovableConcatIterator.
    """

    def __init__(self, entries: Iterable[tuple[Any, Any]], forget: Callable[[Any], None]) -> None:
        self._entries, self._forget = iter(entries), forget
        self._last: list[Any] = []

    def __next__(self) -> Any:
        key, value = next(self._entries)
        self._last[:] = [key]
        return value

    def remove(self) -> None:
        """Remove the entry that was returned last. Raises RuntimeError if there is none."""
        if not self._last:
            raise RuntimeError("remove(): found no entry; it takes the one that next() gave last, once")
        self._forget(self._last.pop())


def removing_items(entries: Iterable[tuple[Any, Any]], forget: Callable[[Any], None]) -> RemovingIterator:
    """The entries."""
    return RemovingIterator([(entry[0], entry) for entry in entries], forget)


def removing_keys(keys: Iterable[Any], forget: Callable[[Any], None]) -> RemovingIterator:
    """The keys."""
    return RemovingIterator([(key, key) for key in keys], forget)


def removing_values(entries: Iterable[tuple[Any, Any]], forget: Callable[[Any], None]) -> RemovingIterator:
    """The values."""
    return RemovingIterator(list(entries), forget)
