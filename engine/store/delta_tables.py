"""The Delta tables of a store: where they are, making them, appending to them."""

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from plans.errors import StoreError
from plans.joins.spark_schemas import conform, spark_schema

WRITE_ID = "write_id"
_COMMENT = "the write that made the row; see plan_versions"
# A write_id is retried for as long as its run lives; Delta need not remember it longer.
TABLE_PROPERTIES = {"delta.setTransactionRetentionDuration": "interval 7 days"}
TRANSACTION_VERSION = 1
"""Of `application_id`: a write has one transaction a table."""
ATTEMPTS = 30
_NOT_IN_PATHS = re.compile(r"[\x00-\x1f\x7f\[\]\\]|%[0-9A-Fa-f]{2}|[\ud800-\udfff]")

Result = TypeVar("Result")


def table_path(store: str, table: str) -> str:
    """Where a table of the store is; `store` may be a path or a URI.

    Raises StoreError for a path that Delta cannot have: delta-rs would fail or take another folder.
    """
    if "://" not in store and (found := _NOT_IN_PATHS.search(str(Path(store).absolute()))):
        raise StoreError(
            f"{store!r}: found {found.group()!r} in the store's path, which Delta tables cannot have",
            "allowed: UTF-8 without control codes, [ ] \\ and % with two hex digits; choose another folder",
        )
    # Spark takes a relative location for a table's name where it makes a table.
    root = store.rstrip("/") if "://" in store else str(Path(store).absolute())
    return f"{root}/{table}"


def application_id(write_id: str) -> str:
    """Under which Delta remembers a table's part of a write."""
    return f"penstock-{write_id}"


def stored_schema(table: str) -> StructType:
    """The declared columns and `write_id`, as Delta takes them: NOT NULL only at the top."""
    columns = [
        StructField(f.name, _nullable_inside(f.dataType), f.nullable, f.metadata)
        for f in spark_schema(table).fields
    ]
    return StructType([*columns, StructField(WRITE_ID, StringType(), False, {"comment": _COMMENT})])


def _nullable_inside(data_type: DataType) -> DataType:
    match data_type:
        case ArrayType():
            return ArrayType(_nullable_inside(data_type.elementType))
        case MapType():
            return MapType(_nullable_inside(data_type.keyType), _nullable_inside(data_type.valueType))
        case StructType():
            return StructType([StructField(f.name, _nullable_inside(f.dataType)) for f in data_type.fields])
        case _:
            return data_type


def create_table(
    spark: SparkSession, path: str, schema: StructType, partition: str | None, properties: dict[str, str]
) -> None:
    """The empty Delta table at `path`, unless it is there; another writer may be making it."""
    if DeltaTable.isDeltaTable(spark, path):
        return
    builder = DeltaTable.createIfNotExists(spark).location(path).addColumns(schema)
    if partition is not None:
        builder = builder.partitionedBy(partition)
    for key, value in properties.items():
        builder = builder.property(key, value)
    # While another writer makes the table, Delta may find its folder and not yet the table in it.
    retry_conflicts(builder.execute, f"creating {path}", "DELTA_TABLE_NOT_FOUND")


def append_rows(
    spark: SparkSession, store: str, table: str, df: DataFrame, write_id: str, files: int | None
) -> None:
    """Append `df`, which must have the declared schema of `table`, under `write_id` in one transaction.

    Appending the same write_id again does nothing (txnAppId, txnVersion). `files`: at most so many.
    Raises SchemaError where the columns are not those declared.
    """
    path = table_path(store, table)
    rows = conform(df, table)
    create_table(spark, path, stored_schema(table), WRITE_ID, TABLE_PROPERTIES)
    tagged = rows.select("*", F.lit(write_id).alias(WRITE_ID, metadata={"comment": _COMMENT}))
    few = tagged if files is None else tagged.coalesce(files)
    writer = (
        few.write.format("delta")
        .mode("append")
        .option("txnAppId", application_id(write_id))
        .option("txnVersion", TRANSACTION_VERSION)
    )
    retry_conflicts(lambda: writer.save(path), f"writing {path}")


def delete_rows(spark: SparkSession, store: str, table: str, write_ids: list[str]) -> None:
    """Delete what these writes left in `table`; whole partitions, so no file is rewritten."""
    path = table_path(store, table)
    if write_ids and DeltaTable.isDeltaTable(spark, path):
        target = DeltaTable.forPath(spark, path)
        retry_conflicts(lambda: target.delete(F.col(WRITE_ID).isin(*write_ids)), f"deleting from {path}")


def retry_conflicts(action: Callable[[], Result], doing: str, *also: str) -> Result:
    """`action`, again while a concurrent transaction wins; StoreError after ATTEMPTS.

    `also`: error classes that mean as much here.
    """
    for attempt in range(ATTEMPTS):
        try:
            return action()
        except (PySparkException, Py4JJavaError) as error:
            if not is_conflict(error) and not any(name in str(error) for name in also):
                raise
            time.sleep(random.uniform(0.02, 0.1) * min(attempt + 1, 10))
    raise always_too_late(doing)


def always_too_late(doing: str) -> StoreError:
    """Every one of ATTEMPTS met a transaction that was committed first."""
    return StoreError(
        f"{doing}: {ATTEMPTS} times another writer was quicker",
        "try again when fewer runs write to this store",
    )


_CONFLICTS = (
    "ConcurrentModificationException",
    "ConcurrentAppendException",
    "ConcurrentWriteException",
    "ConcurrentTransactionException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "MetadataChangedException",
    "ProtocolChangedException",
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
)


def is_conflict(error: Exception) -> bool:
    """Whether Delta says that a concurrent transaction was committed first."""
    text = f"{type(error).__name__} {error}"
    return any(name in text for name in _CONFLICTS)
