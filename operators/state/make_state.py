"""The state object for a descriptor."""

from collections.abc import Callable

from operators.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from operators.state.interfaces import State
from operators.state.keyed_states import (
    KeyedAggregatingState,
    KeyedListState,
    KeyedMapState,
    KeyedReducingState,
    KeyedValueState,
    Scope,
)
from operators.state.state_table import StateTable
from operators.state.ttl_config import StateTtlConfig
from operators.state.ttl_states import (
    ExpiringAggregatingState,
    ExpiringListState,
    ExpiringMapState,
    ExpiringReducingState,
    ExpiringValueState,
)


def make_state(
    descriptor: StateDescriptor, table: StateTable, scope: Scope, clock: Callable[[], int]
) -> State:
    """State over `table`, expiring by `clock` if the descriptor says so.

    Raises TypeError: a descriptor of no known kind.
    """
    config = descriptor._ttl_config
    if config is not None and config.is_enabled():
        return _make_expiring(descriptor, table, scope, config, clock)
    match descriptor:
        case ValueStateDescriptor():
            return KeyedValueState(table, scope)
        case ListStateDescriptor():
            return KeyedListState(table, scope)
        case MapStateDescriptor():
            return KeyedMapState(table, scope)
        case ReducingStateDescriptor():
            return KeyedReducingState(table, scope, descriptor.get_reduce_function())
        case AggregatingStateDescriptor():
            return KeyedAggregatingState(table, scope, descriptor.get_agg_function())
    raise TypeError(f"{type(descriptor).__name__} describes no state")


def _make_expiring(
    descriptor: StateDescriptor,
    table: StateTable,
    scope: Scope,
    config: StateTtlConfig,
    clock: Callable[[], int],
) -> State:
    match descriptor:
        case ValueStateDescriptor():
            return ExpiringValueState(table, scope, config, clock)
        case ListStateDescriptor():
            return ExpiringListState(table, scope, config, clock)
        case MapStateDescriptor():
            return ExpiringMapState(table, scope, config, clock)
        case ReducingStateDescriptor():
            return ExpiringReducingState(table, scope, config, clock, descriptor.get_reduce_function())
        case AggregatingStateDescriptor():
            return ExpiringAggregatingState(table, scope, config, clock, descriptor.get_agg_function())
    raise TypeError(f"{type(descriptor).__name__} describes no state")
