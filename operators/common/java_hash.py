"""Java's hashCode of values by their type, for whole columns: what Flink's key groups come from.

A key in PyFlink is, in Java, the only field of a Row. A Row hashes lists, maps and arrays in its own way; in
a tuple, a list or a map they have the hash of java.util. Dates and times are those of a JVM whose time zone
is UTC. An array in a tuple, list or map, for which Java has no stable hash, has that of its content.

Source: org.apache.flink.types.RowUtils.deepHashCodeRow, Tuple2.hashCode and the classes of java.lang,
java.math, java.sql, java.time and java.util;
org.apache.flink.streaming.api.functions.python.KeyByKeySelector.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from penstock.operators.common.adapt_columns import as_arrow_type
from penstock.operators.common.arrow_types import arrow_type, element_type
from penstock.operators.common.basic_types import ForeignTypeInfo, TypeInformation
from penstock.operators.common.collection_types import (
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
)
from penstock.operators.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.operators.common.polynomial_hashes import Hashes, binary_offsets, polynomial_hashes
from penstock.operators.common.single_value_hashes import single_value_hashes

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
        found = single_value_hashes(column, type_info) + extra
    elif isinstance(type_info, MapTypeInfo):
        found = _of_maps(column, type_info, in_row)
    elif isinstance(type_info, ListTypeInfo) or kinds.is_list(column.type):
        found = _of_lists(column, type_info, in_row)
        if isinstance(type_info, PrimitiveArrayTypeInfo):
            found += extra
    elif isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        found = _of_fields(column, type_info) + extra
    else:
        found = single_value_hashes(column, type_info) + extra
    if column.null_count:
        found[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return found


def _of_fields(column: pa.Array, type_info: RowTypeInfo | TupleTypeInfo) -> Hashes:
    types = type_info.get_field_types()
    rows = isinstance(type_info, RowTypeInfo)
    found = np.full(len(column), 1 if rows else 0, dtype=np.uint32)
    for position, one in enumerate(types):
        found = found * _31 + _hashes(column.field(position), one, rows)
    if rows and column.type.num_fields > len(types):
        row_kinds = column.field(len(types)).fill_null(0).to_numpy(zero_copy_only=False)
        found += row_kinds.astype(np.uint32) * _31
    return found


def _of_lists(column: pa.Array, type_info: Any, in_row: bool) -> Hashes:
    deep = in_row and not isinstance(type_info, PrimitiveArrayTypeInfo)
    if kinds.is_binary(column.type):
        content, offsets = binary_offsets(column)
        elements = content.view(np.int8).astype(np.uint32) + (_31 if deep else np.uint32(0))
        return polynomial_hashes(elements, offsets, 1)
    elements = _hashes(column.values, element_type(type_info), deep)
    return polynomial_hashes(elements, column.offsets.to_numpy().astype(np.int64), 1)


def _of_maps(column: pa.Array, type_info: MapTypeInfo, in_row: bool) -> Hashes:
    keys = _hashes(column.keys, type_info._key_type_info, in_row)
    entries = keys ^ _hashes(column.items, type_info._value_type_info, in_row)
    sums = np.zeros(len(entries) + 1, dtype=np.uint32)
    np.cumsum(entries, dtype=np.uint32, out=sums[1:])
    offsets = column.offsets.to_numpy()
    found: Hashes = sums[offsets[1:]] - sums[offsets[:-1]] + np.uint32(1 if in_row else 0)
    return found
