"""Converts types of streams to Arrow schemas, and back."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.operators.common.arrow_types import arrow_type, is_bytes
from penstock.operators.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from penstock.operators.exchange.rows_and_batches import VALUE_COLUMN
from penstock.operators.records.key_selection import ColumnKeys


def schema_of_type(type_info: TypeInformation | None) -> pa.Schema:
    """One column for each field of rows and tuples, else the one column `value`.

    Columns of a schema that was declared may be null as it says. TypeError where no type is declared.
    """
    if type_info is None:
        raise TypeError(
            "records of no declared type have no columns: declare the output type of what gives them"
        )
    kind = arrow_type(type_info)
    rows = isinstance(type_info, RowTypeInfo | TupleTypeInfo)
    fields = list(kind) if rows else [pa.field(VALUE_COLUMN, kind)]
    known = getattr(type_info, "spark_schema", None)
    if known is not None:
        fields = [
            field.with_nullable(column.nullable) for field, column in zip(fields, known.carried, strict=True)
        ]
    return pa.schema(fields)


def column_keys(
    type_info: TypeInformation | None, names: str | Sequence[str]
) -> tuple[ColumnKeys, TypeInformation]:
    """Keys that are fields of a stream's records, and their type: the field's, or a tuple of the fields'.

    TypeError where the records have no named fields, ValueError for a field that they lack.
    """
    if not isinstance(type_info, RowTypeInfo | TupleTypeInfo):
        raise TypeError(f"keys by name need records with fields, which {type_info} has not")
    schema = schema_of_type(type_info)
    wanted = [names] if isinstance(names, str) else list(names)
    missing = [name for name in wanted if name not in schema.names]
    if missing or not wanted:
        raise ValueError(
            f"key fields {', '.join(missing) or '(none)'}: the records have {', '.join(schema.names)}"
        )
    positions = [schema.names.index(name) for name in wanted]
    types = [type_as_key(type_info.get_field_types()[position]) for position in positions]
    return ColumnKeys(wanted, positions), types[0] if len(types) == 1 else TupleTypeInfo(types)


def type_as_key(type_info: TypeInformation) -> TypeInformation:
    """The type of keys that are such fields: of bytes Spark's, for Flink's arrays are no keys."""
    if not is_bytes(type_info):
        return type_info
    from pyspark.sql.types import BinaryType

    from penstock.operators.common.spark_types import SparkTypeInfo

    return SparkTypeInfo(BinaryType())
