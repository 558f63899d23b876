"""Making the manifest of a local store again, from the notes beside it."""

import os

from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.discard import alone
from penstock.engine.store.find_damage import find_damage
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.plan_versions import all_writes, is_store, read_listed, version_of
from penstock.engine.store.store_tables import retry_conflicts
from penstock.engine.store.version_notes import (
    MANIFEST,
    PlanVersion,
    drop_staged,
    lost_versions,
    manifest_row,
    note_version,
    noted_numbers,
    noted_version,
    noted_versions,
    renew_notes,
    staged_versions,
)
from penstock.plans.errors import StoreError

_ASIDE = "_damaged"
"""Folders of the manifest's that Delta leaves alone, as their names start with `_`."""


def repair_manifest(store: str) -> list[str]:
    """Bring the manifest back to what was published; what was done, one sentence for people each.

    A manifest that cannot be read is set aside and made again; rows that it has lost are put back. Stopped
    at any point, it can be called again. Raises StoreError if it cannot be read and nothing is noted, and
    MachineError where the machine refuses.
    """
    if not is_local(store):
        return []
    done = [*make_again_if_unreadable(store)]
    noted = noted_numbers(store)
    if not noted:
        return done
    delta = DeltaRsTables(store)
    known = all_writes(delta)
    lost = [v for v in noted_versions(store) if v.version in lost_versions(noted, known)]
    if lost:
        with alone(local_folder(store)):
            _insert(delta, lost)
        done.append(f"{store}: table {MANIFEST} has {_named(lost)} again")
        known = all_writes(delta)
    renew_notes(store, known)
    return done


def mend_manifest(store: str) -> list[str]:
    """repair_manifest where something is wrong at a look that takes no longer for many versions.

    That is: the manifest lacks versions that are noted, or says something else of the newest. Versions that
    only the manifest has, as their writers were killed while they published, are noted and no reason to look
    at all others.
    """
    if not is_local(store):
        return []
    noted = noted_numbers(store)
    delta = DeltaRsTables(store)
    try:
        if not noted and not is_store(delta):
            return []
        seen = read_listed(delta)
        numbered = {listed.version: listed for listed in seen.listed if listed.version is not None}
        unknown = [version_of(delta, seen, numbered[number]) for number in sorted(numbered.keys() - noted)]
        newest = max(numbered.values(), default=None)
        is_whole = noted <= numbered.keys() and (
            newest is None
            or newest.version not in noted
            or noted_version(store, version_of(delta, seen, newest).version) is not None
        )
    except StoreError:
        is_whole = False
    if not is_whole:
        return repair_manifest(store)
    renew_notes(store, unknown)
    return []


def make_again_if_unreadable(store: str) -> list[str]:
    """The first half of repair_manifest: nothing but a manifest that cannot be read is touched."""
    if not is_local(store) or not noted_versions(store):
        return []
    with alone(local_folder(store)):
        delta = DeltaRsTables(store)
        try:
            all_writes(delta)
        except StoreError:
            _set_aside(local_folder(store, MANIFEST))
        else:
            return []
        delta.create(MANIFEST)
        _settle_staged(delta)
        restored = noted_versions(store)
        _insert(delta, restored)
    gone = sorted(noted_numbers(store) - {v.version for v in restored})
    unknown = f"; nothing is known of {', '.join(map(str, gone))}" if gone else ""
    return [f"{store}: table {MANIFEST} was damaged, and is made again with {_named(restored)}{unknown}"]


def _set_aside(folder: str) -> None:
    """Move what Delta knows of the manifest into a folder of its own; the notes stay."""
    free = next(n for n in range(1, 10_000) if not os.path.lexists(os.path.join(folder, f"{_ASIDE}-{n}")))
    aside = os.path.join(folder, f"{_ASIDE}-{free}")
    os.mkdir(aside)
    for name in sorted(os.listdir(folder)):  # the log first: `_delta_log` sorts before names of files
        if name == "_delta_log" or not name.startswith("_"):
            os.rename(os.path.join(folder, name), os.path.join(aside, name))


def _settle_staged(delta: DeltaRsTables) -> None:
    """Versions of which only the manifest knew whether they were published: if all of it is there, they are.

    Their writers were killed while they published, or their notes would be there.
    """
    taken: set[int | None] = {*noted_numbers(delta.store)}
    for staged in staged_versions(delta.store):
        if staged.version not in taken and not find_damage(delta, staged, staged.tables):
            note_version(delta.store, staged)
            taken.add(staged.version)
        else:
            drop_staged(delta.store, staged.write_id)


def _insert(delta: DeltaRsTables, versions: list[PlanVersion]) -> None:
    for version in versions:

        def insert(version: PlanVersion = version) -> None:
            seen = delta.read_manifest()
            if seen is not None and version.version not in {row.version for row in seen.listed}:
                delta.insert_version(manifest_row(version), seen)

        retry_conflicts(delta, insert, f"restoring version {version.version} of {delta.store}")


def _named(versions: list[PlanVersion]) -> str:
    numbers = ", ".join(str(v.version) for v in versions)
    return f"version{'s' if len(versions) > 1 else ''} {numbers}"
