"""The kinds of state as a function sees them.

Source: pyflink.datastream.state; org.apache.flink.api.common.state.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from penstock.operators.state.descriptors import MapStateDescriptor

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """State of the key of the record being processed."""

    @abstractmethod
    def clear(self) -> None:
        """Forget what is kept for the current key."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abstractmethod
    def value(self) -> T:
        """The current key's value; None if there is none."""

    @abstractmethod
    def update(self, value: T) -> None:
        """Keep `value` for the current key; None forgets it."""


class AppendingState(State, Generic[IN, OUT]):
    """State that elements are added to."""

    @abstractmethod
    def get(self) -> OUT:
        """The values added for the current key, in the form of this kind of state."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add to what is kept for the current key."""


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged, as windows that merge need."""


class ReducingState(MergingState[T, T]):
    """One value per key: all added values combined by a reduce function; None before the first."""


class AggregatingState(MergingState[IN, OUT]):
    """One accumulator per key. `get` gives the aggregate function's result; None if nothing was added."""


class ListState(MergingState[T, Iterable[T]]):
    """A list per key; `get` gives an iterable, empty where nothing was added."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace the current key's list."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Append to the current key's list."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """The entries of a broadcast state, the same in all subtasks."""

    @abstractmethod
    def get(self, key: K) -> V:
        """The value of `key`; None if there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether `key` has a value other than None."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All entries as they are now."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """All keys as they are now."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """All values as they are now."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no entry."""

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class BroadcastState(ReadOnlyBroadcastState[K, V]):
    """Broadcast state as the broadcast side sees it: every subtask has to change it in the same way."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of `key`."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set the values of all keys in `dict_value`."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Forget `key`, if it is there."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(State, Generic[K, V]):
    """A dictionary per stream key, with keys of its own."""

    @abstractmethod
    def get(self, key: K) -> V:
        """The value of `key`; None if there is none."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of `key`."""

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set the values of all keys in `dict_value`."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Forget `key`, if it is there."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether `key` has a value other than None."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All entries as they are now."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """All keys as they are now."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """All values as they are now."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no entry."""

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class OperatorStateStore(ABC):
    """Hands out state that belongs to the subtask instead of a key."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[K, V]:
        """The broadcast state of this name, made on first use."""
