"""Keyed state over plain dictionaries.

A handle finds its value under the key of its scope: the backend (whose key is that of the record at hand), or
the backend's namespace scope (whose key is that and a window).

Source: pyflink.fn_execution.state_impl; org.apache.flink.runtime.state.heap.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import concat
from typing import Any, Protocol

from operators.state.interfaces import AggregatingState, ListState, MapState, ReducingState, ValueState
from operators.state.reducer_and_aggregator import Aggregator
from operators.state.removing_iterator import removing_items, removing_keys, removing_values
from operators.state.state_table import StateTable


class Scope(Protocol):
    """What knows whose state is meant."""

    key: Any

    def key_of(self, namespace: Any) -> Any:
        """The key of another namespace of the same stream key, its state loaded."""


class KeyedValueState(ValueState[Any]):
    """One value. Source: HeapValueState."""

    def __init__(self, table: StateTable, scope: Scope) -> None:
        self._table, self._scope = table, scope

    def value(self) -> Any:
        """The current key's value, or None."""
        return self._table.entries.get(self._scope.key)

    def update(self, value: Any) -> None:
        """Keep `value`; None forgets."""
        if value is None:
            self._table.entries.pop(self._scope.key, None)
        else:
            self._table.entries[self._scope.key] = value

    def keep_none(self) -> None:
        """Let None be what is kept for the current key, so that it is checked as other values are."""
        self._table.entries[self._scope.key] = None

    def clear(self) -> None:
        """Forget the current key's value."""
        self._table.entries.pop(self._scope.key, None)


class KeyedListState(ListState[Any]):
    """A list. Source: HeapListState."""

    def __init__(self, table: StateTable, scope: Scope) -> None:
        self._table, self._scope = table, scope

    def get(self) -> Iterable[Any]:
        """A copy of the current key's list."""
        some = self._table.entries.get(self._scope.key)
        return some.copy() if some else []

    def add(self, value: Any) -> None:
        """Append one element."""
        some = self._table.entries.get(self._scope.key)
        if some is None:
            self._table.entries[self._scope.key] = [value]
        else:
            some.append(value)

    def add_all(self, values: Iterable[Any]) -> None:
        """Append all elements."""
        some = self._table.entries.get(self._scope.key)
        if some is None:
            self.update(values)
        else:
            some.extend(values)

    def update(self, values: Iterable[Any]) -> None:
        """Replace the list."""
        elements = list(values)
        if elements:
            self._table.entries[self._scope.key] = elements
        else:
            self.clear()

    def clear(self) -> None:
        """Forget the list."""
        self._table.entries.pop(self._scope.key, None)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Append the lists of the namespaces `sources`, which lose them, to that of `target`."""
        merge_namespaces(self._table, self._scope, target, sources, concat)


class KeyedReducingState(ReducingState[Any]):
    """The reduced value. Source: HeapReducingState."""

    def __init__(self, table: StateTable, scope: Scope, reduce_function: Any) -> None:
        self._table, self._scope = table, scope
        self._reduce = reduce_function.reduce

    def get(self) -> Any:
        """The value, or None."""
        return self._table.entries.get(self._scope.key)

    def add(self, value: Any) -> None:
        """Reduce what is there with `value`."""
        entries, key = self._table.entries, self._scope.key
        current = entries.get(key)
        entries[key] = value if current is None else self._reduce(current, value)

    def clear(self) -> None:
        """Forget the value."""
        self._table.entries.pop(self._scope.key, None)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Reduce the values of the namespaces `sources`, which lose them, into that of `target`."""
        merge_namespaces(self._table, self._scope, target, sources, self._reduce)


class KeyedAggregatingState(AggregatingState[Any, Any]):
    """An accumulator. Source: HeapAggregatingState."""

    def __init__(self, table: StateTable, scope: Scope, agg_function: Aggregator) -> None:
        self._table, self._scope = table, scope
        self._function = agg_function

    def get(self) -> Any:
        """The function's result, or None if nothing was added."""
        accumulator = self._table.entries.get(self._scope.key)
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        """Add `value`; None forgets what was added."""
        if value is None:
            self.clear()
            return
        entries, key = self._table.entries, self._scope.key
        accumulator = entries.get(key)
        if accumulator is None:
            accumulator = self._function.create_accumulator()
        entries[key] = self._function.add(value, accumulator)

    def clear(self) -> None:
        """Forget the accumulator."""
        self._table.entries.pop(self._scope.key, None)

    def merge_namespaces(self, target: Any, sources: Iterable[Any]) -> None:
        """Merge the accumulators of the namespaces `sources`, which lose them, into that of `target`."""
        merge_namespaces(self._table, self._scope, target, sources, self._function.merge)


class KeyedMapState(MapState[Any, Any]):
    """A dictionary. Source: HeapMapState."""

    def __init__(self, table: StateTable, scope: Scope) -> None:
        self._table, self._scope = table, scope

    def get(self, key: Any) -> Any:
        """The value of `key`, or None."""
        some = self._table.entries.get(self._scope.key)
        return None if some is None else some.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of `key`."""
        some = self._table.entries.get(self._scope.key)
        if some is None:
            self._table.entries[self._scope.key] = {key: value}
        else:
            some[key] = value

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        """Set several values."""
        if dict_value:
            self._table.entries.setdefault(self._scope.key, {}).update(dict_value)

    def remove(self, key: Any) -> None:
        """Forget `key`, if it is there."""
        some = self._table.entries.get(self._scope.key)
        if some is not None and key in some:
            del some[key]
            if not some:
                self.clear()

    def contains(self, key: Any) -> bool:
        """Whether `key` has a value other than None (as PyFlink has it)."""
        some = self._table.entries.get(self._scope.key)
        return some is not None and some.get(key) is not None

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries as they are now."""
        return removing_items(self._table.entries.get(self._scope.key, _NOTHING).items(), self.remove)

    def keys(self) -> Iterator[Any]:
        """All keys as they are now."""
        return removing_keys(self._table.entries.get(self._scope.key, _NOTHING), self.remove)

    def values(self) -> Iterator[Any]:
        """All values as they are now."""
        return removing_values(self._table.entries.get(self._scope.key, _NOTHING).items(), self.remove)

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return self._scope.key not in self._table.entries

    def clear(self) -> None:
        """Forget the dictionary."""
        self._table.entries.pop(self._scope.key, None)


_NOTHING: dict[Any, Any] = {}


def merge_namespaces(
    table: StateTable, scope: Scope, target: Any, sources: Iterable[Any], merge: Callable[[Any, Any], Any]
) -> None:
    """Move what `table` has in the namespaces `sources` of the current key into the namespace `target`.

    `merge` makes one value of two. The sources are merged with one another first, as in Flink.
    """
    keys = [scope.key_of(namespace) for namespace in sources]
    into = scope.key_of(target)
    entries = table.entries
    merged = None
    for key in keys:
        value = entries.pop(key, None)
        if value is not None:
            merged = value if merged is None else merge(merged, value)
    if merged is not None:
        current = entries.get(into)
        entries[into] = merged if current is None else merge(current, merged)
