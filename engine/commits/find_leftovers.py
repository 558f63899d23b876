"""What runs have left below some folders: journals, staged files, data files that no Delta table names."""

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

from engine.commits.journal import RUNS, Run, runs_in
from operators.connectors.delta.commit_delta import has_write, open_delta
from operators.connectors.delta.delta_files import FILE_NAME
from operators.files.filesystem import filesystem_of

_STAGED = re.compile(r"\.penstock-(?!runs$)([0-9A-Za-z-]+)")
_LOG = "_delta_log"


@dataclass(frozen=True)
class Leftover:
    """A file or folder that nothing reads; `folder` and `path` as paths of `folder`'s file system."""

    folder: str  #: path or URI of the folder that a sink wrote into
    path: str
    write_id: str
    size: int  #: bytes
    age_seconds: float  #: since the newest of its files was written


@dataclass(frozen=True)
class Found:
    """What lies below some folders."""

    runs: tuple[Run, ...]  #: oldest first
    of_runs: tuple[Leftover, ...]  #: what belongs to these runs
    leftovers: tuple[Leftover, ...]  #: what belongs to none of them

    def size_of(self, run: Run) -> int:
        """Bytes that the run has staged in the folders that were looked at."""
        ids = {sink.write_id for sink in run.sinks}
        return sum(one.size for one in self.of_runs if one.write_id in ids)


def find_leftovers(places: Iterable[str]) -> Found:
    """Everything at and below `places`, paths or URIs of folders; hidden folders are not entered.

    Raises FileNotFoundError for a place that does not exist.
    """
    runs: dict[str, Run] = {}
    staged: dict[str, Leftover] = {}
    for place in places:
        for folder in _folders(place):
            # in this order: a run that starts meanwhile writes its journal before it stages anything
            staged |= {one.path: one for one in _staged_in(folder)}
            runs |= {run.run_id: run for run in runs_in(folder)}
    mine = {sink.write_id for run in runs.values() for sink in run.sinks}
    return Found(
        tuple(sorted(runs.values(), key=lambda run: run.started_at)),
        tuple(one for one in staged.values() if one.write_id in mine),
        tuple(one for one in staged.values() if one.write_id not in mine),
    )


def delete_leftover(leftover: Leftover) -> None:
    """Delete it, unless it has become part of its table."""
    system, _ = filesystem_of(leftover.folder)
    with suppress(FileNotFoundError):
        if FILE_NAME.fullmatch(posixpath.basename(leftover.path)) is None:
            system.delete_dir(leftover.path)
        elif leftover.path in {one.path for one in _orphans(leftover.folder)}:
            system.delete_file(leftover.path)


def _folders(place: str) -> Iterator[str]:
    system, base = filesystem_of(place)
    if system.get_file_info(base).type != fs.FileType.Directory:
        raise FileNotFoundError(f"{place}: no such folder")
    seen, waiting = set(), [base]
    prefix = place[: len(place) - len(base)] if "://" in place and place.endswith(base) else ""
    while waiting:
        folder = waiting.pop()
        real = os.path.realpath(folder) if isinstance(system, fs.LocalFileSystem) else folder
        if real in seen:
            continue
        seen.add(real)
        yield prefix + folder
        for one in system.get_file_info(fs.FileSelector(folder)):
            if one.type == fs.FileType.Directory and not one.base_name.startswith((".", _LOG)):
                waiting.append(one.path)


def _staged_in(folder: str) -> Iterator[Leftover]:
    system, base = filesystem_of(folder)
    entries = system.get_file_info(fs.FileSelector(base))
    journals = system.get_file_info(fs.FileSelector(posixpath.join(base, RUNS), allow_not_found=True))
    known = {run.run_id for run in runs_in(folder)}
    for one in journals:
        if one.base_name not in known:  # killed before it was written, or damaged
            yield _folder_left(system, folder, one, one.base_name)
    for one in entries:
        named = _STAGED.fullmatch(one.base_name)
        if named is not None and one.type == fs.FileType.Directory:
            yield _folder_left(system, folder, one, named[1])
    if any(FILE_NAME.fullmatch(one.base_name) for one in entries):
        yield from _orphans(folder)


def _folder_left(system: fs.FileSystem, folder: str, entry: fs.FileInfo, write_id: str) -> Leftover:
    inside = [*system.get_file_info(fs.FileSelector(entry.path, recursive=True)), entry]
    return Leftover(folder, entry.path, write_id, sum(one.size or 0 for one in inside), _age(inside))


def _orphans(folder: str) -> Iterator[Leftover]:
    """Data files of Penstock's Delta sinks in `folder` that no transaction of the table has named."""
    system, base = filesystem_of(folder)
    table = open_delta(folder)
    named = None if table is None else _named_in(table, system, base)
    for one in system.get_file_info(fs.FileSelector(base)):
        match = FILE_NAME.fullmatch(one.base_name)
        if match is None or one.type != fs.FileType.File:
            continue
        if table is None or (one.base_name not in (named or ()) and not has_write(table, match[1])):
            yield Leftover(folder, one.path, match[1], one.size, _age([one]))


def _named_in(table: DeltaTable, system: fs.FileSystem, base: str) -> set[str]:
    """Names of data files in the newest version, and in every entry of the log that is still there."""
    names = {posixpath.basename(uri) for uri in table.file_uris()}
    for entry in system.get_file_info(fs.FileSelector(posixpath.join(base, _LOG))):
        if entry.extension != "json":
            continue
        with system.open_input_stream(entry.path) as stream:
            for line in stream.read().splitlines():
                names |= set(re.findall(r'"path":"([^"]+)"', line.decode(errors="replace")))
    return names


def _age(files: list[fs.FileInfo]) -> float:
    newest = max((one.mtime.timestamp() for one in files if one.mtime is not None), default=0.0)
    return time.time() - newest
