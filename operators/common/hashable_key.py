"""Keys as dict keys: equal where Flink takes two keys for the same, and only there."""

import datetime
from array import array
from collections.abc import Callable, Hashable
from decimal import Decimal
from enum import Enum
from math import isnan
from types import BuiltinFunctionType, FunctionType
from typing import Any
from uuid import UUID

import numpy as np

from operators.common.row import Row
from operators.common.time import Instant

_THEMSELVES = frozenset(
    {
        str, int, bytes, type(None), datetime.date, datetime.datetime, datetime.time, datetime.timedelta,
        UUID, Instant, type, FunctionType, BuiltinFunctionType,
    }
)  # fmt: skip


def hashable_key(key: Any) -> Hashable:
    """The key itself where it will do, else a hashable stand-in of the same meaning.

    Python takes 1, 1.0, True and Decimal(1) for equal, Flink does not: only one of them stays as it is.
    NaN equals itself, 0.0 differs from -0.0. Dicts and sets are equal whatever their order. An object without
    a `__hash__` of its own stands for its class and state. TypeError for what cannot be taken apart.
    """
    kind = type(key)
    if kind in _THEMSELVES:
        return key  # type: ignore[no-any-return]
    return _FORMS.get(kind, _other)(key)


def _tuple(key: tuple[Any, ...]) -> Hashable:
    for one in key:
        if type(one) not in _THEMSELVES:
            return tuple(map(hashable_key, key))
    return key


def _float(key: float) -> Hashable:
    if key.is_integer():
        return (float, key) if key else (float, repr(key))
    return (float, "nan") if isnan(key) else key


def _row(key: Row) -> Hashable:
    names = None if key._names is None else tuple(key._names)
    return (Row, key._row_kind.value, names, *map(hashable_key, key._values))


def _dict(key: dict[Any, Any]) -> Hashable:
    items = zip(map(hashable_key, key), map(hashable_key, key.values()), strict=True)
    return (dict, frozenset(items))


def _ndarray(key: Any) -> Hashable:
    content = hashable_key(key.tolist()) if key.dtype.hasobject else key.tobytes()
    return (np.ndarray, key.dtype.str, key.shape, content)


_FORMS: dict[type, Callable[[Any], Hashable]] = {
    tuple: _tuple,
    bool: lambda key: (bool, key),
    float: _float,
    Decimal: lambda key: (Decimal, tuple(key.as_tuple())),
    list: lambda key: (list, *map(hashable_key, key)),
    dict: _dict,
    set: lambda key: (set, frozenset(map(hashable_key, key))),
    frozenset: lambda key: (frozenset, frozenset(map(hashable_key, key))),
    bytearray: lambda key: (bytearray, bytes(key)),
    Row: _row,
    array: lambda key: (array, key.typecode, key.tobytes()),
    np.ndarray: _ndarray,
}
_BASES: tuple[Any, ...] = (str, int, float, bytes, tuple, list, dict, set, frozenset)


def _other(key: Any) -> Hashable:
    kind = type(key)
    if isinstance(key, (type, FunctionType, BuiltinFunctionType)):
        return key
    if isinstance(key, Enum):
        return (kind, hashable_key(key.value))
    if isinstance(key, np.generic):
        return (kind, hashable_key(key.item()))
    for base in _BASES:
        if isinstance(key, base):
            return (kind, hashable_key(base(key)))
    if isinstance(key, complex):
        return (complex, repr(key))
    own_hash: Any = kind.__hash__
    if own_hash is None or own_hash is object.__hash__:
        return (kind, *map(hashable_key, state_of(key)))
    return key  # type: ignore[no-any-return]


def state_of(value: Any) -> tuple[Any, ...]:
    """What pickle would rebuild `value` from, except its class. TypeError if it cannot be pickled."""
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return (reduced,)
    arguments = tuple(one for one in reduced[1] if one is not type(value))
    return (arguments, *(list(one) if hasattr(one, "__next__") else one for one in reduced[2:]))
