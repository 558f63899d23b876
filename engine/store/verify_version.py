"""Every table of a version of a store, compared with what was written."""

from engine.store import plan_versions
from engine.store.data_files import Damage
from engine.store.find_damage import find_damage
from engine.store.is_local import is_local
from engine.store.plan_versions import PlanVersion
from engine.store.store_errors import store_errors
from engine.store.without_spark.plan_versions import find_version


def verify_version(store: str, version: int | None = None) -> tuple[PlanVersion, list[Damage]]:
    """The version (default: the newest) and all damage to its tables.

    Through Spark if the store is not local. Every file of a local store is read. Raises StoreError: not a
    store, no such version, a damaged manifest.
    """
    with store_errors(store, "reading"):
        if is_local(store):
            found = find_version(store, version)
            return found, find_damage(store, found, found.tables)
        from engine.spark.session import get_session
        from engine.store import find_damage_on_spark

        spark = get_session(app_name="penstock")
        found = plan_versions.find_version(spark, store, version)
        return found, find_damage_on_spark.find_damage(spark, store, found, found.tables)
