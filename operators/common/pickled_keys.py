"""Keys of no declared type: byte arrays of pickles in Flink, hashed by their content.

Strings, numbers, booleans, None, bytes, dates, Decimals, and tuples and lists of them have the very bytes of
PyFlink's pickles, and so its key groups. Of other keys, the bytes are of what hashable_key tells apart: where
pickle gives equal keys different bytes (shared strings, order in sets and dicts), these are the same.
"""

import datetime
import pickle
from collections.abc import Callable, Sequence
from decimal import Decimal
from types import BuiltinFunctionType, FunctionType
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from operators.common.hashable_key import hashable_key, state_of
from operators.common.polynomial_hashes import Hashes, binary_offsets, polynomial_hashes

_WORDS = frozenset({str, bytes})
_ALIKE = frozenset({int, bool, type(None)})
_FLAT = _ALIKE | _WORDS
_SINGLE = frozenset({datetime.date, datetime.datetime, datetime.time, datetime.timedelta, Decimal, UUID})
_SHORT = 256
"""Strings below this many bytes have a short form in pickles."""


def pickled_key(key: Any) -> bytes:
    """The bytes that stand for `key`; the same for keys with the same hashable_key. TypeError as there."""
    kind = type(key)
    if kind not in _WORDS and kind is not int and not (kind is tuple and _is_flat(key)):
        key = _same_for_equal(key, {})
    return pickle.dumps(key, protocol=5)


def pickled_key_hashes(keys: Sequence[Any]) -> Hashes:
    """Hash of each key, as java_hash.key_hashes: of a Row with a byte array, or with null for None."""
    types = set(map(type, keys))
    # the Row, its array of fields, the deep hash of the byte array: the latter two put 31 on top
    found = _of_arrays(keys, types) + np.uint32(62)
    if type(None) in types:
        found[[at for at, key in enumerate(keys) if key is None]] = 31
    return found


def _of_arrays(keys: Sequence[Any], types: set[type]) -> Hashes:
    if types == {str}:
        return _of_strings(keys)
    if types == {int} and min(keys) >= -(1 << 63) and max(keys) < 1 << 63:
        return _of_integers(np.array(keys, dtype=np.int64))
    return _of_binary([pickled_key(key) for key in keys])


def _of_binary(pickles: list[bytes]) -> Hashes:
    content, offsets = binary_offsets(pa.array(pickles, pa.large_binary()))
    return polynomial_hashes(content.view(np.int8), offsets, 1)


def _of_strings(keys: Sequence[str]) -> Hashes:
    # a pickle is a header that depends on the length only, the UTF-8, and three bytes
    content, offsets = binary_offsets(pa.array(keys, pa.large_string()))
    lengths = np.diff(offsets)
    long = np.flatnonzero(lengths >= _SHORT)
    lengths[long] = 0
    found = polynomial_hashes(content.view(np.int8), offsets, 0) * np.uint32(31**2)
    found += _HEADERS[lengths] + _TRAILER
    if len(long):
        found[long] = _of_binary([pickled_key(keys[at]) for at in long.tolist()])
    return found


def _of_integers(values: npt.NDArray[np.int64]) -> Hashes:
    magnitudes = np.where(values < 0, ~values, values)
    widths = np.searchsorted(_LIMITS, magnitudes, side="right") + 4
    widths[(values >= 0) & (values < 1 << 16)] = 2
    widths[(values >= 0) & (values < 1 << 8)] = 1
    little_endian = values.astype("<i8").view(np.int8).reshape(-1, 8)
    found = np.zeros(len(values), dtype=np.uint32)
    for width in np.unique(widths).tolist():
        chosen = widths == width
        own = np.full(int(chosen.sum()), _INTEGER_HEADERS[width], dtype=np.uint32)
        for at in range(width):
            own = own * np.uint32(31) + little_endian[chosen, at].astype(np.uint32)
        found[chosen] = own * np.uint32(31) + np.uint32(ord("."))
    return found


def _hash(content: bytes, initial: int = 1) -> int:
    for one in content:
        initial = (initial * 31 + (one - 256 if one > 127 else one)) % (1 << 32)
    return initial


def _header_hash(length: int) -> int:
    pickled = pickle.dumps("x" * length, protocol=5)
    end = len(pickled) - length - 2
    return _hash(pickled[:end]) * pow(31, length + 2, 1 << 32) % (1 << 32)


_HEADERS = np.array([_header_hash(length) for length in range(_SHORT)], dtype=np.uint32)
_TRAILER = np.uint32(_hash(pickle.dumps("x", protocol=5)[-2:], 0))


#: Magnitudes from which on two's complement takes 5, 6, 7 and 8 bytes.
_LIMITS = np.array([1 << 31, 1 << 39, 1 << 47, 1 << 55], dtype=np.int64)
_INTEGER_HEADERS = {
    width: _hash(pickle.dumps(1 << 8 * (width - 1) if width > 1 else 0, protocol=5)[: -width - 1])
    for width in (1, 2, 4, 5, 6, 7, 8)
}


def _is_flat(key: tuple[Any, ...]) -> bool:
    # such that pickle's bytes depend on the values only
    words = [one for one in key if type(one) in _WORDS]
    return len(set(words)) == len(words) and _FLAT.issuperset(map(type, key))


def _same_for_equal(value: Any, seen: dict[Any, Any]) -> Any:
    # equal strings have to be the same object, or pickle writes one of them out again
    kind = type(value)
    if kind in _ALIKE:
        return value
    if kind in _WORDS:
        return seen.setdefault((kind, value), value)
    if kind in _SINGLE:
        return seen.setdefault((kind, repr(value)), value)
    if kind in _REBUILT:
        return _REBUILT[kind](value, seen)
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return _name(value)
    form = hashable_key(value)
    if form is value:
        form = (kind, *state_of(value))
    return _same_for_equal(form, seen)


def _sorted(values: frozenset[Any], seen: dict[Any, Any]) -> Any:
    return _same_for_equal(sorted(map(pickled_key, values)), seen)


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


_REBUILT: dict[type, Callable[[Any, dict[Any, Any]], Any]] = {
    float: lambda value, seen: value if value == value else float("nan"),
    tuple: lambda value, seen: tuple([_same_for_equal(one, seen) for one in value]),
    list: lambda value, seen: [_same_for_equal(one, seen) for one in value],
    frozenset: _sorted,
}
