"""Java's hashCode of values by their type, for whole columns, from which Flink derives key groups.

A key in PyFlink is, in Java, the only field of a Row. A Row hashes lists, maps and arrays in its own way; in
a tuple, a list or a map they have the hash of java.util. Dates and times are hashed as in a JVM whose time
zone is UTC. An array in a tuple, list or map, for which Java has no stable hash, is hashed by its content.

Source: org.apache.flink.types.RowUtils.deepHashCodeRow, Tuple2.hashCode and the classes of java.lang,
java.math, java.sql, java.time and java.util;
org.apache.flink.streaming.api.functions.python.KeyByKeySelector.
"""

import pickle
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from penstock.operators.common.adapt_columns import as_arrow_type
from penstock.operators.common.arrow_types import arrow_type, element_type
from penstock.operators.common.basic_types import (
    BasicType,
    BasicTypeInfo,
    ForeignTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.operators.common.serialized_keys import serialized_key
from penstock.operators.common.typeinfo import (
    DateTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)

# Java's hash of sequences, Σ element·31^(n-1-i), for many sequences at once
#
# Source: java.lang.String.hashCode, java.util.Arrays.hashCode, java.util.List.hashCode.


Hashes = npt.NDArray[np.uint32]  #: Java ints, unsigned
Offsets = npt.NDArray[np.int64]

_BLOCK = 1 << 16
"""Elements in one block: intermediate results stay in the processor's cache."""


def _powers(base: int) -> Hashes:
    powers = np.full(_BLOCK + 1, base, dtype=np.uint32)
    powers[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint32)


_POWERS = _powers(31)
_INVERSE_POWERS = _powers(pow(31, -1, 1 << 32))


def polynomial_hashes(elements: npt.NDArray[Any], offsets: Offsets, initial: int) -> Hashes:
    """Return the hash of each sequence elements[offsets[i]:offsets[i+1]], plus `initial`·31^length.

    `elements` are integers of any width; they are taken modulo 2^32.
    """
    sums = [np.zeros(0, dtype=np.uint32)]
    lengths = np.diff(offsets)
    row, rows = 0, len(lengths)
    while row < rows:
        until = int(np.searchsorted(offsets, offsets[row] + _BLOCK, side="right")) - 1
        if until <= row:
            sums.append(_hash_long_sequence(elements[offsets[row] : offsets[row + 1]]))
            until = row + 1
        else:
            sums.append(_hash_block(elements, offsets[row : until + 1]))
        row = until
    hashes = np.concatenate(sums)
    if initial:
        short = _POWERS[np.minimum(lengths, _BLOCK)]
        hashes += short * np.uint32(initial)
        for long in np.flatnonzero(lengths > _BLOCK):
            extra = (pow(31, int(lengths[long]), 1 << 32) - int(short[long])) * initial
            hashes[long] = (int(hashes[long]) + extra) % (1 << 32)
    return hashes


def _hash_block(elements: npt.NDArray[Any], offsets: Offsets) -> Hashes:
    # 31 is odd, so it has an inverse modulo 2^32: one running sum of element·31^-i serves all sequences
    start = offsets[0]
    block = elements[start : offsets[-1]].astype(np.uint32)
    running = np.zeros(len(block) + 1, dtype=np.uint32)
    np.cumsum(block * _INVERSE_POWERS[: len(block)], dtype=np.uint32, out=running[1:])
    ends = offsets[1:] - start
    sums: Hashes = (running[ends] - running[offsets[:-1] - start]) * _POWERS[np.maximum(ends - 1, 0)]
    return sums


def _hash_long_sequence(elements: npt.NDArray[Any]) -> Hashes:
    code = 0
    for at in range(0, len(elements), _BLOCK):
        part = elements[at : at + _BLOCK]
        part_hash = _hash_block(part, np.array([0, len(part)]))
        code = (code * int(_POWERS[len(part)]) + int(part_hash[0])) % (1 << 32)
    return np.array([code], dtype=np.uint32)


def _binary_offsets(column: pa.Array) -> tuple[npt.NDArray[np.uint8], Offsets]:
    """Return the bytes of all values of a string or binary column, and the offsets of the values."""
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, content = column.buffers()
    if not len(column):
        return np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    width = np.int64 if large else np.int32
    bounds = np.frombuffer(offsets, dtype=width)[column.offset : column.offset + len(column) + 1]
    start = int(bounds[0])
    used_bytes = np.frombuffer(content or b"", dtype=np.uint8)[start : int(bounds[-1])]
    return used_bytes, bounds.astype(np.int64) - start


def string_hashes(column: pa.Array) -> Hashes:
    """Return java.lang.String.hashCode of the strings of a string column; for null, any number."""
    utf8, offsets = _binary_offsets(column)
    if not len(utf8) or utf8.max() < 0x80:
        return polynomial_hashes(utf8, offsets, 0)
    units = np.frombuffer(utf8.tobytes().decode().encode("utf-16-le"), dtype="<u2")
    # a character has one code unit, or two from four bytes of UTF-8
    unit_counts = ((utf8 & 0xC0) != 0x80).astype(np.int64) + (utf8 >= 0xF0)
    units_before = np.zeros(len(unit_counts) + 1, dtype=np.int64)
    np.cumsum(unit_counts, out=units_before[1:])
    return polynomial_hashes(units, units_before[offsets], 0)


# Hashes of keys without a declared type: in Flink, byte arrays of pickles, hashed by their content
#
# Strings, numbers, booleans, None, bytes, dates, Decimals, and tuples, lists and dicts of them have exactly
# the bytes of PyFlink's pickles, and therefore its key groups.


_SHORT = 256
"""Strings below this number of bytes have a short form in pickles."""


def pickled_key_hashes(keys: Sequence[Any]) -> Hashes:
    """Return the hash of each key, as a Row with a byte array or, for None, with null; see `key_hashes`."""
    types = set(map(type, keys))
    # the Row, its array of fields, the deep hash of the byte array: the latter two add 31 each
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
    content, offsets = _binary_offsets(pa.array(pickles, pa.large_binary()))
    return polynomial_hashes(content.view(np.int8), offsets, 1)


def _hash_strings(keys: Sequence[str]) -> Hashes:
    # a pickle is a header that depends only on the length, the UTF-8, and three bytes
    content, offsets = _binary_offsets(pa.array(keys, pa.large_string()))
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
        codes = np.full(int(chosen.sum()), _INTEGER_HEADERS[width], dtype=np.uint32)
        for at in range(width):
            codes = codes * np.uint32(31) + little_endian[chosen, at].astype(np.uint32)
        hashes[chosen] = codes * np.uint32(31) + np.uint32(ord("."))
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


#: Magnitudes above which two's complement takes 5, 6, 7 and 8 bytes.
_LIMITS = np.array([1 << 31, 1 << 39, 1 << 47, 1 << 55], dtype=np.int64)
_INTEGER_HEADERS = {
    width: _hash(pickle.dumps(1 << 8 * (width - 1) if width > 1 else 0, protocol=5)[: -width - 1])
    for width in (1, 2, 4, 5, 6, 7, 8)
}


_31 = np.uint32(31)


def key_hashes(column: pa.Array, type_info: TypeInformation) -> Hashes:
    """Return the hash of each key, as a Row of this one value.

    `column` has the type of `to_arrow`'s results, or a type that casts to it.
    """
    return _31 + _hashes(as_arrow_type(column, arrow_type(type_info)), type_info, True)


def java_hash_codes(column: pa.Array, type_info: TypeInformation) -> Hashes:
    """Return hashCode() of each value, as unsigned numbers; 0 for null. `column` as for `key_hashes`."""
    return _hashes(as_arrow_type(column, arrow_type(type_info)), type_info, False)


def _hashes(column: pa.Array, type_info: TypeInformation, in_row: bool) -> Hashes:
    if isinstance(type_info, ExternalTypeInfo):
        return _hashes(column, type_info._type_info, in_row)
    extra = _31 if in_row else np.uint32(0)
    if isinstance(type_info, ForeignTypeInfo):
        hashes = single_value_hashes(column, type_info) + extra
    elif isinstance(type_info, MapTypeInfo):
        hashes = _hash_maps(column, type_info, in_row)
    elif isinstance(type_info, ListTypeInfo) or kinds.is_list(column.type):
        hashes = _hash_lists(column, type_info, in_row)
        if isinstance(type_info, PrimitiveArrayTypeInfo):
            hashes += extra
    elif isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        hashes = _hash_fields(column, type_info) + extra
    else:
        hashes = single_value_hashes(column, type_info) + extra
    if column.null_count:
        hashes[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes


def _hash_fields(column: pa.Array, type_info: RowTypeInfo | TupleTypeInfo) -> Hashes:
    types = type_info.get_field_types()
    rows = isinstance(type_info, RowTypeInfo)
    hashes = np.full(len(column), 1 if rows else 0, dtype=np.uint32)
    for position, field_type in enumerate(types):
        hashes = hashes * _31 + _hashes(column.field(position), field_type, rows)
    if rows and column.type.num_fields > len(types):
        row_kinds = column.field(len(types)).fill_null(0).to_numpy(zero_copy_only=False)
        hashes += row_kinds.astype(np.uint32) * _31
    return hashes


def _hash_lists(column: pa.Array, type_info: Any, in_row: bool) -> Hashes:
    deep = in_row and not isinstance(type_info, PrimitiveArrayTypeInfo)
    if kinds.is_binary(column.type):
        content, offsets = _binary_offsets(column)
        elements = content.view(np.int8).astype(np.uint32) + (_31 if deep else np.uint32(0))
        return polynomial_hashes(elements, offsets, 1)
    elements = _hashes(column.values, element_type(type_info), deep)
    return polynomial_hashes(elements, column.offsets.to_numpy().astype(np.int64), 1)


def _hash_maps(column: pa.Array, type_info: MapTypeInfo, in_row: bool) -> Hashes:
    keys = _hashes(column.keys, type_info._key_type_info, in_row)
    entries = keys ^ _hashes(column.items, type_info._value_type_info, in_row)
    sums = np.zeros(len(entries) + 1, dtype=np.uint32)
    np.cumsum(entries, dtype=np.uint32, out=sums[1:])
    offsets = column.offsets.to_numpy()
    hashes: Hashes = sums[offsets[1:]] - sums[offsets[:-1]] + np.uint32(1 if in_row else 0)
    return hashes


# Java's hashCode of single values, for whole columns: other than rows, tuples, lists and maps


_MASK = (1 << 32) - 1
_MILLIS_PER_DAY = 86_400_000
_MICROS_PER_DAY = 86_400_000_000


def single_value_hashes(column: pa.Array, type_info: TypeInformation) -> Hashes:
    """Return hashCode() of each value, as unsigned numbers; any number for null.

    `column` has the type `arrow_type`; binary represents byte arrays, including pickles.
    """
    if isinstance(type_info, ForeignTypeInfo):
        foreign: Hashes = type_info.hashes(column)
        return foreign
    if kinds.is_binary(column.type):
        content, offsets = _binary_offsets(column)
        return polynomial_hashes(content.view(np.int8), offsets, 1)
    if isinstance(type_info, BasicTypeInfo):
        return _BASIC[type_info._basic_type](column)
    if isinstance(type_info, LocalTimeTypeInfo):
        return _LOCAL[type_info._time_type](column)
    if isinstance(type_info, DateTypeInfo):
        return _folded(_numbers(column.cast(pa.int32())).astype(np.int64) * _MILLIS_PER_DAY)
    if isinstance(type_info, TimeTypeInfo):
        return _folded(_numbers(column.cast(pa.int32())).astype(np.int64))
    if isinstance(type_info, TimestampTypeInfo):
        return _folded(_numbers(column.cast(pa.int64())))
    raise TypeError(f"values of {type_info!r} have no hash in Java")


def _numbers(column: pa.Array) -> npt.NDArray[Any]:
    numbers: npt.NDArray[Any] = column.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _folded(longs: npt.NDArray[np.int64]) -> Hashes:
    bits = longs.view(np.uint64)
    return (bits ^ (bits >> np.uint64(32))).astype(np.uint32)


def _booleans(column: pa.Array) -> Hashes:
    return np.where(column.fill_null(False).to_numpy(zero_copy_only=False), 1231, 1237).astype(np.uint32)


def _floats(column: pa.Array) -> Hashes:
    numbers = _numbers(column).copy()
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.uint32)


def _doubles(column: pa.Array) -> Hashes:
    numbers = _numbers(column).copy()
    numbers[np.isnan(numbers)] = np.nan
    return _folded(numbers.view(np.int64))


def _instants(column: pa.Array) -> Hashes:
    nanos = _numbers(column.field(1)).astype(np.uint32)
    return _folded(_numbers(column.field(0))) + nanos * np.uint32(51)


def _dates(column: pa.Array) -> Hashes:
    return _dates_of(_numbers(column.cast(pa.int32())).astype("datetime64[D]"))


def _dates_of(days: npt.NDArray[np.datetime64]) -> Hashes:
    months = days.astype("datetime64[M]")
    year = months.astype("datetime64[Y]").astype(np.int64) + 1970
    month = months.astype(np.int64) % 12 + 1
    day = (days - months).astype(np.int64) + 1
    hashes: Hashes = ((year & 0xFFFFF800) ^ ((year << 11) + (month << 6) + day)).astype(np.uint32)
    return hashes


def _times(column: pa.Array) -> Hashes:
    return _folded(_numbers(column.cast(pa.int64())) * 1000)


def _date_times(column: pa.Array) -> Hashes:
    micros = _numbers(column.cast(pa.int64()))
    days, time_of_day = np.divmod(micros, _MICROS_PER_DAY)
    return _dates_of(days.astype("datetime64[D]")) ^ _folded(time_of_day * 1000)


def _hash_each(hash_of: Callable[[str], int]) -> Callable[[pa.Array], Hashes]:
    def hashes(column: pa.Array) -> Hashes:
        codes = [0 if text is None else hash_of(text) & _MASK for text in column.to_pylist()]
        return np.array(codes, dtype=np.uint32)

    return hashes


def _big_integer(value: int) -> int:
    magnitude, code = abs(value), 0
    for at in range((magnitude.bit_length() + 31) // 32 - 1, -1, -1):
        code = (31 * code + (magnitude >> 32 * at & _MASK)) & _MASK
    return -code if value < 0 else code


def _big_decimal(text: str) -> int:
    sign, digits, exponent = Decimal(text).as_tuple()
    unscaled = int("".join(map(str, digits)))
    return 31 * _big_integer(-unscaled if sign else unscaled) - int(exponent)


_BASIC: dict[BasicType, Callable[[pa.Array], Hashes]] = {
    BasicType.STRING: string_hashes,
    BasicType.CHAR: string_hashes,
    BasicType.BOOLEAN: _booleans,
    BasicType.BYTE: lambda column: _numbers(column).astype(np.uint32),
    BasicType.SHORT: lambda column: _numbers(column).astype(np.uint32),
    BasicType.INT: lambda column: _numbers(column).astype(np.uint32),
    BasicType.LONG: lambda column: _folded(_numbers(column)),
    BasicType.FLOAT: _floats,
    BasicType.DOUBLE: _doubles,
    BasicType.BIG_INT: _hash_each(lambda text: _big_integer(int(text))),
    BasicType.BIG_DEC: _hash_each(_big_decimal),
    BasicType.INSTANT: _instants,
}
_LOCAL: dict[LocalTimeTypeInfo.TimeType, Callable[[pa.Array], Hashes]] = {
    LocalTimeTypeInfo.TimeType.LOCAL_DATE: _dates,
    LocalTimeTypeInfo.TimeType.LOCAL_TIME: _times,
    LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME: _date_times,
}
