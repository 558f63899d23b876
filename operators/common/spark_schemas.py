"""Conversion between the schema of a Spark DataFrame and the type of a stream.

Properties that a stream's type cannot express (nullability, comments, names that occur twice, types that
reach Python in another form) are stored with it, as an attribute of the type, as long as operators retain
that type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.types as kinds
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_metadata, from_arrow_type, to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    YearMonthIntervalType,
)

from penstock.operators.common.arrow_types import arrow_type, element_type, field_names, is_bytes
from penstock.operators.common.basic_types import BasicType, BasicTypeInfo, ExactTypeInfo
from penstock.operators.common.pickles import is_pickled
from penstock.operators.common.spark_types import ArrowTypeInfo, SparkTypeInfo
from penstock.operators.common.typeinfo import (
    DateTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)

VALUE = "value"


class GivenSchema(NamedTuple):
    """The schema of a DataFrame, and the types in which its columns reach Python."""

    given: StructType
    carried: StructType

    @property
    def is_carried_otherwise(self) -> bool:
        """Whether some column must be converted or renamed on its way in, and back on its way out."""
        return any(
            (field.name, field.dataType) != (carried_field.name, carried_field.dataType)
            for field, carried_field in zip(self.given, self.carried, strict=True)
        )


def type_of_spark_schema(schema: StructType) -> TypeInformation:
    """Return the type of a stream of such rows, or of the values of a single column `value`.

    If that column is a struct, the type is a row type. Raises TypeError naming a column of a type that
    functions cannot get, and ValueError for a name that is not UTF-8.
    """
    for name in _names_in(schema):
        if not _is_utf_8(name):
            raise ValueError(f"column {name!r:.200}: the name is not UTF-8")
    carried = StructType(
        [
            StructField(name, carried_type(field.dataType, field.name), field.nullable, field.metadata)
            for name, field in zip(unique_names(schema.names), schema, strict=True)
        ]
    )
    types = [stream_type(part.dataType, field.dataType) for field, part in zip(schema, carried, strict=True)]
    if schema.names == [VALUE] and not isinstance(schema[0].dataType, StructType):
        type_info = types[0]
    else:
        type_info = RowTypeInfo(types, carried.names)
    type_info.__dict__["spark_schema"] = GivenSchema(schema, carried)
    return type_info


def _names_in(data_type: DataType) -> Iterator[str]:
    if isinstance(data_type, StructType):
        for field in data_type:
            yield field.name
            yield from _names_in(field.dataType)
    elif isinstance(data_type, ArrayType):
        yield from _names_in(data_type.elementType)
    elif isinstance(data_type, MapType):
        yield from _names_in(data_type.keyType)
        yield from _names_in(data_type.valueType)


def _is_utf_8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def type_of_spark_type(data_type: DataType) -> TypeInformation:
    """Return the type of a stream of such values, which is a row type for a struct.

    Raises as `type_of_spark_schema` does.
    """
    schema = data_type if isinstance(data_type, StructType) else StructType([StructField(VALUE, data_type)])
    return type_of_spark_schema(schema)


def type_of_arrow_schema(schema: pa.Schema) -> TypeInformation:
    """Return the type of a stream of batches of this schema, whose columns retain their types.

    Views become strings and binaries, because Arrow can neither filter nor take them. A schema with the
    single column `value`, unless that is a struct, is a schema of values. Raises TypeError that names a
    column of a type for which Spark has none.
    """
    given = StructType(
        [
            StructField(
                field.name,
                _spark_type_of_field(field),
                field.nullable,
                from_arrow_metadata(field.metadata) if field.metadata else None,
            )
            for field in schema
        ]
    )
    type_info = type_of_spark_schema(given)
    if not isinstance(type_info, RowTypeInfo):
        return _in_columns_of(type_info, _changed(schema.field(0).type, _PLAIN))
    types = [
        _in_columns_of(field_type, _changed(column_type, _PLAIN))
        for field_type, column_type in zip(type_info.get_field_types(), schema.types, strict=True)
    ]
    declared = RowTypeInfo(types, type_info.get_field_names())
    declared.__dict__["spark_schema"] = given_schema(type_info)
    return declared


def _in_columns_of(type_info: TypeInformation, column_type: pa.DataType) -> TypeInformation:
    if arrow_type(type_info) == column_type:
        return type_info
    declared = ArrowTypeInfo(column_type, type_info)
    known = given_schema(type_info)
    if known is not None:
        declared.__dict__["spark_schema"] = known
    return declared


def _spark_type_of_field(field: pa.Field) -> DataType:
    try:
        return from_arrow_type(_known_to_spark(field.type))
    except (PySparkException, TypeError):
        raise TypeError(
            f"column {field.name!r}: Spark has no type for Arrow's {field.type}; cast the column to another"
        ) from None


def _known_to_spark(data_type: Any) -> pa.DataType:
    """Return the type with parts that PySpark does not support in the next wider type that it supports.

    Unsigned integers become the types in which Spark reads them from Parquet. Raises TypeError for a decimal
    that Spark cannot hold.
    """
    return _changed(data_type, _WIDER, _decimal_of_spark)


def _changed(
    data_type: Any,
    others: Mapping[pa.DataType, pa.DataType],
    decimal: Callable[[Any], pa.DataType] = lambda same: same,
) -> pa.DataType:
    """Return the type with its parts replaced by `others` and `decimal`."""

    def changed(field: pa.Field) -> pa.Field:
        return field.with_type(_changed(field.type, others, decimal))

    if data_type in others:
        return others[data_type]
    if kinds.is_decimal(data_type):
        return decimal(data_type)
    if kinds.is_struct(data_type):
        return pa.struct(list(map(changed, data_type)))
    if kinds.is_map(data_type):
        return pa.map_(changed(data_type.key_field), changed(data_type.item_field), data_type.keys_sorted)
    if kinds.is_dictionary(data_type):
        return pa.dictionary(
            data_type.index_type, _changed(data_type.value_type, others, decimal), data_type.ordered
        )
    for is_kind, make in _LISTS.items():
        if is_kind(data_type):
            return make(changed(data_type.value_field), data_type)
    return data_type


_LISTS: dict[Callable[[pa.DataType], bool], Callable[[pa.Field, Any], pa.DataType]] = {
    kinds.is_list: lambda field, _: pa.list_(field),
    kinds.is_large_list: lambda field, _: pa.large_list(field),
    kinds.is_fixed_size_list: lambda field, before: pa.list_(field, before.list_size),
}


def _decimal_of_spark(data_type: Any) -> pa.DataType:
    scale = max(data_type.scale, 0)
    digits = max(data_type.precision - min(data_type.scale, 0), scale)
    if digits > _MOST_DIGITS:
        raise TypeError
    return pa.decimal128(digits, scale)


_MOST_DIGITS = 38  #: maximum of digits of Spark's decimals
_PLAIN = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    **_PLAIN,
    pa.date64(): pa.date32(),
    pa.time32("s"): pa.time64("us"),
    pa.time32("ms"): pa.time64("us"),
}


def given_schema(type_info: TypeInformation | None) -> GivenSchema | None:
    """Return the schema from which the type was derived; None for a declared type."""
    schema: GivenSchema | None = getattr(type_info, "spark_schema", None)
    return schema


def schema_of_stream(type_info: TypeInformation | None) -> GivenSchema:
    """Return the columns of a DataFrame of such records, which are the fields of a row or tuple, or `value`.

    Raises TypeError for a type for which Spark has none.
    """
    known = given_schema(type_info)
    if known is not None:
        return known
    if isinstance(type_info, RowTypeInfo | TupleTypeInfo):
        schema = spark_type(type_info)
    else:
        schema = StructType(
            [StructField(VALUE, BinaryType() if is_pickled(type_info) else spark_type(type_info))]
        )
    assert isinstance(schema, StructType)
    return GivenSchema(schema, schema)


def with_any_nulls(types: Sequence[TypeInformation | None]) -> TypeInformation | None:
    """Return the first of several equal types, with columns nullable if they are in any of them."""
    first, schemas = types[0], [given_schema(type_info) for type_info in types]
    known = schemas[0]
    if first is None or known is None or all(schema == known for schema in schemas):
        return first

    def allows_null(at: int) -> bool:
        return any(schema is None or schema.given[at].nullable for schema in schemas)

    def merged(which: str) -> StructType:
        fields = getattr(known, which)
        return StructType(
            [
                StructField(field.name, field.dataType, allows_null(at), field.metadata)
                for at, field in enumerate(fields)
            ]
        )

    merged_type = object.__new__(type(first))
    merged_type.__dict__.update(first.__getstate__())
    merged_type.__dict__["spark_schema"] = GivenSchema(merged("given"), merged("carried"))
    return merged_type


def carried_type(data_type: DataType, column: str) -> DataType:
    """Return the type in which a column reaches Python, its own or a substitute that PySpark supports.

    Intervals of months become integers, calendar intervals and `char(n)` text; arrays and maps that are
    always empty get an element type, and repeated field names of a struct become unique. Raises TypeError
    that names the column if nothing fits.
    """
    if isinstance(data_type, CalendarIntervalType):
        return StringType()
    if is_always_empty(data_type):
        return (
            ArrayType(IntegerType(), False)
            if isinstance(data_type, ArrayType)
            else MapType(IntegerType(), IntegerType(), False)
        )
    try:
        carried = _carried_inside(data_type, column)
        to_arrow_type(carried, timezone="UTC")
    except Exception:
        raise _refused(column, data_type) from None
    return carried


def is_always_empty(data_type: DataType) -> bool:
    """Whether this is the type of `array()` or `map()`, whose elements are of the type void."""
    if isinstance(data_type, ArrayType):
        return isinstance(data_type.elementType, NullType) and not data_type.containsNull
    return isinstance(data_type, MapType) and isinstance(data_type.keyType, NullType)


def _carried_inside(data_type: DataType, column: str) -> DataType:
    def inner(part: DataType) -> DataType:
        if isinstance(part, CalendarIntervalType):
            raise _refused(column, data_type)
        return _carried_inside(part, column)

    if isinstance(data_type, StructType):
        names = unique_names(data_type.names)
        return StructType(
            [
                StructField(name, inner(field.dataType), field.nullable, field.metadata)
                for name, field in zip(names, data_type, strict=True)
            ]
        )
    if isinstance(data_type, ArrayType):
        return ArrayType(inner(data_type.elementType), data_type.containsNull)
    if isinstance(data_type, MapType):
        if isinstance(data_type.keyType, NullType):
            raise _refused(column, data_type)
        return MapType(inner(data_type.keyType), inner(data_type.valueType), data_type.valueContainsNull)
    if isinstance(data_type, CharType | VarcharType):
        return StringType()
    return IntegerType() if isinstance(data_type, YearMonthIntervalType) else data_type


def _refused(column: str, data_type: DataType) -> TypeError:
    return TypeError(
        f"column {column!r}: Python functions cannot get Spark's type {data_type.simpleString()}; drop the "
        "column, or cast it"
    )


def unique_names(names: Sequence[str]) -> list[str]:
    """Return unique names, with the first free number as the suffix of a repeated name."""
    taken: dict[str, None] = {}
    for name in names:
        unique, number = name, 1
        while unique in taken or (number > 1 and unique in names):
            number += 1
            unique = f"{name}_{number}"
        taken[unique] = None
    return list(taken)


_SAME: dict[type[DataType], Callable[[], TypeInformation]] = {
    BooleanType: lambda: ExactTypeInfo(BasicType.BOOLEAN),
    ByteType: lambda: ExactTypeInfo(BasicType.BYTE),
    ShortType: lambda: ExactTypeInfo(BasicType.SHORT),
    IntegerType: lambda: ExactTypeInfo(BasicType.INT),
    LongType: lambda: ExactTypeInfo(BasicType.LONG),
    FloatType: Types.FLOAT,
    DoubleType: Types.DOUBLE,
    DateType: Types.SQL_DATE,
    BinaryType: lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
}


def stream_type(carried: DataType, given_type: DataType) -> TypeInformation:
    """Return Flink's type if it equals Spark's, else Spark's."""
    if type(carried) in _SAME:
        return _SAME[type(carried)]()
    if type(carried) is StringType and carried.isUTF8BinaryCollation():
        return Types.STRING()
    return SparkTypeInfo(carried, given_type.simpleString())


_BASIC: dict[BasicType, DataType] = {
    BasicType.STRING: StringType(),
    BasicType.CHAR: StringType(),
    BasicType.BOOLEAN: BooleanType(),
    BasicType.BYTE: ByteType(),
    BasicType.SHORT: ShortType(),
    BasicType.INT: IntegerType(),
    BasicType.LONG: LongType(),
    BasicType.FLOAT: FloatType(),
    BasicType.DOUBLE: DoubleType(),
    BasicType.BIG_INT: DecimalType(38, 0),
    BasicType.BIG_DEC: DecimalType(38, 18),
    BasicType.INSTANT: TimestampType(),
}
_LOCAL = {
    LocalTimeTypeInfo.TimeType.LOCAL_DATE: DateType(),
    LocalTimeTypeInfo.TimeType.LOCAL_TIME: TimeType(6),
    LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME: TimestampNTZType(),
}


def spark_type(type_info: TypeInformation | None) -> DataType:
    """Return the type of a Spark column of such values; bytes (pickles) without a declared type.

    Raises TypeError if there is none.
    """
    if type_info is None or is_pickled(type_info) or is_bytes(type_info):
        return BinaryType()
    if isinstance(type_info, RowTypeInfo | TupleTypeInfo):
        types = map(spark_type, type_info.get_field_types())
        fields = zip(field_names(type_info), types, strict=True)
        return StructType([StructField(name, field_type) for name, field_type in fields])
    if isinstance(type_info, MapTypeInfo):
        return MapType(spark_type(type_info._key_type_info), spark_type(type_info._value_type_info))
    if isinstance(type_info, ExternalTypeInfo):
        return spark_type(type_info._type_info)
    if _has_elements(type_info):
        return ArrayType(spark_type(element_type(type_info)))
    return _single_type(type_info)


def _single_type(type_info: TypeInformation) -> DataType:
    match type_info:
        case SparkTypeInfo():
            return type_info.data_type
        case ArrowTypeInfo():
            return spark_type(type_info.type_info)
        case BasicTypeInfo():
            return _BASIC[type_info._basic_type]
        case LocalTimeTypeInfo():
            return _LOCAL[type_info._time_type]
    for kind, data_type in _OTHER.items():
        if isinstance(type_info, kind):
            return data_type
    raise TypeError(f"Spark has no type for values of {type_info!r}")


_OTHER: dict[type[TypeInformation], DataType] = {
    DateTypeInfo: DateType(),
    TimeTypeInfo: TimeType(6),
    TimestampTypeInfo: TimestampNTZType(),
}


def _has_elements(type_info: Any) -> bool:
    return hasattr(type_info, "elem_type") or hasattr(type_info, "_element_type")
