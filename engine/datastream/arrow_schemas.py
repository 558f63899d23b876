"""Types of streams as Arrow schemas, and the other way."""

from __future__ import annotations

import pyarrow as pa

from operators.chain.rows_and_batches import VALUE_COLUMN
from operators.common.arrow_types import arrow_type, type_info_of_arrow
from operators.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation


def schema_of_type(type_info: TypeInformation | None) -> pa.Schema:
    """A column a field of rows and tuples, else the one column `value`.

    TypeError where no type is declared.
    """
    if type_info is None:
        raise TypeError(
            "records of no declared type have no columns: declare the output type of what gives them"
        )
    kind = arrow_type(type_info)
    if isinstance(type_info, RowTypeInfo | TupleTypeInfo):
        return pa.schema(list(kind))
    return pa.schema([(VALUE_COLUMN, kind)])


def type_of_schema(schema: pa.Schema) -> TypeInformation:
    """Rows of named fields; of a schema with the one column `value`, the type of its values."""
    if schema.names == [VALUE_COLUMN]:
        return type_info_of_arrow(schema.field(0).type)
    return type_info_of_arrow(schema)
