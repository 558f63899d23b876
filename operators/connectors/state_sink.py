"""The state of a stream as one more sink of each batch, which the commit of the batch makes visible.

A store of state is a folder:

| path | content |
|---|---|
| `versions/<n>.json` | the manifest of version n: its segments and watermarks |
| `segments/<n>-<digest>.arrow` | rows that version n has added |
| `key` | authenticates segments with pickles; only its user can read it |

Source: org.apache.flink.runtime.checkpoint.CompletedCheckpointStore.
"""

from __future__ import annotations

import posixpath
import re
import secrets
import time
from contextlib import suppress
from typing import Any

from pyarrow import fs

from penstock.operators.connectors.sink import Committable, LostCommitError, Recovery, Sink
from penstock.operators.files.durable_files import (
    make_folder,
    read_once_written,
    remove_once_written,
    write_once,
)
from penstock.operators.files.filesystem import filesystem_of
from penstock.operators.state.state_segments import SEGMENTS

FORMAT = 1
"""Raised whenever an older Penstock would misread a manifest or a segment."""

VERSIONS, KEY = "versions", "key"
_SEGMENT = re.compile(r"\.?(\d{12})-")
_SECONDS_BEFORE_REMOVAL = 3600
"""Unfinished manifests, of drivers that were killed, are removed after this time."""

_MANIFEST = re.compile(r"(\d{12})\.json")
MANIFEST = "manifest"
_OF_MANIFEST = {"version", "batch_id", "query", "run_id", "operators", "watermarks"}


class StateSink(Sink):
    """Makes version `version` of a store of state; the committable of a batch is its manifest."""

    def __init__(self, folder: str, version: int) -> None:
        super().__init__()
        self.folder, self.version = folder, version

    def begin(self) -> None:
        """Create the folders of the store."""
        make_store(self.folder)

    def commit(self, committables: list[Committable]) -> None:
        """Write the manifest."""
        commit_state(self.folder, committables)

    def recovery(self) -> Recovery:
        """Return a recovery by writing the manifest."""
        return Recovery("state", self.folder)


def committable_of(manifest: dict[str, Any]) -> Committable:
    """Return the committable of a manifest."""
    return Committable("", manifest_name(manifest["version"]), 0, 0, {MANIFEST: manifest})


def commit_state(folder: str, committables: list[Committable]) -> None:
    """Write the manifest of a batch, unless it exists. Raises LostCommitError if another batch is there."""
    system, base = filesystem_of(folder)
    for committable in committables:
        manifest = committable.details[MANIFEST]
        path = posixpath.join(base, VERSIONS, manifest_name(manifest["version"]))
        if write_once(system, path, manifest):
            continue
        written = read_once_written(system, path)
        if written is None or written["run_id"] != manifest["run_id"]:
            raise LostCommitError(f"{path} is the state of another run of the stream")


def manifest_name(version: int) -> str:
    """Return the file name of a manifest."""
    return f"{version:012d}.json"


def make_store(folder: str) -> None:
    """Create the folders of a store, and its key. Raises OSError if this fails."""
    system, base = filesystem_of(folder)
    path = posixpath.join(base, KEY)
    if system.get_file_info(path).type == fs.FileType.NotFound:  # it is written last
        for name in (VERSIONS, SEGMENTS):
            make_folder(system, posixpath.join(base, name))
        write_once(system, path, secrets.token_hex(32))


def store_key(folder: str) -> bytes:
    """Return the key of a store.

    Raises ValueError if it is damaged, NotOwnError if others may have written it.
    """
    system, base = filesystem_of(folder)
    path = posixpath.join(base, KEY)
    try:
        return bytes.fromhex(read_once_written(system, path))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def versions_in(folder: str) -> list[int]:
    """Return the versions of a store, oldest first; none if it does not exist."""
    system, base = filesystem_of(folder)
    infos = system.get_file_info(fs.FileSelector(posixpath.join(base, VERSIONS), allow_not_found=True))
    names = [_MANIFEST.fullmatch(info.base_name) for info in infos]
    return sorted(int(name[1]) for name in names if name is not None)


def read_manifest(folder: str, version: int) -> dict[str, Any]:
    """Return a manifest. Raises FileNotFoundError if the version is missing, ValueError if it is damaged."""
    system, base = filesystem_of(folder)
    path = posixpath.join(base, VERSIONS, manifest_name(version))
    try:
        manifest = read_once_written(system, path)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if manifest is None:
        raise FileNotFoundError(2, "no such version of the state", path)
    if not isinstance(manifest, dict) or manifest.get("version") != version:
        raise ValueError(f"{path} is not the manifest of version {version}")
    missing = _OF_MANIFEST - manifest.keys()
    if manifest.get("format") == FORMAT and missing:
        raise ValueError(f"{path} is damaged: it lacks {', '.join(sorted(missing))}")
    return manifest


def segments_of(manifest: dict[str, Any]) -> set[str]:
    """Return the names of the segments that a manifest needs."""
    return {
        segment["file"]
        for operator in manifest["operators"]
        for part in operator["parts"]
        for table in part["tables"]
        for segment in table["segments"]
    }


def remove_old_versions(folder: str, version: int, keep: int) -> None:
    """Remove all but the last `keep` versions up to `version`, and segments that none of them needs.

    Segments of later versions stay: their batch may be running. Unfinished files of killed processes go, too.
    """
    system, base = filesystem_of(folder)
    versions = [number for number in versions_in(folder) if number <= version]
    for number in versions[:-keep]:
        with suppress(FileNotFoundError):
            remove_once_written(system, posixpath.join(base, VERSIONS, manifest_name(number)))
    needed = set().union(*(segments_of(read_manifest(folder, number)) for number in versions[-keep:]))
    infos = system.get_file_info(fs.FileSelector(posixpath.join(base, SEGMENTS), allow_not_found=True))
    for info in infos:
        made_for = _SEGMENT.match(info.base_name)
        if made_for is not None and info.base_name not in needed and int(made_for[1]) <= version:
            with suppress(FileNotFoundError):
                system.delete_file(info.path)
    old = time.time() - _SECONDS_BEFORE_REMOVAL
    for info in system.get_file_info(fs.FileSelector(posixpath.join(base, VERSIONS))):
        if info.base_name.endswith(".unfinished") and info.mtime is not None and info.mtime.timestamp() < old:
            with suppress(FileNotFoundError):
                system.delete_file(info.path)
