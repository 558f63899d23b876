"""Compare keys by their serialised form, everywhere.

In PyFlink a key without a declared type is the byte array of its pickle, and only that is compared and
hashed: 1, 1.0 and True are three keys, a moment in two time zones is two, and the `__eq__` of an author's
class does not count. (A key of a declared type has already passed the coder of its type:
`key_selection.TypedKeys`.) Here the value decides the parts of pickles that are otherwise arbitrary: whether
equal strings are one object, and the order of a set.

Source: org.apache.flink.streaming.api.functions.python.KeyByKeySelector,
pyflink.fn_execution.coder_impl_fast.CloudPickleCoderImpl.
"""

import datetime
import pickle
from array import array
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from functools import partial
from math import isnan
from types import BuiltinFunctionType, FunctionType
from typing import Any
from uuid import UUID

import numpy as np

from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant

#: Types whose keys are the same key exactly if they are equal in Python.
_PLAIN = frozenset({str, int, bytes, type(None), datetime.date, datetime.timedelta, UUID, Instant})
_WORDS = frozenset({str, bytes})
_ALIKE = frozenset({int, bool, type(None)})
_FLAT = _ALIKE | _WORDS
_SINGLE = frozenset({datetime.date, datetime.timedelta, Decimal, UUID})
_MOMENTS = frozenset({datetime.datetime, datetime.time})
_NAMED = (type, FunctionType, BuiltinFunctionType)


class SerializedKey:
    """A key that a dictionary would refuse or confuse with others, together with its serialised form."""

    __slots__ = ("_hash", "original", "serialized")

    def __init__(self, serialized: bytes, original: Any) -> None:
        self.serialized, self.original = serialized, original
        self._hash = hash(serialized)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return type(other) is SerializedKey and self.serialized == other.serialized

    def __reduce__(self) -> tuple[type["SerializedKey"], tuple[bytes, Any]]:
        return SerializedKey, (self.serialized, self.original)


def dictionary_key(key: Any) -> Hashable:
    """Return `key` itself if dictionaries distinguish it correctly, else a SerializedKey.

    Raises TypeError for a key that cannot be serialised.
    """
    return key if _is_plain(key) else SerializedKey(serialized_key(key), key)


def dictionary_keys(keys: list[Any]) -> Sequence[Any]:
    """Return `dictionary_key` of each; the list itself if all are plain."""
    if _PLAIN.issuperset(map(type, keys)):
        return keys
    return [dictionary_key(key) for key in keys]


def original_key(key: Any) -> Any:
    """Return the key selector's result from its `dictionary_key`."""
    return key.original if type(key) is SerializedKey else key


def serialized_key(key: Any) -> bytes:
    """Return PyFlink's serialised form of `key`, or another one if it contains an object or a set.

    Raises TypeError for a key that cannot be serialised.
    """
    kind = type(key)
    if kind is SerializedKey:
        return key.serialized  # type: ignore[no-any-return]
    if kind in _WORDS or kind is int or (kind is tuple and _is_flat(key)):
        return pickle.dumps(key, protocol=5)
    with suppress(RecursionError):  # a key that contains itself is pickled unchanged
        key = _normalized(key, {})
    return pickle.dumps(key, protocol=5)


def _is_plain(key: Any) -> bool:
    kind = type(key)
    if kind in _PLAIN:
        return True
    if kind is tuple:
        return _PLAIN.issuperset(map(type, key)) or all(map(_is_plain, key))
    return kind is float and not (key.is_integer() or isnan(key))


def _is_flat(key: tuple[Any, ...]) -> bool:
    # so that pickle's bytes only depend on the values
    words = [part for part in key if type(part) in _WORDS]
    return len(set(words)) == len(words) and _FLAT.issuperset(map(type, key))


def _normalized(value: Any, seen: dict[Any, Any]) -> Any:
    """Return the form of `value` to pickle. `seen` has one object for equal ones, which is pickled once."""
    kind = type(value)
    if kind in _ALIKE:
        return value
    if kind in _WORDS:
        return seen.setdefault((kind, value), value)
    if kind in _SINGLE or (kind in _MOMENTS and type(value.tzinfo) in _ZONES):
        return seen.setdefault((kind, repr(value)), value)
    # rows of a declared type have a class of their own
    rebuild = _row if isinstance(value, Row) else _REBUILT.get(kind)
    if rebuild is not None:
        return rebuild(value, seen)
    if isinstance(value, _NAMED):
        return _form(value, (), seen)
    if isinstance(value, Enum):
        return _form(kind, (value.value,), seen)
    if isinstance(value, np.generic):
        return _form(kind, (value.item(),), seen)
    return _form(kind, _state(value), seen)


def _form(kind: Any, parts: Sequence[Any], seen: dict[Any, Any]) -> Any:
    """Return the substitute for a value of `kind`, marked with `...`, which no other tuple then has."""
    return (..., f"{kind.__module__}.{kind.__qualname__}", *[_normalized(part, seen) for part in parts])


def _state(value: Any) -> tuple[Any, ...]:
    """Return the data from which pickle would rebuild `value`, except its class.

    Raises TypeError if there is none.
    """
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return (reduced,)
    arguments = tuple(part for part in reduced[1] if part is not type(value))
    return (arguments, *(list(part) if hasattr(part, "__next__") else part for part in reduced[2:]))


def _tuple(value: tuple[Any, ...], seen: dict[Any, Any]) -> Any:
    return tuple([_normalized(item, seen) for item in value])


def _list(value: list[Any], seen: dict[Any, Any]) -> Any:
    return [_normalized(item, seen) for item in value]


def _dict(value: dict[Any, Any], seen: dict[Any, Any]) -> Any:
    if _FLAT.issuperset(map(type, value)):
        return {_normalized(key, seen): _normalized(item, seen) for key, item in value.items()}
    return _form(dict, [part for entry in value.items() for part in entry], seen)


def _set(value: Any, seen: dict[Any, Any]) -> Any:
    return _form(type(value), sorted(map(serialized_key, value)), seen)


def _row(value: Row, seen: dict[Any, Any]) -> Any:
    names = None if value._names is None else tuple(value._names)
    return _form(Row, (value._row_kind.value, names, *value._values), seen)


def _ndarray(value: Any, seen: dict[Any, Any]) -> Any:
    content = value.tolist() if value.dtype.hasobject else value.tobytes()
    return _form(np.ndarray, (value.dtype.str, value.shape, content), seen)


_ZONES = (type(None), datetime.timezone)
_REBUILT: dict[type, Callable[[Any, dict[Any, Any]], Any]] = {
    float: lambda value, seen: float("nan") if isnan(value) else value,
    tuple: _tuple,
    list: _list,
    dict: _dict,
    set: _set,
    frozenset: _set,
    bytearray: lambda value, seen: _form(bytearray, (bytes(value),), seen),
    complex: lambda value, seen: _form(complex, (repr(value),), seen),
    array: lambda value, seen: _form(array, (value.typecode, value.tobytes()), seen),
    np.ndarray: _ndarray,
    partial: lambda value, seen: _form(partial, (value.func, value.args, value.keywords), seen),
}
