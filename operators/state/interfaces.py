"""The interfaces of state for functions.

Source: pyflink.datastream.state; org.apache.flink.api.common.state.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.operators.common.arguments import require_text
from penstock.operators.common.declared_types import declared_type
from penstock.operators.common.typeinfo import Types
from penstock.operators.state.ttl_config import StateTtlConfig

if TYPE_CHECKING:
    from penstock.operators.state.state_segments import EntryForm

# The calls of reduce and aggregate functions by state, which never opens or closes them (as in Flink)
#
# Source: org.apache.flink.api.common.functions.{ReduceFunction,AggregateFunction}.


class Reducer(ABC):
    """Combines two values of one type into one, until one is left."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Combine two values.

        Args:
            value1: The value so far; it may be changed and returned.
            value2: The next value.

        Returns:
            The combined value.
        """


class Aggregator(ABC):
    """Adds values to an accumulator, whose type may differ from that of values and result."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Make an empty accumulator.

        Returns:
            The accumulator.
        """

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Add a value.

        Args:
            value: The value.
            accumulator: It may be changed and returned.

        Returns:
            The accumulator with the value.
        """

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Compute the result.

        Args:
            accumulator: The accumulator.

        Returns:
            The result.
        """

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Merge two accumulators, for windows that merge.

        Args:
            acc_a: It may be changed and returned.
            acc_b: It may be changed and returned.

        Returns:
            One accumulator.
        """


class ReduceFunctionWrapper(Reducer):
    """Makes a function of two values an object with `reduce`.

    Args:
        func: The function.
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        self._func = func

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self._func(value1, value2)


# Descriptors of a function's state: its name, types and lifetime. Source: pyflink.datastream.state


class StateDescriptor:
    """Base of the descriptors of a state: its name, type and time to live.

    Args:
        name: Name of the state: a string; the same name is the same state.
        type_info: Type of the state: of Types, or of Spark as a DataType or DDL text.

    Raises:
        TypeError: A name that is not a string, or a type that streams cannot have.
        ValueError: DDL text that is not a type.
    """

    #: The form of entries in files, if it does not follow from the type.
    _stored_form: "EntryForm | None" = None

    def __init__(self, name: str, type_info: Any) -> None:
        self.name = require_text(name, "name of a state")
        self.type_info = declared_type(type_info, f"type of the state {name!r}")
        self._ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the state's name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let values expire.

        Args:
            ttl_config: A StateTtlConfig.
        """
        self._ttl_config = ttl_config


class ValueStateDescriptor(StateDescriptor):
    """Describes a ValueState.

    Args:
        name: Name of the state: a string; the same name is the same state.
        value_type_info: Type of the value: of Types, or of Spark as a DataType or DDL text.

    Raises:
        TypeError: A name that is not a string, or a type that streams cannot have.
        ValueError: DDL text that is not a type.

    Examples:
        >>> from penstock.common import Types
        >>> from penstock.datastream.state import ValueStateDescriptor
        >>> ValueStateDescriptor("total", Types.LONG()).get_name()
        'total'
    """

    def __init__(self, name: str, value_type_info: Any) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a ListState.

    Args:
        name: Name of the state: a string; the same name is the same state.
        elem_type_info: Type of the elements: of Types, or of Spark as a DataType or DDL text.

    Raises:
        TypeError: A name that is not a string, or a type that streams cannot have.
        ValueError: DDL text that is not a type.
    """

    def __init__(self, name: str, elem_type_info: Any) -> None:
        super().__init__(
            name, Types.LIST(declared_type(elem_type_info, f"type of the elements of the state {name!r}"))
        )


class MapStateDescriptor(StateDescriptor):
    """Describes a MapState or a broadcast state.

    Args:
        name: Name of the state: a string; the same name is the same state.
        key_type_info: Type of the keys: of Types, or of Spark as a DataType or DDL text.
        value_type_info: Type of the values: of Types, or of Spark as a DataType or DDL text.

    Raises:
        TypeError: A name that is not a string, or a type that streams cannot have.
        ValueError: DDL text that is not a type.
    """

    def __init__(self, name: str, key_type_info: Any, value_type_info: Any) -> None:
        key_type = declared_type(key_type_info, f"type of the keys of the state {name!r}")
        value_type = declared_type(value_type_info, f"type of the values of the state {name!r}")
        super().__init__(name, Types.MAP(key_type, value_type))


class ReducingStateDescriptor(StateDescriptor):
    """Describes a ReducingState.

    Args:
        name: Name of the state: a string; the same name is the same state.
        reduce_function: A ReduceFunction, or a function of two values.
        type_info: Type of the values: of Types, or of Spark as a DataType or DDL text.

    Raises:
        TypeError: Another kind of function, a name that is not a string, or a type that streams cannot have.
        ValueError: DDL text that is not a type.
    """

    def __init__(self, name: str, reduce_function: Any, type_info: Any) -> None:
        super().__init__(name, type_info)
        if not isinstance(reduce_function, Reducer):
            if not callable(reduce_function):
                raise TypeError("The input must be a ReduceFunction or a callable function!")
            reduce_function = ReduceFunctionWrapper(reduce_function)
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        """Return the function, as an object with `reduce`."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes an AggregatingState.

    Args:
        name: Name of the state: a string; the same name is the same state.
        agg_function: An AggregateFunction.
        state_type_info: Type of the accumulator: of Types, or of Spark as a DataType or DDL text.

    Raises:
        TypeError: Another kind of function, a name that is not a string, or a type that streams cannot have.
        ValueError: DDL text that is not a type.
    """

    def __init__(self, name: str, agg_function: Aggregator, state_type_info: Any) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, Aggregator):
            raise TypeError("The input must be a pyflink.datastream.functions.AggregateFunction!")
        self._agg_function = agg_function

    def get_agg_function(self) -> Aggregator:
        """Return the AggregateFunction."""
        return self._agg_function


T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """State of the key of the current record."""

    @abstractmethod
    def clear(self) -> None:
        """Clear the state of the current key."""


class ValueState(State, Generic[T]):
    """One value per key."""

    @abstractmethod
    def value(self) -> T:
        """Return the value of the current key.

        Returns:
            The value; None if there is none.
        """

    @abstractmethod
    def update(self, value: T) -> None:
        """Set the value of the current key.

        Args:
            value: The value; None clears it.
        """


class AppendingState(State, Generic[IN, OUT]):
    """State to which values are added."""

    @abstractmethod
    def get(self) -> OUT:
        """Return the state of the current key, in the form of its kind."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value for the current key.

        Args:
            value: The value.
        """


class MergingState(AppendingState[IN, OUT]):
    """Appending state that can be merged, as windows that merge need."""


class ReducingState(MergingState[T, T]):
    """One combined value per key; `get` returns None before the first."""


class AggregatingState(MergingState[IN, OUT]):
    """One accumulator per key; `get` returns the function's result, None before the first value."""


class ListState(MergingState[T, Iterable[T]]):
    """A list per key; `get` returns an iterable, empty without values."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace the list of the current key.

        Args:
            values: A list.
        """

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Append to the list of the current key.

        Args:
            values: A list.
        """

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class ReadOnlyBroadcastState(State, Generic[K, V]):
    """The entries of a broadcast state, the same in all subtasks."""

    @abstractmethod
    def get(self, key: K) -> V:
        """Return a value.

        Args:
            key: A key of the state.

        Returns:
            The value; None if there is none.
        """

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Tell whether a key has a value other than None.

        Args:
            key: A key of the state.

        Returns:
            bool: Whether it has.
        """

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return a copy of the entries."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return a copy of the keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return a copy of the values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Tell whether there is no entry."""

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
        """Set a value.

        Args:
            key: A key of the declared type.
            value: A value of the declared type.
        """

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set several values.

        Args:
            dict_value: A dict of keys and values of the declared types.
        """

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a key, if it is there.

        Args:
            key: A key of the state.
        """

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(State, Generic[K, V]):
    """A dictionary per key."""

    @abstractmethod
    def get(self, key: K) -> V:
        """Return a value.

        Args:
            key: A key of the dictionary.

        Returns:
            The value; None if there is none.
        """

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set a value.

        Args:
            key: A key of the dictionary.
            value: The value.
        """

    @abstractmethod
    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set several values.

        Args:
            dict_value: A dict.
        """

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove a key, if it is there.

        Args:
            key: A key of the dictionary.
        """

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Tell whether a key has a value other than None.

        Args:
            key: A key of the dictionary.

        Returns:
            bool: Whether it has.
        """

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Return the entries as they are now."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Return the keys as they are now."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Return the values as they are now."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Tell whether there is no entry."""

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
        """Return a broadcast state, which is made on first use.

        Args:
            state_descriptor: Name and types; the same name is the same state.

        Returns:
            BroadcastState: The state of this subtask.
        """


# Access to keyed state. Source: pyflink.datastream.functions.KeyedStateStore


class KeyedStateStore(ABC):
    """Hands out handles of state that always refer to the key of the record being processed.

    Two descriptors of the same name and kind get the same state.
    """

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the state of one value per key.

        Args:
            state_descriptor: Name and type of the state.

        Returns:
            ValueState: Always of the current key.
        """

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the state of a list per key.

        Args:
            state_descriptor: Name and type of the state.

        Returns:
            ListState: Always of the current key.
        """

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the state of a dictionary per key.

        Args:
            state_descriptor: Name and type of the state.

        Returns:
            MapState: Always of the current key.
        """

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the state of one combined value per key.

        Args:
            state_descriptor: Name, type and reduce function of the state.

        Returns:
            ReducingState: Always of the current key.
        """

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """Return the state of one accumulator per key.

        Args:
            state_descriptor: Name, accumulator type and aggregate function of the state.

        Returns:
            AggregatingState: Always of the current key.
        """
