"""Which topologies the newest version of a store already holds, unchanged."""

from collections.abc import Mapping

from penstock.engine.store.find_damage import find_damage
from penstock.engine.store.manifest import PlanVersion
from penstock.engine.store.plan_versions import complete, read_listed, version_of
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.store_tables import ManifestRead, Rows, StoreTables
from penstock.engine.store.version_notes import has_lost_newest, noted_numbers, require_whole
from penstock.engine.store.version_number import VersionNumber

_REFUSAL = ("name", "error_stage", "error", "message")
"""Columns of `rejected` by which a refusal is the same."""
_TOPOLOGY_KEY = ("topology_id", "name", "fingerprint")
"""Columns of `topologies` by which a topology is unchanged."""


def unchanged_topologies(
    delta: StoreTables[Rows], topologies: Rows, *, planner_version: str, options: Mapping[str, str]
) -> Rows | None:
    """Those of `topologies` that the newest version holds with the same fingerprint.

    None if that version was written by another planner or with other options, or is damaged. Raises
    StoreError where there is no store.
    """
    noted = noted_numbers(delta.store)
    seen = read_listed(delta)
    require_whole(delta.store, noted, seen.listed)
    newest = _sound(delta, _comparable(delta, seen, planner_version, options))
    return None if newest is None else _same(delta, newest, topologies)


def nothing_changed(
    delta: StoreTables[Rows], tables: Mapping[str, Rows], *, planner_version: str, options: Mapping[str, str]
) -> VersionNumber | None:
    """The number of the newest version if `tables` came from the same topologies and refusals, else None.

    None as well if that version is damaged, or the manifest has lost it. Raises StoreError where the manifest
    cannot be read.
    """
    noted = noted_numbers(delta.store)
    seen = read_listed(delta)
    if has_lost_newest(noted, seen.listed):
        return None
    newest = _comparable(delta, seen, planner_version, options)
    if newest is None or set(newest.tables) != set(tables) or _sound(delta, newest) is None:
        return None
    given = tables["topologies"]
    if delta.count(given) != newest.topologies:
        return None
    if delta.count(_same(delta, newest, given)) != newest.topologies:
        return None
    if "rejected" in tables:
        refused = delta.read("rejected", newest.write_id, _REFUSAL)
        if not delta.same(tables["rejected"], refused, _REFUSAL):
            return None
    return None if newest.version is None else VersionNumber(newest.version, unchanged=True)


def _comparable(
    delta: StoreTables[Rows], seen: ManifestRead, planner_version: str, options: Mapping[str, str]
) -> PlanVersion | None:
    """The newest version, if the same planner with the same options wrote it."""
    versions = complete(seen)
    if not versions:
        return None
    newest = version_of(delta, seen, versions[-1])
    same = newest.planner_version == planner_version and dict(newest.options) == dict(options)
    return newest if same else None


def _sound(delta: StoreTables[Rows], version: PlanVersion | None) -> PlanVersion | None:
    """The version if all its tables are known to be as they were written."""
    if version is None or version.files is None:
        return None
    with store_errors(delta.store, "reading"):
        return None if find_damage(delta, version, version.tables) else version


def _same(delta: StoreTables[Rows], newest: PlanVersion, topologies: Rows) -> Rows:
    stored = delta.read("topologies", newest.write_id, _TOPOLOGY_KEY)
    return delta.among(topologies, stored, _TOPOLOGY_KEY)
