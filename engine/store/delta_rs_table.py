"""Delta tables by delta-rs: opened, made, read."""

import json
from functools import cache
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from engine.store.stored_tables import delta_schema, partition_of, properties_of, stored_columns

STRICT = CommitProperties(max_commit_retries=0)
"""Commit as the version after the one that was read, or raise CommitFailedError."""


def open_table(path: str) -> DeltaTable | None:
    """The newest state of the table at `path`; None if there is none."""
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def create_table(path: str, table: str) -> DeltaTable:
    """The table at `path`, made empty unless it is there; another writer may be making it."""
    made = open_table(path)
    if made is not None:
        return made
    try:
        return DeltaTable.create(
            path,
            delta_rs_schema(table),
            mode="error",
            partition_by=partition_of(table),
            configuration=properties_of(table),
            commit_properties=STRICT,
        )
    except DeltaError:
        made = open_table(path)
        if made is None:
            raise
        return made


def to_table(stream: Any) -> pa.Table:
    """What delta-rs gives, as a table; pa.table would do, but it imports pandas."""
    return pa.RecordBatchReader.from_stream(stream).read_all()


@cache
def delta_rs_schema(table: str) -> Schema:
    """The schema that a table is made with."""
    return Schema.from_json(json.dumps(delta_schema(stored_columns(table))))
