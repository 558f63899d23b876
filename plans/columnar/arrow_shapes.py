"""Arrow types next to the declared ones: which columns are right, whatever their Arrow flavour is."""

from collections.abc import Iterable

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType


def shape(data_type: pa.DataType) -> str:
    """The type as Spark writes it down, without nullability; Arrow's own name where Spark has none."""
    try:
        return str(from_arrow_type(_plain(data_type)).simpleString())
    except PySparkTypeError:
        return str(data_type)


def misshapen(schema: pa.Schema, declared: StructType, required: Iterable[str], table: str) -> list[str]:
    """What is wrong with the columns of `schema`, in words: missing, of another type, extra."""
    found = {field.name: shape(field.type) for field in schema}
    allowed = {field.name: field.dataType.simpleString() for field in declared.fields}
    wrong = [
        f"{name}: found {kind}, allowed {allowed[name]}"
        for name, kind in found.items()
        if name in allowed and kind != allowed[name]
    ]
    missing = [f"{name}: no such column, allowed {allowed[name]}" for name in required if name not in found]
    return missing + wrong + [f"{name}: not a column of {table}" for name in found if name not in allowed]


def _plain(data_type: pa.DataType) -> pa.DataType:
    """The type without the flavours that Spark does not know: views and large offsets."""
    if pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return pa.string()
    if pa.types.is_map(data_type):
        return pa.map_(_plain(data_type.key_type), _plain(data_type.item_type))
    if pa.types.is_struct(data_type):
        return pa.struct([(field.name, _plain(field.type)) for field in data_type])
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type) or pa.types.is_list_view(data_type):
        return pa.list_(_plain(data_type.value_type))
    return data_type
