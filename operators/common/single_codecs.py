"""Codecs of values that are no rows, tuples, lists or maps.

What PyFlink's coders take, these take, with the same result: ints for floats, floats for ints (cut off
towards zero), anything with a decimal string for BIG_DEC, datetimes for dates and times.

Source: pyflink.fn_execution.coder_impl_fast.
"""

import datetime
import pickle
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from penstock.operators.common.arrow_types import arrow_type
from penstock.operators.common.basic_types import BasicTypeInfo, TypeInformation
from penstock.operators.common.codec import NONE_TYPE, Codec, NullableCodec, mismatch
from penstock.operators.common.convert_values import INTEGER_BITS, Conversion, conversion_of
from penstock.operators.common.pickles import dumps
from penstock.operators.common.time import Instant, microseconds_since_epoch


class PlainCodec(Codec):
    """Values that Arrow takes and gives as they are, once they are of the right class."""

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
        return self.converted(values)

    def converted(self, values: Sequence[Any]) -> list[Any]:
        """Each value as it comes back, one by one."""
        convert, type_info = self._convert, self.type_info
        return [None if value is None else convert(value, type_info) for value in values]


class DayCodec(PlainCodec):
    """Dates, and dates with times of day, which numpy makes Python objects faster than Arrow."""

    def decode(self, column: pa.Array) -> list[Any]:
        values: list[Any] = column.to_numpy(zero_copy_only=False).astype(object).tolist()
        return values


class IntegerCodec(PlainCodec):
    """Integers of 8 to 64 bits. Arrow finds out whether they fit."""

    def encode(self, values: Sequence[Any]) -> pa.Array:
        if self._kinds.issuperset(map(type, values)):
            try:
                return pa.array(values, self.arrow_type)
            except (pa.ArrowInvalid, OverflowError):
                pass  # the value that does not fit is named below
        return pa.array(self.converted(values), self.arrow_type)

    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        if self._kinds.issuperset(map(type, values)):
            try:
                pa.array(values, self.arrow_type)
                return values
            except (pa.ArrowInvalid, OverflowError):
                pass
        return self.converted(values)


class FloatCodec(PlainCodec):
    """Floats of 32 bits: what comes back is rounded."""

    def encode(self, values: Sequence[Any]) -> pa.Array:
        return pa.array(PlainCodec.coerce(self, values), self.arrow_type)

    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        return self.decode(self.encode(values))


class TextCodec(PlainCodec):
    """Numbers as strings: BIG_INT and BIG_DEC."""

    def __init__(self, type_info: TypeInformation, conversion: Conversion) -> None:
        super().__init__(type_info, conversion)
        self._of_text: Callable[[str], Any] = conversion.kind

    def encode(self, values: Sequence[Any]) -> pa.Array:
        texts = [None if value is None else str(value) for value in self.coerce(values)]
        return pa.array(texts, self.arrow_type)

    def decode(self, column: pa.Array) -> list[Any]:
        of_text = self._of_text
        return [None if text is None else of_text(text) for text in column.to_pylist()]


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
        """The same values."""
        return values


def single_codec(type_info: TypeInformation) -> Codec:
    """The codec of a type of single values, other than pickled ones."""
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
