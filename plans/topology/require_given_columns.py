"""The columns that given tables of topologies and transformations may have, and must."""

import re
from collections.abc import Mapping

from penstock.plans.errors import SchemaError
from penstock.plans.printable import first_and_count
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import type_name

REQUIRED = {
    "topologies": ("name",),
    "transformations": ("topology_id", "id", "kind", "inputs"),
}
"""Table to the columns that cannot be left out; others get their defaults."""


_INTEGERS = re.compile(r"\b(?:tinyint|smallint|int|bigint|u?int(?:8|16|32|64))\b")


def is_other_integer(kind: str, declared: str) -> bool:
    """Whether two types, by name, differ in nothing but the width of integers, in lists and maps too."""
    return kind != declared and _INTEGERS.sub("int", kind) == _INTEGERS.sub("int", declared)


def integers_too_large(table: str, column: str, declared: str) -> SchemaError:
    """A value that the declared integers do not hold."""
    return SchemaError(f"table {table}, column {column}: found integers that do not fit {declared}")


def require_given_columns(types: Mapping[str, str], table: str) -> None:
    """Raise SchemaError if `types` (column to its type's name, see type_name) cannot be given as `table`.

    Integers may be of any width. The message names every column that is missing, of another type, or none
    of the table's.
    """
    allowed = {column.name: type_name(column.type) for column in TABLES[table]}
    problems = [
        f"{name}: no such column, allowed {allowed[name]}" for name in REQUIRED[table] if name not in types
    ]
    problems += [
        f"{name}: found {kind}, allowed {allowed[name]}"
        for name, kind in types.items()
        if name in allowed and kind != allowed[name] and not is_other_integer(kind, allowed[name])
    ]
    problems += [f"{name}: not a column of {table}" for name in types if name not in allowed]
    if problems:
        listed = first_and_count(problems, "; ")
        raise SchemaError(f"table {table} does not have its declared schema: {listed}")
