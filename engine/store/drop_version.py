"""Drop a version on purpose."""

from pyspark.sql import SparkSession

from engine.store.delta_tables import delete_rows
from engine.store.plan_versions import find_version, mark_dropped


def drop_version(spark: SparkSession, store: str, version: int) -> None:
    """No reader sees the version any more, then its rows are deleted; its number is not used again.

    Readers that have begun go on reading: the files stay until Delta's VACUUM. Dropping that was interrupted
    is finished by `remove_unfinished`. Raises StoreError where there is no such version.
    """
    found = find_version(spark, store, version)
    mark_dropped(spark, store, found)
    for table in found.tables:
        delete_rows(spark, store, table, [found.write_id])
