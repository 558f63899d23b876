"""The broadcast state of one subtask in dictionaries that belong to no key.

Source: pyflink.fn_execution.state_impl; org.apache.flink.runtime.state.HeapBroadcastState.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from penstock.operators.state.interfaces import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState
from penstock.operators.state.state_segments import EntryForm, entry_form
from penstock.operators.state.stored_state import BROADCAST, StoredState, TableRecord
from penstock.operators.state.value_check import entry_check, no_check, value_check

# Iteration over the entries of a map state, which may be removed meanwhile


class RemovingIterator(Iterator[Any]):
    """Iterates over the second items of `entries`; `remove` removes the last entry by its first item.

    Source: pyflink.fn_execution.state_impl.RemovableConcatIterator.
    """

    def __init__(self, entries: Iterable[tuple[Any, Any]], remove_key: Callable[[Any], None]) -> None:
        self._entries, self._remove_key = iter(entries), remove_key
        self._last: list[Any] = []

    def __next__(self) -> Any:
        key, value = next(self._entries)
        self._last[:] = [key]
        return value

    def remove(self) -> None:
        """Remove the entry that was returned last. Raises RuntimeError if there is none."""
        if not self._last:
            raise RuntimeError("remove() must follow next(), once for each entry")
        self._remove_key(self._last.pop())


def removing_items(entries: Iterable[tuple[Any, Any]], remove_key: Callable[[Any], None]) -> RemovingIterator:
    """Return an iterator over the entries."""
    return RemovingIterator([(entry[0], entry) for entry in entries], remove_key)


def removing_keys(keys: Iterable[Any], remove_key: Callable[[Any], None]) -> RemovingIterator:
    """Return an iterator over the keys."""
    return RemovingIterator([(key, key) for key in keys], remove_key)


def removing_values(
    entries: Iterable[tuple[Any, Any]], remove_key: Callable[[Any], None]
) -> RemovingIterator:
    """Return an iterator over the values."""
    return RemovingIterator(list(entries), remove_key)


class ReadOnlyBroadcastView(ReadOnlyBroadcastState[Any, Any]):
    """A view of a broadcast state."""

    def __init__(self, entries: dict[Any, Any]) -> None:
        self._entries = entries

    def get(self, key: Any) -> Any:
        """Return the value of `key`, or None."""
        return self._entries.get(key)

    def contains(self, key: Any) -> bool:
        """Whether `key` has a value other than None (as in PyFlink)."""
        return self._entries.get(key) is not None

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over a copy of the entries."""
        return iter(list(self._entries.items()))

    def keys(self) -> Iterator[Any]:
        """Iterate over a copy of the keys."""
        return iter(list(self._entries))

    def values(self) -> Iterator[Any]:
        """Iterate over a copy of the values."""
        return iter(list(self._entries.values()))

    def is_empty(self) -> bool:
        """Whether the state is empty."""
        return not self._entries

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()


class WritableBroadcastState(ReadOnlyBroadcastView, BroadcastState[Any, Any]):
    """A broadcast state. Raises if a key or value is not of the declared type."""

    def __init__(self, entries: dict[Any, Any], descriptor: MapStateDescriptor) -> None:
        super().__init__(entries)
        type_info: Any = descriptor.type_info
        check_key = value_check(type_info._key_type_info)
        self._check_key = check_key or no_check
        self._check_entry = entry_check(check_key, value_check(type_info._value_type_info))

    def get(self, key: Any) -> Any:
        """Return the value of `key`, or None."""
        self._check_key(key)
        return super().get(key)

    def contains(self, key: Any) -> bool:
        """Whether `key` has a value other than None (as in PyFlink)."""
        self._check_key(key)
        return super().contains(key)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of `key`."""
        self._check_entry(key, value)
        self._entries[key] = value

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        entries = dict(dict_value)
        for key, value in entries.items():
            self._check_entry(key, value)
        self._entries.update(entries)

    def remove(self, key: Any) -> None:
        """Remove `key` if it exists."""
        self._check_key(key)
        self._entries.pop(key, None)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over a copy of the entries."""
        return removing_items(self._entries.items(), self.remove)

    def keys(self) -> Iterator[Any]:
        """Iterate over a copy of the keys."""
        return removing_keys(self._entries, self.remove)

    def values(self) -> Iterator[Any]:
        """Iterate over a copy of the values."""
        return removing_values(self._entries.items(), self.remove)


class BroadcastStates:
    """The broadcast states of an operator by name, created on first use.

    `stored` holds them if they last from batch to batch.
    """

    def __init__(self, stored: StoredState | None) -> None:
        self._stored = stored
        self._states: dict[str, tuple[MapStateDescriptor, WritableBroadcastState, ReadOnlyBroadcastView]] = {}

    def writable(self, descriptor: MapStateDescriptor) -> WritableBroadcastState:
        """Return the state. Raises Exception if the name is in use for other types."""
        return self._state(descriptor)[1]

    def read_only(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastView:
        """Return a view of the state. Raises Exception if the name is in use for other types."""
        return self._state(descriptor)[2]

    def _state(
        self, descriptor: MapStateDescriptor
    ) -> tuple[MapStateDescriptor, WritableBroadcastState, ReadOnlyBroadcastView]:
        entry = self._states.get(descriptor.name)
        if entry is None:
            entries: dict[Any, Any] = {}
            if self._stored is not None:
                entries = self._stored.read_broadcast(descriptor.name, _form_of(descriptor))
            writable = WritableBroadcastState(entries, descriptor)
            entry = descriptor, writable, ReadOnlyBroadcastView(entries)
            self._states[descriptor.name] = entry
        elif entry[0] is not descriptor and entry[0].type_info != descriptor.type_info:
            raise Exception(f"State name corrupted: {descriptor.name}")
        return entry

    def written_tables(self) -> list[TableRecord]:
        """Write the states for the next batch, in the first subtask."""
        stored = self._stored
        if stored is None or not stored.is_first:
            return []
        return [
            stored.written_broadcast(name, _form_of(descriptor), dict(state.items()))
            for name, (descriptor, _, state) in self._states.items()
        ]


def _form_of(descriptor: MapStateDescriptor) -> EntryForm:
    return entry_form(BROADCAST, descriptor.type_info)
