"""The number of the newest version, noted beside the manifest of a local store once it is published.

A manifest whose log has lost its last commits looks like one that never had them; the note tells them apart.
"""

import os
from collections.abc import Iterable
from contextlib import suppress

from engine.machine.make_durable import sync_folder
from engine.store.is_local import is_local, local_folder
from engine.store.manifest import MANIFEST, PlanVersion
from plans.errors import StoreError

_NOTES = "_newest_version"
"""A folder that Delta leaves alone, as its name starts with `_`; the names in it are numbers."""


def newest_version(store: str, versions: Iterable[PlanVersion] = ()) -> int:
    """The highest number ever published, by the note and by these rows of the manifest; 0 if none."""
    return max(_noted(store), *(v.version or 0 for v in versions), 0)


def note_newest_version(store: str, number: int) -> None:
    """Note in a local store that `number` is published, and forget lower numbers."""
    if not is_local(store):
        return
    folder = _folder(store)
    os.makedirs(folder, exist_ok=True)
    os.close(os.open(os.path.join(folder, f"{number:020}"), os.O_CREAT | os.O_WRONLY, 0o666))
    sync_folder(folder)
    sync_folder(os.path.dirname(folder))
    for name in os.listdir(folder):
        if name.isdecimal() and int(name) < number:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))


def has_lost_newest(store: str, versions: Iterable[PlanVersion]) -> bool:
    """Whether these, all rows of the manifest, are without a version that was published."""
    return max((v.version or 0 for v in versions), default=0) < _noted(store)


def require_whole(store: str, versions: list[PlanVersion]) -> list[PlanVersion]:
    """All rows of the manifest as they are; StoreError if it has lost the newest."""
    if has_lost_newest(store, versions):
        raise StoreError(
            f"{store} is damaged: version {_noted(store)} was published, but table {MANIFEST} has lost it",
            "penstock plan of the same input writes a sound version; --version shows older ones",
        )
    return versions


def _noted(store: str) -> int:
    if not is_local(store):
        return 0
    try:
        names = os.listdir(_folder(store))
    except (FileNotFoundError, NotADirectoryError):
        return 0
    return max((int(name) for name in names if name.isdecimal()), default=0)


def _folder(store: str) -> str:
    return os.path.join(local_folder(store, MANIFEST), _NOTES)
