"""State that takes only what its declared types can hold.

PyFlink encodes what a function has put into state at the end of a bundle, and fails where a value is not of
the declared type. Here state mostly stays in memory as Python objects. Elements of lists and entries of maps
are checked when they are put in. Of a single value (value, reducing and aggregating state) the last one
counts. It is checked about as often as PyFlink ends a bundle, so that `update(None)` is an error unless
another value or `clear` follows.

Source: pyflink.fn_execution.state_impl.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from operators.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from operators.state.keyed_states import KeyedValueState
from operators.state.state_table import StateTable
from operators.state.ttl_states import Expiring
from operators.state.value_check import Check, value_check


def checked_state(state: Any, descriptor: StateDescriptor, table: StateTable | None = None) -> Any:
    """`state`, which from here on raises where it is given a value that is not of the descriptor's type.

    Values of single-valued state are checked by `table.commit`.
    """
    type_info: Any = descriptor.type_info
    match descriptor:
        case ListStateDescriptor():
            _check_list(state, value_check(type_info.elem_type))
        case MapStateDescriptor():
            _check_map(state, value_check(type_info._key_type_info), value_check(type_info._value_type_info))
        case ValueStateDescriptor() | ReducingStateDescriptor() | AggregatingStateDescriptor():
            check = value_check(type_info)
            if table is not None and check is not None:
                table.check = _of_stamped(check) if isinstance(state, Expiring) else check
                _note_writes(state, table)
    return state


def _of_stamped(check: Check) -> Check:
    return lambda stamped: check(stamped[0])


def _note_writes(state: Any, table: StateTable) -> None:
    scope = state._scope
    plain_value = type(state) is KeyedValueState
    if plain_value:

        def kept_update(value: Any) -> None:
            # what `update` and `keep_none` do, in one call: it is made for each record
            key = scope.key
            table.entries[key] = value
            table.written.add(key)

        state.update = kept_update
    elif hasattr(state, "update"):
        update = state.update

        def noted_update(value: Any) -> None:
            update(value)
            if value is None:
                state.keep_none()
            table.written.add(scope.key)

        state.update = noted_update
    else:
        add, merge, get = state.add, state.merge_namespaces, state.get

        def noted_add(value: Any) -> None:
            add(value)
            table.written.add(scope.key)

        def noted_merge(target: Any, sources: Iterable[Any]) -> None:
            merge(target, sources)
            table.written.add(scope.key_of(target))

        state.add, state.merge_namespaces = noted_add, noted_merge
        if table.namespaced:

            def checked_get() -> Any:
                # windows are mostly cleared before the next commit
                table.commit()
                return get()

            state.get = checked_get


def _check_argument(state: Any, name: str, check: Check | None) -> None:
    if check is None:
        return
    method = getattr(state, name)

    def checked(value: Any) -> Any:
        check(value)
        return method(value)

    setattr(state, name, checked)


def _check_list(state: Any, check: Check | None) -> None:
    if check is None:
        return
    _check_argument(state, "add", check)
    for name in ("add_all", "update"):
        method = getattr(state, name)

        def checked(values: Iterable[Any], method: Callable[[list[Any]], Any] = method) -> Any:
            elements = list(values)
            for element in elements:
                check(element)
            return method(elements)

        setattr(state, name, checked)


def _check_map(state: Any, check_key: Check | None, check_value: Check | None) -> None:
    def check(key: Any, value: Any) -> None:
        if check_key is not None:
            check_key(key)
        if check_value is not None and value is not None:
            check_value(value)

    if check_key is None and check_value is None:
        return
    put, put_all = state.put, state.put_all

    def checked_put(key: Any, value: Any) -> Any:
        check(key, value)
        return put(key, value)

    def checked_put_all(dict_value: Mapping[Any, Any]) -> Any:
        entries = dict(dict_value)
        for key, value in entries.items():
            check(key, value)
        return put_all(entries)

    state.put, state.put_all = checked_put, checked_put_all
    for name in ("get", "contains", "remove"):
        if hasattr(state, name):
            _check_argument(state, name, check_key)
