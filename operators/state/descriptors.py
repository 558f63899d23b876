"""Descriptions of a function's state: its name, types and lifetime. Source: pyflink.datastream.state."""

from typing import Any

from penstock.operators.common.arguments import require_text
from penstock.operators.common.declared_types import declared_type
from penstock.operators.common.typeinfo import Types
from penstock.operators.state.reducer_and_aggregator import Aggregator, ReduceFunctionWrapper, Reducer
from penstock.operators.state.ttl_config import StateTtlConfig


class StateDescriptor:
    """Name and type of a state. Spark's types as `declared_type` takes them, with its errors.

    TypeError for a name that is not text.
    """

    def __init__(self, name: str, type_info: Any) -> None:
        self.name = require_text(name, "name of a state")
        self.type_info = declared_type(type_info, f"type of the state {name!r}")
        self._ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """The state's name; the same name is the same state."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let what is kept expire."""
        self._ttl_config = ttl_config


class ValueStateDescriptor(StateDescriptor):
    """Describes a ValueState."""

    def __init__(self, name: str, value_type_info: Any) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Describes a ListState by its elements' type."""

    def __init__(self, name: str, elem_type_info: Any) -> None:
        super().__init__(
            name, Types.LIST(declared_type(elem_type_info, f"type of the elements of the state {name!r}"))
        )


class MapStateDescriptor(StateDescriptor):
    """Describes a MapState or a broadcast state."""

    def __init__(self, name: str, key_type_info: Any, value_type_info: Any) -> None:
        key_type = declared_type(key_type_info, f"type of the keys of the state {name!r}")
        value_type = declared_type(value_type_info, f"type of the values of the state {name!r}")
        super().__init__(name, Types.MAP(key_type, value_type))


class ReducingStateDescriptor(StateDescriptor):
    """Describes a ReducingState. Raises TypeError: neither a ReduceFunction nor callable."""

    def __init__(self, name: str, reduce_function: Any, type_info: Any) -> None:
        super().__init__(name, type_info)
        if not isinstance(reduce_function, Reducer):
            if not callable(reduce_function):
                raise TypeError("The input must be a ReduceFunction or a callable function!")
            reduce_function = ReduceFunctionWrapper(reduce_function)
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        """The function, as an object with `reduce`."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes an AggregatingState by its function and the accumulator's type.

    Raises TypeError: not an AggregateFunction.
    """

    def __init__(self, name: str, agg_function: Aggregator, state_type_info: Any) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, Aggregator):
            raise TypeError("The input must be a pyflink.datastream.functions.AggregateFunction!")
        self._agg_function = agg_function

    def get_agg_function(self) -> Aggregator:
        """The function."""
        return self._agg_function
