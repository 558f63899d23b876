"""Which topologies the newest version of a store already holds, unchanged."""

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from engine.store.find_damage_on_spark import find_damage
from engine.store.newest_version import has_lost_newest
from engine.store.plan_versions import PlanVersion, all_writes, complete, list_versions
from engine.store.read_plan import rows_of
from engine.store.store_errors import store_errors

REFUSAL = ("name", "error_stage", "error", "message")
"""Columns of `rejected` by which a refusal is the same."""
TOPOLOGY_KEY = ("topology_id", "name", "fingerprint")
"""Columns of `topologies` by which a topology is unchanged."""


def unchanged_topologies(
    spark: SparkSession,
    store: str,
    topologies: DataFrame,
    *,
    planner_version: str,
    options: Mapping[str, str],
) -> DataFrame:
    """(topology_id, name): those of TOPOLOGIES that the newest version holds with the same fingerprint.

    None at all if that version was written by another planner or with other options, or is damaged. Raises
    StoreError where there is no store.
    """
    newest = _sound(spark, store, comparable(list_versions(spark, store), planner_version, options))
    if newest is None:
        return topologies.select("topology_id", "name").where(F.lit(False))
    return _same(topologies, rows_of(spark, store, newest, "topologies"))


def nothing_changed(
    spark: SparkSession,
    store: str,
    tables: Mapping[str, DataFrame],
    *,
    planner_version: str,
    options: Mapping[str, str],
) -> int | None:
    """The number of the newest version if `tables` came from the same topologies and refusals, else None.

    None as well if that version is damaged, or the manifest has lost it. Raises StoreError where the manifest
    cannot be read.
    """
    known = all_writes(spark, store)
    if has_lost_newest(store, known):
        return None
    newest = comparable(complete(known), planner_version, options)
    if newest is None or set(newest.tables) != set(tables) or _sound(spark, store, newest) is None:
        return None
    given, topologies = tables["topologies"], rows_of(spark, store, newest, "topologies")
    if given.count() != newest.topologies or _same(given, topologies).count() != newest.topologies:
        return None
    if "rejected" in tables:
        refused = rows_of(spark, store, newest, "rejected")
        now, before = tables["rejected"].select(*REFUSAL), refused.select(*REFUSAL)
        if not now.exceptAll(before).isEmpty() or not before.exceptAll(now).isEmpty():
            return None
    return newest.version


def comparable(
    versions: Sequence[PlanVersion], planner_version: str, options: Mapping[str, str]
) -> PlanVersion | None:
    """The newest version, if the same planner with the same options wrote it."""
    if not versions:
        return None
    newest = versions[-1]
    same = newest.planner_version == planner_version and dict(newest.options) == dict(options)
    return newest if same else None


def _sound(spark: SparkSession, store: str, version: PlanVersion | None) -> PlanVersion | None:
    """The version if all its tables are known to be as they were written."""
    if version is None or version.files is None:
        return None
    with store_errors(store, "reading"):
        return None if find_damage(spark, store, version, version.tables) else version


def _same(topologies: DataFrame, stored: DataFrame) -> DataFrame:
    key = list(TOPOLOGY_KEY)
    return topologies.select(*key).join(stored.select(*key), key, "left_semi").select("topology_id", "name")
