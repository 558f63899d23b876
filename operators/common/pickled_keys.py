"""Hashes of keys of no declared type: byte arrays of pickles in Flink, hashed by their content.

Strings, numbers, booleans, None, bytes, dates, Decimals, and tuples, lists and dicts of them have the very
bytes of PyFlink's pickles, and so its key groups.
"""

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.common.polynomial_hashes import Hashes, binary_offsets, polynomial_hashes
from penstock.operators.common.serialized_keys import serialized_key

_SHORT = 256
"""Strings below this many bytes have a short form in pickles."""


def pickled_key_hashes(keys: Sequence[Any]) -> Hashes:
    """Hash of each key, as java_hash.key_hashes: of a Row with a byte array, or with null for None."""
    types = set(map(type, keys))
    # the Row, its array of fields, the deep hash of the byte array: the latter two put 31 on top
    hashes = _hash_pickles(keys, types) + np.uint32(62)
    if type(None) in types:
        hashes[[at for at, key in enumerate(keys) if key is None]] = 31
    return hashes


def _hash_pickles(keys: Sequence[Any], types: set[type]) -> Hashes:
    if types == {str}:
        return _hash_strings(keys)
    if types == {int} and min(keys) >= -(1 << 63) and max(keys) < 1 << 63:
        return _hash_integers(np.array(keys, dtype=np.int64))
    return _hash_binary([serialized_key(key) for key in keys])


def _hash_binary(pickles: list[bytes]) -> Hashes:
    content, offsets = binary_offsets(pa.array(pickles, pa.large_binary()))
    return polynomial_hashes(content.view(np.int8), offsets, 1)


def _hash_strings(keys: Sequence[str]) -> Hashes:
    # a pickle is a header that depends on the length only, the UTF-8, and three bytes
    content, offsets = binary_offsets(pa.array(keys, pa.large_string()))
    lengths = np.diff(offsets)
    long = np.flatnonzero(lengths >= _SHORT)
    lengths[long] = 0
    hashes = polynomial_hashes(content.view(np.int8), offsets, 0) * np.uint32(31**2)
    hashes += _HEADERS[lengths] + _TRAILER
    if len(long):
        hashes[long] = _hash_binary([serialized_key(keys[at]) for at in long.tolist()])
    return hashes


def _hash_integers(values: npt.NDArray[np.int64]) -> Hashes:
    magnitudes = np.where(values < 0, ~values, values)
    widths = np.searchsorted(_LIMITS, magnitudes, side="right") + 4
    widths[(values >= 0) & (values < 1 << 16)] = 2
    widths[(values >= 0) & (values < 1 << 8)] = 1
    little_endian = values.astype("<i8").view(np.int8).reshape(-1, 8)
    hashes = np.zeros(len(values), dtype=np.uint32)
    for width in np.unique(widths).tolist():
        chosen = widths == width
        own = np.full(int(chosen.sum()), _INTEGER_HEADERS[width], dtype=np.uint32)
        for at in range(width):
            own = own * np.uint32(31) + little_endian[chosen, at].astype(np.uint32)
        hashes[chosen] = own * np.uint32(31) + np.uint32(ord("."))
    return hashes


def _hash(content: bytes, initial: int = 1) -> int:
    for byte in content:
        initial = (initial * 31 + (byte - 256 if byte > 127 else byte)) % (1 << 32)
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
