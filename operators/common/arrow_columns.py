"""Conversion between lists of values and Arrow columns, by declared type.

Decoding returns the values that PyFlink returns when records go through Flink: plain Python numbers and
strings, Decimals, dates and times without time zone, tuples, Rows with their type's field names and their
kinds, lists, bytes, dicts in the order of Java's HashMap. Every value may be None.

Source: pyflink.fn_execution.coders.
"""

import datetime
import gc
import pickle
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.operators.common.adapt_columns import as_arrow_type
from penstock.operators.common.arrow_types import arrow_type, element_type, is_bytes, type_info_of_arrow
from penstock.operators.common.basic_types import (
    BasicTypeInfo,
    ForeignTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.operators.common.composite_codecs import (
    INTEGER_BITS,
    NONE_TYPE,
    Codec,
    Conversion,
    NullableCodec,
    RowCodec,
    TupleCodec,
    conversion_of,
    mismatch,
)
from penstock.operators.common.configuration import hash_map_order
from penstock.operators.common.java_hash import java_hash_codes
from penstock.operators.common.pickles import dumps
from penstock.operators.common.time import Instant, microseconds_since_epoch
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from penstock.operators.common.without_pandas import without_pandas

# Codecs of single values: other than rows, tuples, lists and maps
#
# They accept the same values as PyFlink's coders, with the same result: ints for floats, floats for ints
# (truncated), any object with a decimal string for BIG_DEC, datetimes for dates and times.
#
# Source: pyflink.fn_execution.coder_impl_fast.


class PlainCodec(Codec):
    """Values of the right class, which Arrow stores and returns unchanged."""

    def __init__(self, type_info: TypeInformation, conversion: Conversion) -> None:
        self.type_info = type_info
        self.arrow_type = arrow_type(type_info)
        self._kinds = {conversion.kind, NONE_TYPE}
        self._convert = conversion.convert
        self._unchanged = conversion.unchanged

    def encode(self, values: Sequence[Any]) -> pa.Array:
        try:
            return pa.array(self.coerce(values), self.arrow_type)
        except UnicodeEncodeError:
            return pa.array([_well_formed(value, self.type_info) for value in values], self.arrow_type)

    def decode(self, column: pa.Array) -> list[Any]:
        values: list[Any] = column.to_pylist()
        return values

    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        if self._kinds.issuperset(map(type, values)):
            unchanged = self._unchanged
            if unchanged is None or all(value is None or unchanged(value) for value in values):
                return values
        return self.convert_each(values)

    def convert_each(self, values: Sequence[Any]) -> list[Any]:
        """Return each value as decoding would return it."""
        convert, type_info = self._convert, self.type_info
        return [None if value is None else convert(value, type_info) for value in values]


class DayCodec(PlainCodec):
    """Dates, and dates with times of day, which numpy turns into Python objects faster than Arrow."""

    def decode(self, column: pa.Array) -> list[Any]:
        values: list[Any] = column.to_numpy(zero_copy_only=False).astype(object).tolist()
        return values


class IntegerCodec(PlainCodec):
    """Integers of 8 to 64 bits. Arrow checks whether they fit."""

    def encode(self, values: Sequence[Any]) -> pa.Array:
        if self._kinds.issuperset(map(type, values)):
            try:
                return pa.array(values, self.arrow_type)
            except (pa.ArrowInvalid, OverflowError):
                pass  # the error below names the value
        return pa.array(self.convert_each(values), self.arrow_type)

    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        if self._kinds.issuperset(map(type, values)):
            try:
                pa.array(values, self.arrow_type)
                return values
            except (pa.ArrowInvalid, OverflowError):
                pass
        return self.convert_each(values)


class FloatCodec(PlainCodec):
    """Floats of 32 bits, which decoding returns rounded."""

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(PlainCodec.coerce(self, values), self.arrow_type)

    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        return self.decode(self.encode(values))


class TextCodec(PlainCodec):
    """Numbers of BIG_INT and BIG_DEC as strings."""

    def __init__(self, type_info: TypeInformation, conversion: Conversion) -> None:
        super().__init__(type_info, conversion)
        self._from_text: Callable[[str], Any] = conversion.kind

    def encode(self, values: Sequence[Any]) -> pa.Array:
        texts = [None if value is None else str(value) for value in self.coerce(values)]
        return pa.array(texts, self.arrow_type)

    def decode(self, column: pa.Array) -> list[Any]:
        from_text = self._from_text
        return [None if text is None else from_text(text) for text in column.to_pylist()]


class InstantCodec(NullableCodec):
    """Instants as structs of seconds and nanos. Datetimes become instants."""

    def __init__(self, type_info: TypeInformation) -> None:
        self.type_info = type_info
        self.arrow_type = arrow_type(type_info)

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        instants = self.coerce_present(values)
        children = [
            pa.array([getattr(instant, field.name) for instant in instants], field.type)
            for field in self.arrow_type
        ]
        return pa.StructArray.from_arrays(children, fields=list(self.arrow_type))

    def decode_present(self, column: pa.Array) -> list[Any]:
        return list(map(Instant, column.field(0).to_pylist(), column.field(1).to_pylist()))

    def coerce_present(self, values: Sequence[Any]) -> Sequence[Any]:
        if all(isinstance(value, Instant) for value in values):
            return values
        return [_instant(value, self.type_info) for value in values]


def _instant(value: Any, type_info: TypeInformation) -> Instant:
    if isinstance(value, Instant):
        return value
    if isinstance(value, datetime.datetime):
        seconds, micros = divmod(microseconds_since_epoch(value), 10**6)
        return Instant(seconds, micros * 1000)
    raise TypeError(mismatch(value, type_info))


class PickledCodec(Codec):
    """Any objects as pickles."""

    arrow_type = pa.binary()

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return pa.array([None if value is None else dumps(value) for value in values], self.arrow_type)

    def decode(self, column: pa.Array) -> list[Any]:
        return [None if pickled is None else pickle.loads(pickled) for pickled in column.to_pylist()]

    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the same values."""
        return values


def _single_codec(type_info: TypeInformation) -> Codec:
    """Return the codec of a type of single values, other than pickled ones."""
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type.name == "INSTANT":
        return InstantCodec(type_info)
    conversion = conversion_of(type_info)
    if conversion.kind is int:
        wide = INTEGER_BITS.get(type_info._basic_type) is None  # type: ignore[attr-defined]
        return TextCodec(type_info, conversion) if wide else IntegerCodec(type_info, conversion)
    if conversion.kind is Decimal:
        return TextCodec(type_info, conversion)
    column_type = arrow_type(type_info)
    if pa.types.is_float32(column_type):
        return FloatCodec(type_info, conversion)
    if pa.types.is_date(column_type) or pa.types.is_timestamp(column_type):
        return DayCodec(type_info, conversion)
    return PlainCodec(type_info, conversion)


def _well_formed(value: Any, type_info: TypeInformation) -> Any:
    try:
        if value is not None:
            value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(mismatch(value, type_info, error.reason)) from error
    return value


__all__ = ["arrow_type", "codec_of", "coerce", "from_arrow", "to_arrow", "type_info_of_arrow"]

_PICKLED = PickledCodec()


def to_arrow(values: Sequence[Any], type_info: TypeInformation | None) -> pa.Array:
    """Return a column of type `arrow_type(type_info)`.

    Rows of other kinds than INSERT have one more field. Without a declared type, each value is a pickle.
    Raises TypeError, OverflowError or ValueError that name a value which is not of the type.
    """
    with without_pandas():
        column = codec_of(type_info).encode(values)
    if isinstance(column, pa.ChunkedArray):
        raise OverflowError(f"{len(values)} values of {type_info} exceed the 2 GB of a column")
    return column


def from_arrow(array: pa.Array | pa.ChunkedArray, type_info: TypeInformation | None) -> list[Any]:
    """Return the values of a column that `to_arrow` made, or of another one with such values."""
    codec = codec_of(type_info)
    column = as_arrow_type(array, codec.arrow_type)
    values: list[Any] = _call_without_collector(codec.decode, column)
    return values


def coerce(values: Sequence[Any], type_info: TypeInformation | None) -> Sequence[Any]:
    """Return from_arrow(to_arrow(values)), or `values` itself if equal. Raises as `to_arrow` does."""
    coerced: Sequence[Any] = _call_without_collector(codec_of(type_info).coerce, values)
    return coerced


def codec_of(type_info: TypeInformation | None) -> Codec:
    """Return the codec of a type, created once for each TypeInformation.

    Raises TypeError if the type has none.
    """
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
    return _single_codec(type_info)


def _call_without_collector(function: Callable[[Any], Any], argument: Any) -> Any:
    # creating values makes no garbage, and searching for it would take longer than creating them
    enabled = gc.isenabled()
    gc.disable()
    try:
        return function(argument)
    finally:
        if enabled:
            gc.enable()


# Codecs of lists, arrays and maps: their elements in one column, with the beginning of each
#
# Source: pyflink.fn_execution.coder_impl_fast.{GenericArrayCoderImpl,PrimitiveArrayCoderImpl,MapCoderImpl}.


class ListCodec(NullableCodec):
    """Lists; tuples are decoded as lists."""

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
    """Dicts, decoded in the order of Java's HashMap."""

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
