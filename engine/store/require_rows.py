"""Rows that a table of a store takes."""

import pyarrow as pa

from penstock.plans.errors import SchemaError
from penstock.plans.tables import TABLES, require_schema
from penstock.plans.tables.column_types import type_name


def require_rows(rows: pa.Table, table: str) -> None:
    """SchemaError unless `rows` have the declared columns of `table`, and values where they must."""
    require_schema({field.name: type_name(field.type) for field in rows.schema}, table)
    without = [f.name for f in TABLES[table] if not f.nullable and rows[f.name].null_count]
    if without:
        raise SchemaError(f"table {table}: found null in {', '.join(without)}, which are declared NOT NULL")
