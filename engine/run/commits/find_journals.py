"""The journals that lie in a folder: those of this user, as runs; of all others, why they are passed over.

The folder of a sink is the one that its part of the journal lies in, whatever the record says: folders are
moved. The other folders of the run are where the record says, or have been moved with this one.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pyarrow import fs
from pydantic import ValidationError

from penstock.engine.run.commits.journal import (
    RUNS,
    JournalRun,
    RunRecord,
    names_of_runs,
    sink_of,
    what_is_wrong,
)
from penstock.operators.files.durable_files import NotOwnError, read_bytes_once_written, require_own_folder
from penstock.operators.files.filesystem import filesystem_of

_RUN_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class PassedOver:
    """Something that is not acted upon, and why."""

    path: str
    why: str
    of_others: bool = False  #: another user has, or may have, written it


@dataclass(frozen=True)
class JournalPart:
    """A run's record in one of its folders."""

    record: RunRecord
    folder: str  #: path or URI of the folder it lies in
    path: str  #: of this part of the journal, in the folder's file system


def runs_in(folder: str) -> Iterator[JournalRun]:
    """The sound runs of this user with a record in `folder`, by id."""
    parts, _ = parts_in(folder)
    yield from runs_of(parts)[0]


def parts_in(folder: str) -> tuple[list[JournalPart], list[PassedOver]]:
    """The records of runs in `folder`, by run id, and what is passed over there."""
    system, base = filesystem_of(folder)
    parts: list[JournalPart] = []
    passed: list[PassedOver] = []
    names = names_of_runs() if isinstance(system, fs.LocalFileSystem) else (RUNS,)
    for runs in (posixpath.join(base, name) for name in names):
        try:
            run_names = _names(system, runs)
        except FileNotFoundError:
            continue
        except OSError as error:
            passed.append(_passed_over(runs, error))
            continue
        for name in run_names:
            path = posixpath.join(runs, name)
            try:
                record = _record(system, path, name)
            except (OSError, ValueError) as error:
                passed.append(_passed_over(path, error))
            else:
                if record is not None:
                    parts.append(JournalPart(record, folder, path))
    return sorted(parts, key=lambda part: part.record.run_id), passed


def runs_of(parts: Iterable[JournalPart]) -> tuple[list[JournalRun], list[PassedOver]]:
    """The runs that these are parts of, oldest first; those whose home is not found are passed over."""
    together: dict[str, list[JournalPart]] = {}
    for part in parts:
        together.setdefault(part.record.run_id, []).append(part)
    runs, passed = [], []
    for parts_of_run in together.values():
        try:
            runs.append(_run(parts_of_run))
        except ValueError as error:
            passed.append(PassedOver(parts_of_run[0].path, str(error)))
    return sorted(runs, key=lambda run: (run.started_at, run.run_id)), passed


def _names(system: fs.FileSystem, runs: str) -> list[str]:
    if isinstance(system, fs.LocalFileSystem):
        require_own_folder(runs)
        return sorted(os.listdir(runs))
    infos = system.get_file_info(fs.FileSelector(runs, allow_not_found=True))
    return sorted(info.base_name for info in infos)


def _record(system: fs.FileSystem, path: str, run_id: str) -> RunRecord | None:
    """The record of a run; None if there is none yet, or no longer one."""
    if _RUN_ID.fullmatch(run_id) is None:
        raise ValueError("its name is no id of a run")
    try:
        if isinstance(system, fs.LocalFileSystem):
            require_own_folder(path)
    except FileNotFoundError:
        return None
    owner_json = read_bytes_once_written(system, posixpath.join(path, "owner"))
    if owner_json is None:
        return None
    try:
        record = RunRecord.model_validate_json(owner_json)
    except ValidationError as error:
        raise ValueError(what_is_wrong(error)) from error
    if record.run_id != run_id:
        raise ValueError("it is of another run")
    return record


def _run(parts: Sequence[JournalPart]) -> JournalRun:
    """One run from its parts. ValueError where it cannot be told where its home is."""
    record = parts[0].record
    known: dict[int, JournalPart] = {}
    for part in parts:
        if part.record.folders != record.folders:
            raise ValueError(f"{parts[0].path} and {part.path} have the same id, and are of different runs")
        known.setdefault(_place(part), part)
    first_place, first = next(iter(known.items()))
    folders, paths, moved = [], [], {}
    for place, recorded in enumerate(record.folders):
        there = known.get(place) or _look_for(record, place, first_place, first)
        folder = recorded if there is None else there.folder
        folder = recorded if _is_same_folder(recorded, folder) else folder
        if folder != recorded:
            moved[recorded] = folder
        folders.append(folder)
        paths.append(None if there is None else there.path)
    if paths[0] is None:
        raise ValueError(
            f"what becomes of it is decided in {record.folders[0]}, which has no journal of it; if that "
            "folder was moved, name it, too"
        )
    return JournalRun(
        run_id=record.run_id,
        job=record.job,
        fingerprint=record.fingerprint,
        started_at=record.started_at,
        owner=record.owner.model_dump(),
        folders=tuple(folders),
        sinks=tuple(sink_of(sink, moved) for sink in record.sinks),
        parts=tuple(paths),
        moved=moved,
    )


def _place(part: JournalPart) -> int:
    """The number of the folder, among those of its run, that a part lies in."""
    folders = part.record.folders
    if part.record.place is not None:
        return part.record.place
    same = [place for place, run_folder in enumerate(folders) if _is_same_folder(run_folder, part.folder)]
    if not same and len(folders) > 1:
        raise ValueError("it was moved, and does not say which of its folders this was")
    return same[0] if same else 0


def _look_for(record: RunRecord, place: int, first_place: int, first: JournalPart) -> JournalPart | None:
    """The part in folder number `place`: there if it was moved along with the first, else where it was."""
    recorded = record.folders[place]
    for folder in dict.fromkeys(
        (_moved_along(recorded, record.folders[first_place], first.folder), recorded)
    ):
        if folder is None:
            continue
        parts_of_record = [part for part in parts_in(folder)[0] if part.record.run_id == record.run_id]
        if (
            parts_of_record
            and parts_of_record[0].record.folders == record.folders
            and _place(parts_of_record[0]) == place
        ):
            return parts_of_record[0]
    return None


def _moved_along(path: str, before: str, now: str) -> str | None:
    """Where `path` is if the folder that holds it and `before` was moved, and `before` is at `now`."""
    if any("://" in name for name in (path, before, now)):
        return None
    return posixpath.normpath(posixpath.join(os.path.abspath(now), posixpath.relpath(path, before)))


def _is_same_folder(folder: str, other: str) -> bool:
    (system, path), (_, of_other) = filesystem_of(folder), filesystem_of(other)
    if path.rstrip("/") == of_other.rstrip("/"):
        return True
    return isinstance(system, fs.LocalFileSystem) and os.path.realpath(path) == os.path.realpath(of_other)


def _passed_over(path: str, error: Exception) -> PassedOver:
    why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return PassedOver(path, why, isinstance(error, NotOwnError))
