"""Broadcast state of one subtask: dictionaries that belong to no key.

Source: pyflink.fn_execution.state_impl; org.apache.flink.runtime.state.HeapBroadcastState.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from penstock.operators.state.interfaces import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState
from penstock.operators.state.value_check import entry_check, no_check, value_check

# Iterates over the entries of a map state, which may be removed on the way.


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


class ReadOnlyBroadcastView(ReadOnlyBroadcastState[Any, Any]):
    """A view of a broadcast state."""

    def __init__(self, entries: dict[Any, Any]) -> None:
        self._entries = entries

    def get(self, key: Any) -> Any:
        """The value of `key`, or None."""
        return self._entries.get(key)

    def contains(self, key: Any) -> bool:
        """Whether `key` has a value other than None (as PyFlink has it)."""
        return self._entries.get(key) is not None

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries as they are now."""
        return iter(list(self._entries.items()))

    def keys(self) -> Iterator[Any]:
        """All keys as they are now."""
        return iter(list(self._entries))

    def values(self) -> Iterator[Any]:
        """All values as they are now."""
        return iter(list(self._entries.values()))

    def is_empty(self) -> bool:
        """Whether there is no entry."""
        return not self._entries

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()


class WritableBroadcastState(ReadOnlyBroadcastView, BroadcastState[Any, Any]):
    """A broadcast state. Raises where a key or value is not of the declared type."""

    def __init__(self, entries: dict[Any, Any], descriptor: MapStateDescriptor) -> None:
        super().__init__(entries)
        type_info: Any = descriptor.type_info
        check_key = value_check(type_info._key_type_info)
        self._check_key = check_key or no_check
        self._check_entry = entry_check(check_key, value_check(type_info._value_type_info))

    def get(self, key: Any) -> Any:
        """The value of `key`, or None."""
        self._check_key(key)
        return super().get(key)

    def contains(self, key: Any) -> bool:
        """Whether `key` has a value other than None (as PyFlink has it)."""
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
        """Forget `key`, if it is there."""
        self._check_key(key)
        self._entries.pop(key, None)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries as they are now."""
        return removing_items(self._entries.items(), self.remove)

    def keys(self) -> Iterator[Any]:
        """All keys as they are now."""
        return removing_keys(self._entries, self.remove)

    def values(self) -> Iterator[Any]:
        """All values as they are now."""
        return removing_values(self._entries.items(), self.remove)


class BroadcastStates:
    """The broadcast states of an operator by name, made on first use."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[MapStateDescriptor, WritableBroadcastState, ReadOnlyBroadcastView]] = {}

    def writable(self, descriptor: MapStateDescriptor) -> WritableBroadcastState:
        """The state. Raises Exception: the name is in use for other types."""
        return self._state(descriptor)[1]

    def read_only(self, descriptor: MapStateDescriptor) -> ReadOnlyBroadcastView:
        """A view of the state. Raises Exception: the name is in use for other types."""
        return self._state(descriptor)[2]

    def _state(
        self, descriptor: MapStateDescriptor
    ) -> tuple[MapStateDescriptor, WritableBroadcastState, ReadOnlyBroadcastView]:
        known = self._states.get(descriptor.name)
        if known is None:
            entries: dict[Any, Any] = {}
            writable = WritableBroadcastState(entries, descriptor)
            known = descriptor, writable, ReadOnlyBroadcastView(entries)
            self._states[descriptor.name] = known
        elif known[0] is not descriptor and known[0].type_info != descriptor.type_info:
            raise Exception(f"State name corrupted: {descriptor.name}")
        return known
