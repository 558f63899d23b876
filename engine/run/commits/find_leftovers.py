"""Find the leftovers of runs below folders: journals, staged files, data files that no Delta table names."""

from __future__ import annotations

import os
import posixpath
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from deltalake import DeltaTable
from pyarrow import fs

from penstock.engine.run.commits.journal import (
    RUNS,
    JournalPart,
    JournalRun,
    SkippedEntry,
    names_of_runs,
    parts_in,
    runs_of,
)
from penstock.operators.connectors.commit_delta import has_write, open_delta
from penstock.operators.connectors.delta_files import FILE_NAME
from penstock.operators.files.durable_files import remove_folder
from penstock.operators.files.filesystem import filesystem_of

_STAGED = re.compile(r"\.penstock-([0-9a-f]{32})")
_LOG = "_delta_log"


@dataclass(frozen=True)
class Leftover:
    """A file or folder without a reader."""

    folder: str  #: path or URI of the folder that a sink wrote into
    path: str  #: in the folder's file system
    write_id: str
    size: int  #: bytes
    age_seconds: float  #: since the newest of its files was written


@dataclass(frozen=True)
class Leftovers:
    """Runs and leftovers below some folders."""

    runs: tuple[JournalRun, ...]  #: oldest first
    of_runs: tuple[Leftover, ...]  #: staged files of these runs
    leftovers: tuple[Leftover, ...]  #: files that belong to none of them
    passed_over: tuple[SkippedEntry, ...]  #: entries that cannot be read, or are not this user's

    def size_of(self, run: JournalRun) -> int:
        """Return the bytes that the run has staged in the searched folders."""
        ids = {sink.write_id for sink in run.sinks}
        return sum(leftover.size for leftover in self.of_runs if leftover.write_id in ids)


@dataclass(frozen=True)
class _Entry:
    """An entry of a folder; links are not followed."""

    name: str
    path: str
    is_folder: bool
    is_file: bool
    size: int
    modified: float  #: seconds since the epoch
    is_own: bool  #: it belongs to this user; True if the file system has no users


def find_leftovers(places: Iterable[str]) -> Leftovers:
    """Return all runs and leftovers in and below `places`, paths or URIs of folders.

    Hidden folders and links are not entered. Raises FileNotFoundError for a place that does not exist. All
    other problems are listed in `passed_over`.
    """
    parts: dict[str, JournalPart] = {}
    staged: dict[str, Leftover] = {}
    skipped: dict[str, SkippedEntry] = {}
    for place in places:
        for folder, entries in _folders(place, skipped):
            # in this order: a run that starts meanwhile writes its journal before it stages anything
            staged_here = _staged_in(folder, entries, skipped)
            mine, unread = parts_in(folder)
            known = {part.path for part in mine}
            staged |= {leftover.path: leftover for leftover in staged_here if leftover.path not in known}
            parts |= {part.path: part for part in mine}
            skipped |= {unread_part.path: unread_part for unread_part in unread}
    runs, homeless = runs_of(parts.values())
    skipped |= {unread_part.path: unread_part for unread_part in homeless}
    write_ids = {sink.write_id for part in parts.values() for sink in part.record.sinks}
    return Leftovers(
        tuple(runs),
        tuple(leftover for leftover in staged.values() if leftover.write_id in write_ids),
        tuple(leftover for leftover in staged.values() if leftover.write_id not in write_ids),
        tuple(skipped.values()),
    )


def delete_leftover(leftover: Leftover) -> None:
    """Delete a leftover, unless it has become part of its table. Raises OSError if it cannot be deleted."""
    system, _ = filesystem_of(leftover.folder)
    with suppress(FileNotFoundError):
        if FILE_NAME.fullmatch(posixpath.basename(leftover.path)) is None:
            remove_folder(system, leftover.path)
        elif leftover.path in {
            orphan.path for orphan in _orphans(leftover.folder, _entries(leftover.folder))
        }:
            system.delete_file(leftover.path)


def _folders(place: str, skipped: dict[str, SkippedEntry]) -> Iterator[tuple[str, list[_Entry]]]:
    """Yield the folder `place` and all folders below it, each with its entries."""
    system, base = filesystem_of(place)
    if isinstance(system, fs.LocalFileSystem):
        exists = os.path.isdir(base)
    else:
        exists = system.get_file_info(base).type == fs.FileType.Directory
    if not exists:
        raise FileNotFoundError(f"{place}: no such folder")
    prefix = place[: len(place) - len(base)] if "://" in place and place.endswith(base) else ""
    waiting = [base]
    while waiting:
        folder = waiting.pop()
        try:
            entries = _entries(prefix + folder)
        except FileNotFoundError:  # it has just been removed
            continue
        except OSError as error:
            skipped[folder] = SkippedEntry(folder, error.strerror or str(error))
            continue
        yield prefix + folder, entries
        waiting += [
            entry.path for entry in entries if entry.is_folder and not entry.name.startswith((".", _LOG))
        ]


def _entries(folder: str) -> list[_Entry]:
    system, base = filesystem_of(folder)
    if not isinstance(system, fs.LocalFileSystem):
        return [
            _Entry(
                info.base_name,
                info.path,
                info.type == fs.FileType.Directory,
                info.type == fs.FileType.File,
                info.size or 0,
                info.mtime.timestamp() if info.mtime is not None else 0.0,
                True,
            )
            for info in system.get_file_info(fs.FileSelector(base, allow_not_found=True))
        ]
    below = []
    with os.scandir(base) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                below.append(
                    _Entry(
                        entry.name,
                        entry.path,
                        entry.is_dir(follow_symlinks=False),
                        entry.is_file(follow_symlinks=False),
                        status.st_size,
                        status.st_mtime,
                        status.st_uid == os.geteuid(),
                    )
                )
    return below


def _staged_in(folder: str, entries: list[_Entry], skipped: dict[str, SkippedEntry]) -> list[Leftover]:
    """Return the files that runs have staged in a folder, and their parts of journals."""
    leftovers = []
    for entry in entries:
        if not entry.is_folder or not entry.is_own:
            continue
        named = _STAGED.fullmatch(entry.name)
        inside = [entry] if named else []
        if entry.name == RUNS or entry.name in names_of_runs():
            with suppress(OSError):
                inside = [part for part in _entries(entry.path) if part.is_folder and part.is_own]
        for part in inside:
            with suppress(OSError):  # it has just been removed, or is skipped as a journal
                leftovers.append(_folder_left(folder, part, named[1] if named else part.name))
    if any(FILE_NAME.fullmatch(entry.name) for entry in entries):
        try:
            leftovers += _orphans(folder, entries)
        except BaseException as error:  # a panic of deltalake is not an Exception
            if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
                raise
            skipped[folder] = SkippedEntry(folder, f"its Delta log cannot be read: {_first_line(error)}")
    return leftovers


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]


def _folder_left(folder: str, entry: _Entry, write_id: str) -> Leftover:
    inside, waiting = [entry], [entry.path]
    prefix = folder[: len(folder) - len(filesystem_of(folder)[1])] if "://" in folder else ""
    while waiting:
        below = _entries(prefix + waiting.pop())
        inside += below
        waiting += [part.path for part in below if part.is_folder]
    size = sum(part.size for part in inside if part.is_file)
    return Leftover(folder, entry.path, write_id, size, _age(inside))


def _orphans(folder: str, entries: list[_Entry]) -> list[Leftover]:
    """Return data files of Penstock's Delta sinks in `folder` that no transaction of the table has named."""
    system, base = filesystem_of(folder)
    table = open_delta(folder)
    named = None if table is None else _named_in(table, system, base)
    orphans = []
    for entry in entries:
        match = FILE_NAME.fullmatch(entry.name)
        if match is None or not entry.is_file or not entry.is_own:
            continue
        if table is None or (entry.name not in (named or ()) and not has_write(table, match[1])):
            orphans.append(Leftover(folder, entry.path, match[1], entry.size, _age([entry])))
    return orphans


def _named_in(table: DeltaTable, system: fs.FileSystem, base: str) -> set[str]:
    """Return names of data files in the newest version, and in every remaining entry of the log."""
    names = {posixpath.basename(uri) for uri in table.file_uris()}
    for entry in system.get_file_info(fs.FileSelector(posixpath.join(base, _LOG))):
        if entry.extension != "json":
            continue
        with system.open_input_stream(entry.path) as stream:
            for line in stream.read().splitlines():
                names |= set(re.findall(r'"path":"([^"]+)"', line.decode(errors="replace")))
    return names


def _age(files: list[_Entry]) -> float:
    return time.time() - max((file.modified for file in files), default=0.0)
