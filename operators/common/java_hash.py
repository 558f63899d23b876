"""Java's hashCode of values by their type, for whole columns: what Flink's key groups come from.

A key in PyFlink is, in Java, the only field of a Row. A Row hashes lists, maps and arrays in its own way; in
a tuple, a list or a map they have the hash of java.util. Dates and times are those of a JVM whose time zone
is UTC. An array in a tuple, list or map, for which Java has no stable hash, has that of its content.

Source: org.apache.flink.types.RowUtils.deepHashCodeRow, Tuple2.hashCode and the classes of java.lang,
java.math, java.sql, java.time and java.util;
org.apache.flink.streaming.api.functions.python.KeyByKeySelector.
"""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from penstock.operators.common.adapt_columns import as_arrow_type
from penstock.operators.common.arrow_types import arrow_type, element_type
from penstock.operators.common.basic_types import BasicType, BasicTypeInfo, ForeignTypeInfo, TypeInformation
from penstock.operators.common.collection_types import (
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
)
from penstock.operators.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.operators.common.polynomial_hashes import (
    Hashes,
    binary_offsets,
    polynomial_hashes,
    string_hashes,
)
from penstock.operators.common.time_types import (
    DateTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)

_31 = np.uint32(31)


def key_hashes(column: pa.Array, type_info: TypeInformation) -> Hashes:
    """Hash of each key: of a Row of this one value.

    `column` is as `to_arrow` gives it, or of a type that casts to that.
    """
    return _31 + _hashes(as_arrow_type(column, arrow_type(type_info)), type_info, True)


def java_hash_codes(column: pa.Array, type_info: TypeInformation) -> Hashes:
    """hashCode() of each value, as unsigned numbers; 0 for null. `column` as for `key_hashes`."""
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
        content, offsets = binary_offsets(column)
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


# Java's hashCode of values that are no rows, tuples, lists or maps, for whole columns.


_MASK = (1 << 32) - 1
_MILLIS_PER_DAY = 86_400_000
_MICROS_PER_DAY = 86_400_000_000


def single_value_hashes(column: pa.Array, type_info: TypeInformation) -> Hashes:
    """hashCode() of each value, as unsigned numbers; of null anything.

    `column` has the type that `arrow_type` names; binary stands for byte arrays, pickles among them.
    """
    if isinstance(type_info, ForeignTypeInfo):
        foreign: Hashes = type_info.hashes(column)
        return foreign
    if kinds.is_binary(column.type):
        content, offsets = binary_offsets(column)
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
    days, of_day = np.divmod(micros, _MICROS_PER_DAY)
    return _dates_of(days.astype("datetime64[D]")) ^ _folded(of_day * 1000)


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
