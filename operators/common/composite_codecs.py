"""Codecs of tuples and rows, which have one column per field and are handled column by column.

Source: pyflink.fn_execution.coder_impl_fast.{TupleCoderImpl,RowCoderImpl}.
"""

import datetime
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.operators.common.arrow_types import ROW_KIND_FIELD, arrow_type
from penstock.operators.common.basic_types import (
    BasicType,
    BasicTypeInfo,
    ExactTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    row_values,
)
from penstock.operators.common.row import Row, RowKind, rows_of_columns, set_kind, set_names
from penstock.operators.common.typeinfo import (
    DateTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    PrimitiveArrayTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)

# Conversion between values of one type and a column. One codec per type; see arrow_columns


NONE_TYPE = type(None)
_LONGEST_REPR = 200


class Codec(ABC):
    """Converts between lists of values of one type, including None, and columns of `arrow_type`."""

    arrow_type: pa.DataType

    @abstractmethod
    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return the column.

        Raises TypeError, OverflowError or ValueError that name a value which is not of the type.
        """

    @abstractmethod
    def decode(self, column: pa.Array) -> list[Any]:
        """Return the values of a column that `encode` made."""

    @abstractmethod
    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the result of `decode` after `encode`, or `values` itself if equal.

        Raises as `encode` does.
        """


class NullableCodec(Codec):
    """A codec whose `…_present` methods get no None."""

    @abstractmethod
    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        """Encode values that are not None."""

    @abstractmethod
    def decode_present(self, column: pa.Array) -> list[Any]:
        """Decode a column without nulls."""

    @abstractmethod
    def coerce_present(self, values: Sequence[Any]) -> Sequence[Any]:
        """Coerce values that are not None."""

    def encode(self, values: Sequence[Any]) -> pa.Array:
        """Return the column."""
        if NONE_TYPE not in set(map(type, values)):
            return self.encode_present(values)
        present = [value for value in values if value is not None]
        places = iter(range(len(present)))
        return self.encode_present(present).take(
            pa.array([None if value is None else next(places) for value in values], pa.int64())
        )

    def decode(self, column: pa.Array) -> list[Any]:
        """Return the values of a column."""
        if not column.null_count:
            return self.decode_present(column)
        present = iter(self.decode_present(column.drop_null()))
        return [next(present) if valid else None for valid in column.is_valid().to_pylist()]

    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the values that decoding would return after encoding."""
        if NONE_TYPE not in set(map(type, values)):
            return self.coerce_present(values)
        present = [value for value in values if value is not None]
        coerced = self.coerce_present(present)
        if coerced is present:
            return values
        rest = iter(coerced)
        return [None if value is None else next(rest) for value in values]


def mismatch(value: Any, type_info: object, reason: str = "") -> str:
    """Return the message for a value that is not of the type."""
    try:
        text = repr(value)
    except Exception:
        text = "a value without repr"
    short = text if len(text) <= _LONGEST_REPR else text[: _LONGEST_REPR - 1] + "…"
    return f"must be {type_info}, got {short} of class {type(value).__name__}{reason and ': ' + reason}"


# Conversion of single values as by PyFlink's coder of their type, with the reasons for refusals
#
# Source: pyflink.fn_execution.coder_impl_fast.


INTEGER_BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


class Conversion(NamedTuple):
    """The conversion of values of one type."""

    kind: type  #: class of the results
    #: Returns the result for a value that is not None. Raises TypeError, OverflowError or ValueError.
    convert: Callable[[Any, TypeInformation], Any]
    #: Whether the conversion leaves a value of class `kind` unchanged; None: it leaves all unchanged.
    unchanged: Callable[[Any], bool] | None = None


def conversion_of(type_info: TypeInformation) -> Conversion:
    """Return the conversion of a type of single values. Raises TypeError for other types."""
    if isinstance(type_info, ExactTypeInfo):
        return Conversion(_BASIC[type_info._basic_type].kind, _exact)
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in _BASIC:
        return _BASIC[type_info._basic_type]
    if isinstance(type_info, LocalTimeTypeInfo):
        return _LOCAL[type_info._time_type]
    for kind, conversion in _OTHER.items():
        if isinstance(type_info, kind):
            return conversion
    raise TypeError(f"values of {type_info!r} have no coder")


def _string(value: Any, type_info: TypeInformation) -> str:
    if not isinstance(value, str):
        raise TypeError(mismatch(value, type_info))
    return "".join((value,))


def _boolean(value: Any, type_info: TypeInformation) -> bool:
    number = _whole(value, type_info)
    if not 0 <= number < 256:
        raise OverflowError(mismatch(value, type_info))
    return number != 0


def _whole(value: Any, type_info: TypeInformation) -> int:
    if not (hasattr(type(value), "__int__") or hasattr(type(value), "__index__")) or isinstance(
        value, complex
    ):
        raise TypeError(mismatch(value, type_info))
    try:
        return int(value)
    except (ValueError, OverflowError, InvalidOperation) as error:
        raise ValueError(mismatch(value, type_info)) from error


def _exact(value: Any, type_info: TypeInformation) -> int | bool:
    if _whole(value, type_info) != value:
        raise ValueError(mismatch(value, type_info, "it is not a whole number"))
    if type_info._basic_type is not BasicType.BOOLEAN:  # type: ignore[attr-defined]
        return _integer(value, type_info)
    if value not in (0, 1):
        raise ValueError(mismatch(value, type_info))
    return bool(value)


def _integer(value: Any, type_info: TypeInformation) -> int:
    number = _whole(value, type_info)
    bits = INTEGER_BITS[type_info._basic_type]  # type: ignore[attr-defined]
    if number >> (bits - 1) not in (0, -1):
        raise OverflowError(mismatch(value, type_info, f"it does not fit {bits} bits"))
    return number


def _double(value: Any, type_info: TypeInformation) -> float:
    if isinstance(value, (str, bytes, bytearray, complex)):
        raise TypeError(mismatch(value, type_info))
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else OverflowError
        raise kind(mismatch(value, type_info)) from error


def _float(value: Any, type_info: TypeInformation) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(_double(value, type_info)))


def _decimal(value: Any, type_info: TypeInformation) -> Decimal:
    try:
        decimal = Decimal(str(value))
    except InvalidOperation as error:
        raise TypeError(mismatch(value, type_info)) from error
    if not decimal.is_finite():
        raise ValueError(mismatch(value, type_info, "it is not finite"))
    return decimal if decimal else decimal.copy_abs()


def _date(value: Any, type_info: TypeInformation) -> datetime.date:
    if not isinstance(value, datetime.date):
        raise TypeError(mismatch(value, type_info))
    return datetime.date(value.year, value.month, value.day)


def _microseconds(value: Any) -> int:
    microseconds: int = value.microsecond
    return microseconds


def _milliseconds(value: Any) -> int:
    microseconds: int = value.microsecond // 1000 * 1000
    return microseconds


def _time(fraction: Callable[[Any], int]) -> Callable[[Any, TypeInformation], datetime.time]:
    def convert(value: Any, type_info: TypeInformation) -> datetime.time:
        if not isinstance(value, (datetime.time, datetime.datetime)):
            raise TypeError(mismatch(value, type_info))
        return datetime.time(value.hour, value.minute, value.second, fraction(value))

    return convert


def _timestamp(fraction: Callable[[Any], int]) -> Callable[[Any, TypeInformation], datetime.datetime]:
    def convert(value: Any, type_info: TypeInformation) -> datetime.datetime:
        if not isinstance(value, datetime.datetime):
            raise TypeError(mismatch(value, type_info))
        return datetime.datetime(
            value.year, value.month, value.day, value.hour, value.minute, value.second, fraction(value)
        )

    return convert


def _bytes(value: Any, type_info: TypeInformation) -> bytes:
    if not isinstance(value, (bytes, bytearray)):
        raise TypeError(mismatch(value, type_info))
    return bytes(value)


def _local(value: Any) -> bool:
    return value.tzinfo is None


def _whole_milliseconds(value: Any) -> bool:
    return value.tzinfo is None and value.microsecond % 1000 == 0


_LOCAL_TIMES = LocalTimeTypeInfo.TimeType
_BASIC = {
    BasicType.STRING: Conversion(str, _string),
    BasicType.CHAR: Conversion(str, _string),
    BasicType.BOOLEAN: Conversion(bool, _boolean),
    **{integer_type: Conversion(int, _integer) for integer_type in INTEGER_BITS},
    BasicType.FLOAT: Conversion(float, _float),
    BasicType.DOUBLE: Conversion(float, _double),
    BasicType.BIG_INT: Conversion(int, _whole),
    BasicType.BIG_DEC: Conversion(
        Decimal, _decimal, lambda value: value.is_finite() and bool(value or not value.is_signed())
    ),
}
_LOCAL = {
    _LOCAL_TIMES.LOCAL_DATE: Conversion(datetime.date, _date),
    _LOCAL_TIMES.LOCAL_TIME: Conversion(datetime.time, _time(_microseconds), _local),
    _LOCAL_TIMES.LOCAL_DATE_TIME: Conversion(datetime.datetime, _timestamp(_microseconds), _local),
}
_OTHER: dict[type, Conversion] = {
    DateTypeInfo: Conversion(datetime.date, _date),
    TimeTypeInfo: Conversion(datetime.time, _time(_milliseconds), _whole_milliseconds),
    TimestampTypeInfo: Conversion(datetime.datetime, _timestamp(_milliseconds), _whole_milliseconds),
    PrimitiveArrayTypeInfo: Conversion(bytes, _bytes),
    ListTypeInfo: Conversion(bytes, _bytes),
}


_KINDS = list(RowKind)
Columns = list[list[Any]]


class FieldsCodec(NullableCodec):
    """The common base of codecs for tuples and rows."""

    def __init__(self, type_info: RowTypeInfo | TupleTypeInfo, fields: list[Codec]) -> None:
        self.type_info = type_info
        self.arrow_type = arrow_type(type_info)
        self._fields = fields

    @abstractmethod
    def sequences(self, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """Return the fields of each value, in order. Raises TypeError or ValueError for other fields."""

    def columns(self, values: Sequence[Any]) -> Columns:
        rows = self.sequences(values)
        width = len(self._fields)
        if not set(map(len, rows)) <= {width}:
            at = next(at for at, row in enumerate(rows) if len(row) != width)
            raise ValueError(mismatch(values[at], self.type_info, f"it has {len(rows[at])} fields"))
        return [[row[at] for row in rows] for at in range(width)]

    def encoded(self, columns: Columns) -> list[pa.Array]:
        arrays = []
        for codec, field, values in zip(self._fields, self.arrow_type, columns, strict=True):
            try:
                arrays.append(codec.encode(values))
            except (TypeError, ValueError, OverflowError) as error:
                raise _in_field(error, field.name) from error
        return arrays

    def coerced(self, columns: Columns) -> list[Sequence[Any]]:
        """Return the coerced values of each field."""
        fields = []
        for codec, field, values in zip(self._fields, self.arrow_type, columns, strict=True):
            try:
                fields.append(codec.coerce(values))
            except (TypeError, ValueError, OverflowError) as error:
                raise _in_field(error, field.name) from error
        return fields

    def decoded(self, column: pa.StructArray) -> list[list[Any]]:
        return [codec.decode(column.field(at)) for at, codec in enumerate(self._fields)]


class TupleCodec(FieldsCodec):
    """Tuples; lists and rows are decoded as tuples."""

    def sequences(self, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """Return the fields of each value."""
        if set(map(type, values)) <= {tuple}:
            return values
        for value in values:
            if not isinstance(value, (tuple, list, Row)):
                raise TypeError(mismatch(value, self.type_info))
        return values

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        if not self._fields:
            return pa.array([{} for _ in values], self.arrow_type)
        columns = self.encoded(self.columns(values))
        return pa.StructArray.from_arrays(columns, names=[field.name for field in self.arrow_type])

    def decode_present(self, column: pa.Array) -> list[Any]:
        if not self._fields:
            return [()] * len(column)
        return list(zip(*self.decoded(column), strict=True))

    def coerce_present(self, values: Sequence[Any]) -> Sequence[Any]:
        columns = self.columns(values)
        coerced = self.coerced(columns)
        if _same(columns, coerced):
            return values if set(map(type, values)) <= {tuple} else [tuple(value) for value in values]
        return list(zip(*coerced, strict=True))


class RowCodec(FieldsCodec):
    """Rows; tuples, lists, dicts and other objects are decoded as rows."""

    def __init__(self, type_info: RowTypeInfo, fields: list[Codec]) -> None:
        super().__init__(type_info, fields)
        self._row_type = type_info
        self._names = type_info.get_field_names()
        declared = getattr(type_info, "spark_schema", None)
        fields_of_schema = () if declared is None else declared.given
        self._never_null = [at for at, field in enumerate(fields_of_schema) if not field.nullable]

    def sequences(self, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """Return the fields of each value."""
        names = self._names
        if _are_rows(values):
            return [
                row._values if row._names is None or row._names == names else self._by_name(row)
                for row in values
            ]
        return [self._by_name(value) for value in values]

    def columns(self, values: Sequence[Any]) -> Columns:
        columns = super().columns(values)
        for at in self._never_null:
            if NONE_TYPE in set(map(type, columns[at])):
                raise ValueError(f"field {self._names[at]}: must not be null as declared, got None")
        return columns

    def encode_present(self, values: Sequence[Any]) -> pa.Array:
        """Return the column, with a last field for the kinds of rows if some are not inserts."""
        kinds = _kinds(values)
        names = list(self._names)
        columns = self.encoded(self.columns(values))
        if kinds is not None:
            columns.append(pa.array([kind.value for kind in kinds], pa.int8()))
            names.append(ROW_KIND_FIELD)
        if not columns:
            return pa.array([{} for _ in values], self.arrow_type)
        return pa.StructArray.from_arrays(columns, names=names)

    def decode_present(self, column: pa.Array) -> list[Any]:
        count = len(column)
        if self._fields:
            rows = rows_of_columns(self._names, self.decoded(column))
        else:
            rows = [Row() for _ in range(count)]
            deque(map(set_names, rows, repeat(self._names, count)), 0)
        if column.type.num_fields > len(self._fields):
            kinds = column.field(len(self._fields)).to_pylist()
            deque(map(set_kind, rows, map(_KINDS.__getitem__, kinds)), 0)
        return rows

    def coerce_present(self, values: Sequence[Any]) -> Sequence[Any]:
        columns = self.columns(values)
        coerced = self.coerced(columns)
        if _same(columns, coerced) and _are_rows(values):
            names = self._names
            if all(row._names == names for row in values):
                return values
        if not self._fields:
            coerced_rows = [Row() for _ in values]
            deque(map(set_names, coerced_rows, repeat(self._names)), 0)
        else:
            coerced_rows = rows_of_columns(self._names, coerced)
        kinds = _kinds(values)
        if kinds is not None:
            deque(map(set_kind, coerced_rows, kinds), 0)
        return coerced_rows

    def _by_name(self, value: Any) -> list[Any]:
        try:
            return row_values(value, self._row_type)
        except ValueError as error:
            kind = ValueError if isinstance(value, Row) else TypeError
            raise kind(mismatch(value, self.type_info, str(error))) from error


def _kinds(values: Sequence[Any]) -> list[RowKind] | None:
    # None means that all are inserts
    insert = RowKind.INSERT
    kinds = [value._row_kind if isinstance(value, Row) else insert for value in values]
    return None if set(kinds) <= {insert} else kinds


def _same(columns: Columns, coerced: Sequence[Sequence[Any]]) -> bool:
    return all(before is after for before, after in zip(columns, coerced, strict=True))


def _in_field(error: Exception, name: str) -> Exception:
    for kind in (TypeError, OverflowError):
        if isinstance(error, kind):
            return kind(f"field {name}: {error}")
    return ValueError(f"field {name}: {error}")


def _are_rows(values: Sequence[Any]) -> bool:
    return all(issubclass(kind, Row) for kind in set(map(type, values)))
