"""Lists of values as Arrow columns and back, by declared type.

What comes back is what PyFlink gives back when records go through Flink: plain Python numbers and strings,
Decimals, dates and times without time zone, tuples, Rows with their type's field names and their kinds,
lists, bytes, dicts in the order of Java's HashMap. None may stand for any value.

Source: pyflink.fn_execution.coders.
"""

import gc
from collections.abc import Callable, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.common.adapt_columns import as_arrow_type
from penstock.operators.common.arrow_types import arrow_type, element_type, is_bytes, type_info_of_arrow
from penstock.operators.common.basic_types import ForeignTypeInfo, PickledBytesTypeInfo, TypeInformation
from penstock.operators.common.codec import NONE_TYPE, Codec, NullableCodec, mismatch
from penstock.operators.common.collection_types import (
    BasicArrayTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from penstock.operators.common.composite_codecs import RowCodec, TupleCodec
from penstock.operators.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.operators.common.hash_map_order import hash_map_order
from penstock.operators.common.java_hash import java_hash_codes
from penstock.operators.common.single_codecs import PickledCodec, single_codec
from penstock.operators.common.without_pandas import without_pandas

__all__ = ["arrow_type", "codec_of", "coerce", "from_arrow", "to_arrow", "type_info_of_arrow"]

_PICKLED = PickledCodec()


def to_arrow(values: Sequence[Any], type_info: TypeInformation | None) -> pa.Array:
    """A column of type `arrow_type(type_info)`; rows of other kinds than INSERT have one field more.

    TypeError, OverflowError or ValueError name a value that is not of the type. Without declared type, each
    value is a pickle.
    """
    with without_pandas():
        column = codec_of(type_info).encode(values)
    if isinstance(column, pa.ChunkedArray):
        raise OverflowError(f"{len(values)} values of {type_info} take more than the 2 GB of a column")
    return column


def from_arrow(array: pa.Array | pa.ChunkedArray, type_info: TypeInformation | None) -> list[Any]:
    """The values of a column: of one that `to_arrow` made, or of any other that has such values."""
    codec = codec_of(type_info)
    column = as_arrow_type(array, codec.arrow_type)
    values: list[Any] = _uncollected(codec.decode, column)
    return values


def coerce(values: Sequence[Any], type_info: TypeInformation | None) -> Sequence[Any]:
    """from_arrow(to_arrow(values)), but `values` itself if that is the same. Errors as `to_arrow`."""
    coerced: Sequence[Any] = _uncollected(codec_of(type_info).coerce, values)
    return coerced


def codec_of(type_info: TypeInformation | None) -> Codec:
    """The codec of a type, made once for each TypeInformation. TypeError for types that have none."""
    if type_info is None:
        return _PICKLED
    codec: Codec | None = type_info.__dict__.get("_codec")
    if codec is None:
        codec = type_info.__dict__["_codec"] = _make_codec(type_info)
    return codec


def _make_codec(type_info: TypeInformation) -> Codec:
    if isinstance(type_info, PickledBytesTypeInfo):
        return _PICKLED
    if isinstance(type_info, ForeignTypeInfo):
        codec: Codec = type_info.make_codec()
        return codec
    if isinstance(type_info, RowTypeInfo):
        return RowCodec(type_info, [codec_of(field_type) for field_type in type_info.get_field_types()])
    if isinstance(type_info, TupleTypeInfo):
        return TupleCodec(type_info, [codec_of(field_type) for field_type in type_info.get_field_types()])
    if isinstance(type_info, MapTypeInfo):
        return MapCodec(type_info, codec_of(type_info._key_type_info), codec_of(type_info._value_type_info))
    if isinstance(type_info, ExternalTypeInfo):
        return codec_of(type_info._type_info)
    arrays = (PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, ListTypeInfo)
    if isinstance(type_info, arrays) and not is_bytes(type_info):
        return ListCodec(type_info, codec_of(element_type(type_info)))
    return single_codec(type_info)


def _uncollected(function: Callable[[Any], Any], argument: Any) -> Any:
    # creating values makes no garbage, and searching for it would take longer than creating them
    enabled = gc.isenabled()
    gc.disable()
    try:
        return function(argument)
    finally:
        if enabled:
            gc.enable()


# Codecs of lists, arrays and maps: their elements in one column, and where each begins.
#
# Source: pyflink.fn_execution.coder_impl_fast.{GenericArrayCoderImpl,PrimitiveArrayCoderImpl,MapCoderImpl}.


class ListCodec(NullableCodec):
    """Lists; tuples come back as lists."""

    def __init__(self, type_info: TypeInformation, element: Codec) -> None:
        self.type_info = type_info
        self.arrow_type = pa.list_(element.arrow_type)
        self._element = element
        self._primitive = isinstance(type_info, PrimitiveArrayTypeInfo)

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        elements = self._elements(values)
        return pa.ListArray.from_arrays(_offsets(values), self._element.encode(elements))

    def decode_present(self, column: pa.Array) -> list[Any]:
        bounds = column.offsets.to_pylist()
        if not bounds:
            return []
        first = bounds[0]
        elements = self._element.decode(column.values.slice(first, bounds[-1] - first))
        ends = [bound - first for bound in bounds]
        return [elements[start:end] for start, end in pairwise(ends)]

    def coerce_present(self, values: Sequence[Any]) -> Sequence[Any]:
        elements = self._elements(values)
        coerced = self._element.coerce(elements)
        if coerced is elements and set(map(type, values)) <= {list}:
            return values
        rest = iter(coerced)
        return [[next(rest) for _ in value] for value in values]

    def _elements(self, values: Sequence[Any]) -> list[Any]:
        if not set(map(type, values)) <= {list, tuple}:
            for value in values:
                if not isinstance(value, (list, tuple)):
                    raise TypeError(mismatch(value, self.type_info))
        elements = list(chain.from_iterable(values))
        if self._primitive and NONE_TYPE in set(map(type, elements)):
            value = next(sequence for sequence in values if any(element is None for element in sequence))
            raise TypeError(mismatch(value, self.type_info, "its elements must not be None"))
        return elements


class MapCodec(NullableCodec):
    """Dicts; they come back in the order of Java's HashMap."""

    def __init__(self, type_info: MapTypeInfo, key: Codec, value: Codec) -> None:
        self.type_info = type_info
        self.arrow_type = pa.map_(key.arrow_type, value.arrow_type)
        self._key, self._value = key, value
        self._key_type = type_info._key_type_info

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        keys, items = self._entries(values)
        key_column = self._key.encode(keys)
        item_column = self._value.encode(items)
        order = self._order(values, key_column)
        if order is not None:
            key_column, item_column = key_column.take(order), item_column.take(order)
        return pa.MapArray.from_arrays(_offsets(values), key_column, item_column)

    def decode_present(self, column: pa.Array) -> list[Any]:
        bounds = column.offsets.to_pylist()
        if not bounds:
            return []
        first, count = bounds[0], bounds[-1] - bounds[0]
        keys = self._key.decode(column.keys.slice(first, count))
        items = self._value.decode(column.items.slice(first, count))
        return _dicts([bound - first for bound in bounds], keys, items)

    def coerce_present(self, values: Sequence[Any]) -> Sequence[Any]:
        keys, items = self._entries(values)
        coerced_keys, coerced_items = self._key.coerce(keys), self._value.coerce(items)
        order = None
        if any(len(value) > 1 for value in values):
            order = self._order(values, self._key.encode(coerced_keys))
        if order is None:
            if coerced_keys is keys and coerced_items is items and set(map(type, values)) <= {dict}:
                return values
        else:
            places = order.to_pylist()
            coerced_keys = [coerced_keys[place] for place in places]
            coerced_items = [coerced_items[place] for place in places]
        return _dicts([0, *accumulate(map(len, values))], coerced_keys, coerced_items)

    def _entries(self, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        for value in values:
            if not isinstance(value, dict):
                raise TypeError(mismatch(value, self.type_info))
            if None in value:
                raise TypeError(mismatch(value, self.type_info, "its keys must not be None"))
        keys = list(chain.from_iterable(values))
        return keys, list(chain.from_iterable(value.values() for value in values))

    def _order(self, values: Sequence[Any], keys: pa.Array) -> pa.Array | None:
        sizes = np.fromiter(map(len, values), dtype=np.int64, count=len(values))
        order = hash_map_order(java_hash_codes(keys, self._key_type), sizes)
        return None if np.array_equal(order, np.arange(len(order))) else pa.array(order)


def _offsets(values: Sequence[Any]) -> pa.Array:
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, values), dtype=np.int64, count=len(values)), out=offsets[1:])
    return pa.array(offsets, pa.int32())


def _dicts(bounds: list[int], keys: Sequence[Any], items: Sequence[Any]) -> list[Any]:
    return [dict(zip(keys[start:end], items[start:end], strict=True)) for start, end in pairwise(bounds)]
