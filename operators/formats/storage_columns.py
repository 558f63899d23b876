"""Columns as tables of other systems have them: decimals and timestamps instead of texts and structs.

`operators.common` carries BIG_INT and BIG_DEC as text and INSTANT as a struct, which no other system would
understand; in Parquet and Delta they are decimal(38, 0), decimal(38, 18) (PyFlink's DataTypes of these types)
and timestamps of microseconds in UTC. `as_arrow_type` is the way back.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.operators.common.adapt_columns import as_arrow_type
from penstock.operators.common.arrow_columns import to_arrow
from penstock.operators.common.arrow_types import arrow_type, element_type, is_bytes
from penstock.operators.common.basic_types import ForeignTypeInfo
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

_STORED = {
    BasicType.BIG_INT: pa.decimal128(38, 0),
    BasicType.BIG_DEC: pa.decimal128(38, 18),
    BasicType.INSTANT: pa.timestamp("us", "UTC"),
}
_LISTS = (PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, ListTypeInfo)


def stored_schema(type_info: TypeInformation | None) -> pa.Schema:
    """One column per field of a row or tuple type, else the one column `value`.

    TypeError for records without a declared type, also within another one.
    """
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return pa.schema(list(stored_type(type_info)))
    return pa.schema([("value", stored_type(type_info))])


def stored_type(type_info: TypeInformation | None) -> pa.DataType:
    """The Arrow type of a stored column of such values. TypeError if there is none."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        raise TypeError(
            "records of no declared type have no columns: declare the output type before the sink"
        )
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in _STORED:
        return _STORED[type_info._basic_type]
    if isinstance(type_info, ForeignTypeInfo):
        stored: pa.DataType = type_info.stored_type
        return stored
    carried = arrow_type(type_info)
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        fields = zip([field.name for field in carried], type_info.get_field_types(), strict=True)
        return pa.struct([(name, stored_type(field_type)) for name, field_type in fields])
    if isinstance(type_info, _LISTS) and not is_bytes(type_info):
        return pa.list_(stored_type(element_type(type_info)))
    if isinstance(type_info, MapTypeInfo):
        return pa.map_(stored_type(type_info._key_type_info), stored_type(type_info._value_type_info))
    return carried


def stored_values(values: list[Any], type_info: TypeInformation, schema: pa.Schema) -> pa.RecordBatch:
    """Values of a type as a batch of `schema`, which is `stored_schema` of the type."""
    column = to_arrow(values, type_info)
    if not isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return pa.RecordBatch.from_arrays([as_stored(column, schema.field(0).type)], schema=schema)
    if column.null_count:
        raise TypeError("a row that is null has no columns")
    return stored_batch(pa.RecordBatch.from_struct_array(column), schema)


def stored_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with the columns of `schema`, taken by their order, of its types."""
    if batch.schema.equals(schema):
        return batch
    if batch.num_columns < len(schema):
        raise TypeError(f"columns {batch.schema.names} instead of the declared {schema.names}")
    columns = [as_stored(batch.column(at), field.type) for at, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def as_stored(column: pa.Array, stored: pa.DataType) -> pa.Array:
    """`column` as an array of type `stored`. ArrowInvalid for values that do not fit."""
    if column.type == stored:
        return column
    mask = column.is_null() if column.null_count else None
    if kinds.is_timestamp(stored) and kinds.is_struct(column.type):
        micros = pc.add(pc.multiply(column.field(0), 1_000_000), pc.divide(column.field(1), 1000))
        return pc.if_else(column.is_valid(), micros, None).cast(pa.int64()).cast(stored)
    if kinds.is_struct(stored):
        fields = [as_stored(column.field(at), field.type) for at, field in enumerate(stored)]
        return pa.StructArray.from_arrays(fields, fields=list(stored), mask=mask)
    if kinds.is_list(stored) and kinds.is_list(column.type):
        values = as_stored(column.values, stored.value_type)
        return pa.ListArray.from_arrays(_offsets(column), values, type=stored, mask=mask)
    if kinds.is_map(stored):
        keys, items = as_stored(column.keys, stored.key_type), as_stored(column.items, stored.item_type)
        return pa.MapArray.from_arrays(_offsets(column), keys, items, type=stored, mask=mask)
    if kinds.is_decimal(stored) and kinds.is_string(column.type):
        _require_that_fit(column, stored)
    return as_arrow_type(column, stored)


def _require_that_fit(texts: pa.StringArray, stored: pa.Decimal128Type) -> None:
    # Arrow's cast of texts does not notice every overflow
    largest = pc.max(pc.abs(pc.cast(texts, pa.float64()))).as_py()
    if largest is not None and largest > 10.0 ** (stored.precision - stored.scale):
        raise pa.ArrowInvalid(f"a number of the size of {largest:g} does not fit {stored}")


def _offsets(column: pa.Array) -> pa.Array:
    # a copy: Arrow takes no slice of offsets together with a mask
    return pa.array(column.offsets.to_numpy(), pa.int32())
