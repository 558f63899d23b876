"""Chooses how the tables of a store are read and written: by delta-rs in this process, or by Spark."""

from typing import TYPE_CHECKING, Any

from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.is_local import is_local, table_path
from penstock.engine.store.manifest import MANIFEST
from penstock.engine.store.store_tables import Rows, StoreTables

if TYPE_CHECKING:
    from penstock.engine.store.spark_tables import SparkTables


def tables_of(store: str) -> "DeltaRsTables | SparkTables":
    """Through delta-rs if the store is local, else through a Spark session, started if there is none."""
    if is_local(store):
        return DeltaRsTables(store)
    table_path(store, MANIFEST)  # says what is wrong with it before a session starts
    from penstock.engine.spark.session import get_session
    from penstock.engine.store.spark_tables import SparkTables

    return SparkTables(get_session(app_name="penstock"), store)


def log_reader(delta: StoreTables[Rows]) -> StoreTables[Any]:
    """The reader of a store's logs: delta-rs if it is local, because a Spark job takes longer."""
    return DeltaRsTables(delta.store) if is_local(delta.store) else delta
