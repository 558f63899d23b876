"""State that takes only what its declared types can hold.

PyFlink encodes what a function has put into state, and fails where a value is not of the declared type. Here
state mostly stays in memory as Python objects, so that each value is looked at when it is put in. Single
values and tuples of these are checked in full; of rows, lists and maps only the class is.

Source: pyflink.fn_execution.state_impl.
"""

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from operators.common.codec import mismatch
from operators.common.collection_types import MapTypeInfo
from operators.common.convert_values import INTEGER_BITS, conversion_of
from operators.common.typeinfo import BasicTypeInfo, ListTypeInfo, TupleTypeInfo, TypeInformation
from operators.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)

#: Raises TypeError, OverflowError or ValueError for a value that is not of the type.
Check = Callable[[Any], None]


def value_check(type_info: TypeInformation | None) -> Check | None:
    """The check of values of a type; None where values are not checked."""
    if isinstance(type_info, BasicTypeInfo):
        return None if type_info._basic_type.name == "INSTANT" else _single(type_info)
    if isinstance(type_info, TupleTypeInfo):
        return _tuple(type_info)
    if isinstance(type_info, MapTypeInfo):
        return _of_class((dict,), type_info)
    return None


def _single(type_info: BasicTypeInfo) -> Check:
    kind, convert, _ = conversion_of(type_info)
    bits = INTEGER_BITS.get(type_info._basic_type)
    if bits is None:

        def check(value: Any) -> None:
            if type(value) is not kind:
                _convert(value)

    else:
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

        def check(value: Any) -> None:
            if type(value) is not int or not low <= value <= high:
                _convert(value)

    def _convert(value: Any) -> None:
        if value is None:
            raise TypeError(mismatch(value, type_info))
        convert(value, type_info)

    return check


def _tuple(type_info: TupleTypeInfo) -> Check:
    checks = [value_check(one) for one in type_info.get_field_types()]

    def check(value: Any) -> None:
        if not isinstance(value, (tuple, list)) or len(value) < len(checks):
            raise TypeError(mismatch(value, type_info))
        for check_field, field in zip(checks, value, strict=False):
            if check_field is not None and field is not None:
                check_field(field)

    return check


def _of_class(kinds: tuple[type, ...], type_info: TypeInformation) -> Check:
    def check(value: Any) -> None:
        if not isinstance(value, kinds):
            raise TypeError(mismatch(value, type_info))

    return check


def checked_state(state: Any, descriptor: StateDescriptor) -> Any:
    """`state`, which from here on raises where it is given a value that is not of the descriptor's type."""
    type_info: Any = descriptor.type_info
    match descriptor:
        case ValueStateDescriptor():
            _check_argument(state, "update", _or_none(value_check(type_info)))
        case ListStateDescriptor():
            assert isinstance(type_info, ListTypeInfo)
            _check_list(state, value_check(type_info.elem_type))
        case MapStateDescriptor():
            assert isinstance(type_info, MapTypeInfo)
            _check_map(state, value_check(type_info._key_type_info), value_check(type_info._value_type_info))
        case ReducingStateDescriptor():
            check = value_check(type_info)
            _check_argument(state, "add", check)
            _check_result(state, "_reduce", check)
        case AggregatingStateDescriptor():
            state._function = _checked_aggregate(state._function, value_check(type_info))
    return state


def _or_none(check: Check | None) -> Check | None:
    """None forgets a value, whatever its type."""
    return None if check is None else lambda value: None if value is None else check(value)


def _check_argument(state: Any, name: str, check: Check | None) -> None:
    if check is None:
        return
    method = getattr(state, name)

    def checked(value: Any) -> Any:
        check(value)
        return method(value)

    setattr(state, name, checked)


def _check_result(state: Any, name: str, check: Check | None) -> None:
    if check is None:
        return
    function = getattr(state, name)

    def checked(*arguments: Any) -> Any:
        result = function(*arguments)
        check(result)
        return result

    setattr(state, name, checked)


def _checked_aggregate(function: Any, check: Check | None) -> Any:
    if check is None:
        return function
    # methods of the function itself, which may be opened later
    names = ("create_accumulator", "add", "merge", "get_result")
    checked = SimpleNamespace(**{name: getattr(function, name) for name in names})
    for name in ("add", "merge"):
        _check_result(checked, name, check)
    return checked


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
