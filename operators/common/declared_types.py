"""The types that arguments declare as a type of Flink, a type of Spark or a schema of Arrow."""

from __future__ import annotations

import sys
from typing import Any

from penstock.operators.common.arguments import describe_value
from penstock.operators.common.basic_types import TypeInformation

#: A TypeInformation, a type of Spark (text or a DataType) or a pyarrow Schema; see `declared_type`.
DeclaredType = Any


def declared_type(declared: Any, role: str = "type") -> TypeInformation:
    """Return the type of Flink that an argument `role` declares, in any of the three forms.

    Spark's types are a DataType or its text, such as `a int, b string`. Raises TypeError for other arguments
    and for types that streams cannot have, ValueError for text that is not a type.
    """
    if isinstance(declared, TypeInformation):
        return declared
    if isinstance(declared, str):
        from penstock.operators.common.spark_ddl import parse_spark_type
        from penstock.operators.common.spark_schemas import type_of_spark_type

        return type_of_spark_type(parse_spark_type(declared))
    if isinstance(declared, _class_of("pyspark.sql.types", "DataType")):
        from penstock.operators.common.spark_schemas import type_of_spark_type

        return type_of_spark_type(declared)
    if isinstance(declared, _class_of("pyarrow", "Schema")):
        from penstock.operators.common.spark_schemas import type_of_arrow_schema

        return type_of_arrow_schema(declared)
    raise TypeError(
        f"{role} must be a type such as Types.INT(), a type of Spark (`a int, b string`, a DataType), or a "
        f"pyarrow Schema, got {describe_value(declared)}"
    )


def _class_of(module: str, name: str) -> Any:
    # no value is of a class that has not been imported
    return getattr(sys.modules.get(module), name, ())
