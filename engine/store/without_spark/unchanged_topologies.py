"""Which topologies the newest version of a store already holds, unchanged; without Spark."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from engine.store.find_damage import find_damage
from engine.store.newest_version import has_lost_newest
from engine.store.plan_versions import PlanVersion, complete
from engine.store.store_errors import store_errors
from engine.store.unchanged_topologies import REFUSAL, TOPOLOGY_KEY, comparable
from engine.store.without_spark.delta_tables import read_rows
from engine.store.without_spark.plan_versions import all_writes, list_versions


def unchanged_topologies(
    store: str, topologies: pa.Table, *, planner_version: str, options: Mapping[str, str]
) -> pa.Table:
    """(topology_id, name): those of TOPOLOGIES that the newest version holds with the same fingerprint.

    None at all if that version was written by another planner or with other options, or is damaged. Raises
    StoreError where there is no store.
    """
    newest = _sound(store, comparable(list_versions(store), planner_version, options))
    same = topologies.slice(0, 0) if newest is None else _same(store, newest, topologies)
    return same.select(["topology_id", "name"])


def nothing_changed(
    store: str, tables: Mapping[str, pa.Table], *, planner_version: str, options: Mapping[str, str]
) -> int | None:
    """The number of the newest version if `tables` came from the same topologies and refusals, else None.

    None as well if that version is damaged, or the manifest has lost it. Raises StoreError where the manifest
    cannot be read.
    """
    known = all_writes(store)
    if has_lost_newest(store, known):
        return None
    newest = comparable(complete(known), planner_version, options)
    if newest is None or set(newest.tables) != set(tables) or _sound(store, newest) is None:
        return None
    given = tables["topologies"]
    if len(given) != newest.topologies or len(_same(store, newest, given)) != newest.topologies:
        return None
    if "rejected" in tables:
        stored = read_rows(store, "rejected", newest.write_id, REFUSAL)
        if _counted(tables["rejected"], REFUSAL) != _counted(stored, REFUSAL):
            return None
    return newest.version


def _sound(store: str, version: PlanVersion | None) -> PlanVersion | None:
    """The version if all its tables are known to be as they were written."""
    if version is None or version.files is None:
        return None
    with store_errors(store, "reading"):
        return None if find_damage(store, version, version.tables) else version


def _same(store: str, newest: PlanVersion, topologies: pa.Table) -> pa.Table:
    stored = _counted(read_rows(store, "topologies", newest.write_id, TOPOLOGY_KEY), TOPOLOGY_KEY)
    rows = zip(*(topologies[name].to_pylist() for name in TOPOLOGY_KEY), strict=True)
    return topologies.filter(pa.array([row in stored for row in rows], pa.bool_()))


def _counted(table: pa.Table, columns: Sequence[str]) -> Counter[tuple[object, ...]]:
    """Rows to how many of them there are."""
    return Counter(zip(*(table[name].to_pylist() for name in columns), strict=True))
