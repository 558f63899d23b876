"""Makes the state that a descriptor describes."""

from collections.abc import Callable
from typing import Any

from penstock.operators.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.operators.state.interfaces import State
from penstock.operators.state.keyed_states import (
    KeyedAggregatingState,
    KeyedListState,
    KeyedMapState,
    KeyedReducingState,
    KeyedValueState,
    Scope,
)
from penstock.operators.state.lifetime import Lifetime
from penstock.operators.state.state_table import StateTable
from penstock.operators.state.value_check import Check, value_check


def make_state(
    descriptor: StateDescriptor, table: StateTable, scope: Scope, clock: Callable[[], int], *, checked: bool
) -> State:
    """State over `table`, expiring by `clock` if the descriptor says so; TypeError for an unknown descriptor.

    `checked`: it raises where it is given a value that is not of the descriptor's type. Values of
    single-valued state are checked by `table.commit`.
    """
    config = descriptor._ttl_config
    lifetime = Lifetime(config, clock) if config is not None and config.is_enabled() else None
    type_info: Any = descriptor.type_info

    def check(part: Any) -> Check | None:
        return value_check(part) if checked else None

    match descriptor:
        case ListStateDescriptor():
            return KeyedListState(table, scope, lifetime, check(type_info.elem_type))
        case MapStateDescriptor():
            of_key, of_item = check(type_info._key_type_info), check(type_info._value_type_info)
            return KeyedMapState(table, scope, lifetime, of_key, of_item)
    table.check = _of_entries(check(type_info), stamped=lifetime is not None)
    match descriptor:
        case ValueStateDescriptor():
            return KeyedValueState(table, scope, lifetime)
        case ReducingStateDescriptor():
            return KeyedReducingState(table, scope, lifetime, descriptor.get_reduce_function())
        case AggregatingStateDescriptor():
            return KeyedAggregatingState(table, scope, lifetime, descriptor.get_agg_function())
    raise TypeError(f"{type(descriptor).__name__} describes no state")


def _of_entries(check: Check | None, *, stamped: bool) -> Check | None:
    return (lambda entry: check(entry[0])) if check is not None and stamped else check
