"""Spark's types as types of streams, with values in the form of PySpark's functions.

Source: org.apache.spark.sql.util.ArrowUtils, pyspark.sql.conversion.
"""

from __future__ import annotations

import datetime
import operator
import time
from collections.abc import Callable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from itertools import compress, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    IntegralType,
    MapType,
    Row,
    StringType,
    StructType,
    TimestampType,
    TimeType,
)

from penstock.operators.common.adapt_columns import as_arrow_type
from penstock.operators.common.arrow_columns import codec_of
from penstock.operators.common.arrow_types import arrow_type
from penstock.operators.common.basic_types import ForeignTypeInfo, TypeInformation
from penstock.operators.common.composite_codecs import Codec, mismatch
from penstock.operators.common.java_hash import Hashes, java_hash_codes, pickled_key_hashes
from penstock.operators.common.row import names_of_row
from penstock.operators.common.time import Instant, microseconds_since_epoch
from penstock.operators.common.without_pandas import without_pandas

_NAIVE_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECONDS = 1_000_000
_WIDE = Context(prec=100)
_AS_INTEGERS = (TimestampType, DayTimeIntervalType, TimeType)


class SparkTypeInfo(ForeignTypeInfo):
    """Values of a Spark type without a Flink type, or with one that would lose a part.

    `data_type` is the type of the column; `name` the original type, if Spark uses another one for it.
    """

    def __init__(self, data_type: DataType, name: str | None = None) -> None:
        self.data_type = data_type
        self.name = name or data_type.simpleString()

    @property
    def column_type(self) -> pa.DataType:
        """Return Arrow's type of a column."""
        return to_arrow_type(self.data_type, timezone="UTC")

    @property
    def stored_type(self) -> pa.DataType:
        """Return Arrow's type of a column of a file, the same."""
        return self.column_type

    def make_codec(self) -> Codec:
        """Return the codec between values and columns."""
        return SparkCodec(self)

    def hashes(self, column: pa.Array) -> Hashes:
        """Return a hash of each value; equal for values that are equal in Python."""
        if isinstance(self.data_type, _AS_INTEGERS):
            longs = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
            codes: Hashes = (longs ^ (longs >> np.uint64(32))).astype(np.uint32)
            return codes
        return pickled_key_hashes(_decoded(column, self.data_type))

    def _identity(self) -> tuple[Any, ...]:
        return (SparkTypeInfo, self.data_type.json())

    def __repr__(self) -> str:
        return f"Spark's {self.name}"


class SparkCodec(Codec):
    """Values in the form that PySpark's functions get and return, converted column by column."""

    def __init__(self, type_info: SparkTypeInfo) -> None:
        self.type_info = type_info
        self.arrow_type = type_info.column_type
        self._data_type = type_info.data_type

    def encode(self, values: Sequence[Any]) -> pa.Array:
        with without_pandas():
            return _encoded(values, self._data_type, self.arrow_type, self.type_info)

    def decode(self, column: pa.Array) -> list[Any]:
        """Return the values of a column.

        Raises ValueError or TypeError for a time or a map that Python cannot hold.
        """
        try:
            return _decoded(column, self._data_type)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"a {self.type_info.name} is outside of Python's range: {error}") from error
        except TypeError as error:  # a key that cannot be hashed
            raise TypeError(f"a {self.type_info.name} cannot be a dict of Python: {error}") from error

    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        return self.decode(self.encode(values))


class ArrowTypeInfo(ForeignTypeInfo):
    """Values of `type_info` in columns of another Arrow type, which a schema has declared.

    It equals `type_info`: streams of both can be united, and their keys are the same.
    """

    def __init__(self, column_type: pa.DataType, type_info: TypeInformation) -> None:
        self.column_type, self.type_info = column_type, type_info
        self.stored_type = arrow_type(type_info)
        self.value_type = type_info

    def make_codec(self) -> Codec:
        """Return the codec between values and columns."""
        return ArrowCodec(self)

    def hashes(self, column: pa.Array) -> Hashes:
        """Return a hash of each value, the same as for `type_info`."""
        return java_hash_codes(column, self.type_info)

    def need_conversion(self) -> bool:
        return self.type_info.need_conversion()

    def to_internal_type(self, obj: Any) -> Any:
        return self.type_info.to_internal_type(obj)

    def from_internal_type(self, obj: Any) -> Any:
        return self.type_info.from_internal_type(obj)

    def _identity(self) -> tuple[Any, ...]:
        return self.type_info._identity()

    def __repr__(self) -> str:
        return repr(self.type_info)


class ArrowCodec(Codec):
    """The codec of `type_info`, with columns of the declared type."""

    def __init__(self, type_info: ArrowTypeInfo) -> None:
        self.arrow_type, self.type_info = type_info.column_type, type_info
        self._inner = codec_of(type_info.type_info)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        try:
            return as_arrow_type(self._inner.encode(values), self.arrow_type)
        except pa.ArrowException as error:
            raise ValueError(f"a value does not fit Arrow's {self.arrow_type}: {error}") from error

    def decode(self, column: pa.Array) -> list[Any]:
        return self._inner.decode(as_arrow_type(column, self._inner.arrow_type))

    def coerce(self, values: Sequence[Any]) -> Sequence[Any]:
        return self.decode(self.encode(values))


def _decoded(column: pa.Array, data_type: DataType) -> list[Any]:
    if isinstance(data_type, StructType):
        fields = [_decoded(column.field(at), field.dataType) for at, field in enumerate(data_type)]
        row = _row_of(data_type.names)
        rows = map(row, *fields) if fields else (row() for _ in range(len(column)))
        return _with_nulls(column, rows)
    if isinstance(data_type, ArrayType):
        elements = _decoded(column.values, data_type.elementType)
        return _with_nulls(column, (elements[start:end] for start, end in _spans(column)))
    if isinstance(data_type, MapType):
        keys, items = _decoded(column.keys, data_type.keyType), _decoded(column.items, data_type.valueType)
        maps = (dict(zip(keys[start:end], items[start:end], strict=True)) for start, end in _spans(column))
        return _with_nulls(column, maps)
    if isinstance(data_type, TimestampType):
        return [
            None if moment is None else _local_time(moment) for moment in column.cast(pa.int64()).to_pylist()
        ]
    convert = ArrowTableToRowsConversion._create_converter(data_type, none_on_identity=True)
    values: list[Any] = column.to_pylist()
    return values if convert is None else list(map(convert, values))


def _encoded(
    values: Sequence[Any], data_type: DataType, kind: pa.DataType, type_info: SparkTypeInfo
) -> pa.Array:
    missing = [value is None for value in values]
    mask = pa.array(missing, pa.bool_()) if any(missing) else None
    if isinstance(data_type, StructType):
        names = data_type.names
        rows = [
            (None,) * len(names) if value is None else _fields(value, names, type_info) for value in values
        ]
        children = [
            _encoded([row[at] for row in rows], field.dataType, kind.field(at).type, type_info)
            for at, field in enumerate(data_type)
        ]
        for at, field in enumerate(data_type):
            if not field.nullable:
                _require_values([row[at] for row in rows], missing, f"field {field.name}", type_info)
        if not children:
            return pa.array([None if gone else {} for gone in missing], kind)
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if isinstance(data_type, ArrayType):
        offsets, elements = _flat(values, list, type_info)
        if not data_type.containsNull:
            _require_values(elements, None, "an element", type_info)
        inner = _encoded(elements, data_type.elementType, kind.value_type, type_info)
        return pa.ListArray.from_arrays(offsets, inner, type=kind, mask=mask)
    if isinstance(data_type, MapType):
        offsets, entries = _flat(values, dict, type_info)
        keys, items = [key for key, _ in entries], [item for _, item in entries]
        _require_values(keys, None, "a key", type_info)
        if not data_type.valueContainsNull:
            _require_values(items, None, "a value", type_info)
        return pa.MapArray.from_arrays(
            offsets,
            _encoded(keys, data_type.keyType, kind.key_type, type_info),
            _encoded(items, data_type.valueType, kind.item_type, type_info),
            type=kind,
            mask=mask,
        )
    convert = _converter(data_type)
    converted = [_converted(value, convert, type_info) for value in values]
    try:
        return pa.array(converted, kind)
    except (pa.ArrowException, OverflowError):
        for value, part in zip(values, converted, strict=True):
            try:
                pa.array([part], kind)
            except (pa.ArrowException, OverflowError) as error:
                raise ValueError(mismatch(value, type_info, "it does not fit")) from error
        raise


def _converter(data_type: DataType) -> Callable[[Any], Any] | None:
    if type(data_type) in _CLASSES:
        return partial(_require_class, kind=_CLASSES[type(data_type)])
    if isinstance(data_type, TimestampType):
        return _to_microseconds
    if isinstance(data_type, IntegralType):
        return _whole_number
    if isinstance(data_type, DecimalType):
        return partial(_decimal, scale=data_type.scale)
    converter: Callable[[Any], Any] | None = LocalDataToArrowConversion._create_converter(
        data_type, True, none_on_identity=True, int_to_decimal_coercion_enabled=True
    )
    return converter


#: Values that PySpark or Arrow would convert silently: everything to text, integers to times.
_CLASSES: dict[type[DataType], type] = {
    StringType: str,
    TimeType: datetime.time,
    DayTimeIntervalType: datetime.timedelta,
}


def _require_class(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value


def _whole_number(value: Any) -> int:
    # Arrow would silently truncate 1.7 to 1
    number = int(value) if hasattr(type(value), "__int__") or hasattr(type(value), "__index__") else None
    if number is None:
        raise TypeError
    if number != value:
        raise ValueError
    return number


def _decimal(value: Any, scale: int) -> Decimal:
    """Return a decimal rounded half up, as in Spark's cast."""
    if isinstance(value, bool):
        raise TypeError
    exact = value if isinstance(value, Decimal) else Decimal(operator.index(value))
    return exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, _WIDE)


def _converted(value: Any, convert: Callable[[Any], Any] | None, type_info: SparkTypeInfo) -> Any:
    if value is None or convert is None:
        return value
    try:
        return convert(value)
    except (AssertionError, AttributeError, TypeError, PySparkException) as error:
        raise TypeError(mismatch(value, type_info)) from error
    except (ArithmeticError, ValueError) as error:
        raise ValueError(mismatch(value, type_info, "it does not fit")) from error


def _fields(value: Any, names: Sequence[str], type_info: SparkTypeInfo) -> Sequence[Any]:
    if isinstance(value, dict):
        return [value.get(name) for name in names]
    own_names = names_of_row(value)
    if own_names is not None and own_names != list(names):
        if sorted(own_names) != sorted(names):
            raise TypeError(mismatch(value, type_info, f"its fields are {', '.join(own_names)}"))
        return [value[own_names.index(name)] for name in names]
    field_values = getattr(value, "_values", value)  # a Row of PyFlink
    if isinstance(field_values, tuple | list) and len(field_values) == len(names):
        return field_values
    raise TypeError(mismatch(value, type_info))


def _flat(values: Sequence[Any], kind: type, type_info: SparkTypeInfo) -> tuple[pa.Array, list[Any]]:
    offsets, flat = [0], list[Any]()
    for value in values:
        if value is not None:
            if kind is dict and isinstance(value, dict):
                flat.extend(value.items())
            elif kind is list and hasattr(value, "__iter__") and not isinstance(value, str | bytes | dict):
                flat.extend(value)
            else:
                raise TypeError(mismatch(value, type_info))
        offsets.append(len(flat))
    return pa.array(offsets, pa.int32()), flat


def _require_values(
    values: Sequence[Any], missing: Sequence[bool] | None, part_name: str, type_info: SparkTypeInfo
) -> None:
    present = values if missing is None else compress(values, [not gone for gone in missing])
    if any(value is None for value in present):
        raise ValueError(f"{part_name} of {type_info} must not be None")


def _with_nulls(column: pa.Array, values: Any) -> list[Any]:
    if not column.null_count:
        return list(values)
    valid = column.is_valid().to_pylist()
    return [value if is_valid else None for value, is_valid in zip(values, valid, strict=True)]


def _spans(column: pa.Array) -> Iterator[tuple[int, int]]:
    return pairwise(column.offsets.to_pylist())


def _row_of(names: Sequence[str]) -> Callable[..., Row]:
    return Row(*names) if names else Row


def _local_time(microseconds: int) -> datetime.datetime:
    """Return a time as PySpark does, in the time zone of the process, with `fold` for ambiguous ones."""
    seconds, rest = divmod(microseconds, _MICROSECONDS)
    try:
        return datetime.datetime.fromtimestamp(seconds).replace(microsecond=rest)
    except ValueError:  # it reads the day before, which the first day lacks
        offset = time.localtime(seconds).tm_gmtoff
        return _NAIVE_EPOCH + datetime.timedelta(seconds=seconds + offset, microseconds=rest)


def _to_microseconds(value: Any) -> int:
    if isinstance(value, Instant):
        return value.seconds * _MICROSECONDS + value.nanos // 1000
    if not isinstance(value, datetime.datetime):
        raise TypeError
    return microseconds_since_epoch(value)
