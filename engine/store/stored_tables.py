"""The tables of a store as Delta keeps them: columns, partitioning and table properties.

Delta and Spark write a schema down as the same JSON, so both adapters make their schemas from it.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pyarrow as pa

from penstock.engine.store.manifest import MANIFEST, PLAN_VERSIONS
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import BOOL, COMMENT, DOUBLE, INT, LONG, STR, TIMESTAMP

WRITE_ID = "write_id"
"""The column by which tables of plans are partitioned: which write made a row."""

WRITE_ID_COMMENT = "the write that made the row; see plan_versions"

_SIMPLE = {
    BOOL: "boolean",
    DOUBLE: "double",
    INT: "integer",
    LONG: "long",
    STR: "string",
    TIMESTAMP: "timestamp",
}


@cache
def stored_columns(table: str) -> pa.Schema:
    """The declared columns of a table, and `write_id` of those of a plan; NOT NULL at the top level only."""
    if table == MANIFEST:
        return PLAN_VERSIONS
    return TABLES[table].append(pa.field(WRITE_ID, STR, False, {COMMENT: WRITE_ID_COMMENT.encode()}))


def delta_schema(columns: pa.Schema) -> dict[str, Any]:
    """Columns as Delta's and Spark's JSON. Source: Delta's protocol, "Schema Serialization Format"."""
    return {
        "type": "struct",
        "fields": [
            {
                "name": field.name,
                "type": _delta_type(field.type),
                "nullable": field.nullable,
                "metadata": {"comment": field.metadata[COMMENT].decode()} if field.metadata else {},
            }
            for field in columns
        ],
    }


def _delta_type(kind: pa.DataType) -> str | dict[str, Any]:
    if pa.types.is_map(kind):
        return {
            "type": "map",
            "keyType": _delta_type(kind.key_type),
            "valueType": _delta_type(kind.item_type),
            "valueContainsNull": True,
        }
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _delta_type(kind.value_type), "containsNull": True}
    if pa.types.is_struct(kind):
        return delta_schema(pa.schema(list(kind)))
    return _SIMPLE[kind]


def partition_of(table: str) -> str | None:
    """The column by which a table is partitioned."""
    return None if table == MANIFEST else WRITE_ID


def properties_of(table: str) -> dict[str, str]:
    """The Delta properties that a table is made with."""
    if table == MANIFEST:
        # Only with Serializable does Delta let two inserts of the same number collide.
        return {"delta.isolationLevel": "Serializable"}
    # A write_id is retried for as long as its run lives; Delta need not remember it longer.
    return {"delta.setTransactionRetentionDuration": "interval 7 days"}


def in_files(table: str, names: Sequence[str] | None = None) -> pa.Schema:
    """Columns as Parquet files have them: without comments, and without write_id, which is in their paths."""
    columns = PLAN_VERSIONS if table == MANIFEST else TABLES[table]
    return pa.schema([columns.field(name).remove_metadata() for name in names or columns.names])
