"""The journal of a run's commit, whose records are written once, in the folders that its sinks write into.

Each of these folders has `.penstock-runs/<run id>/owner`, which describes the run. The other records are next
to it in the first of these folders, the run's home:

| record | meaning |
|---|---|
| `owner` | the process that runs, its start, the folders of the run, and the number of this folder |
| `alive-<n>` | the owner was running when it was written; only the newest one remains |
| `decision` | `publish`, with all data that publishing needs, or `undo`; the first writer decides |
| `attempt-<n>` | a process has begun to publish |
| `settled-<n>` | sink n is published, or undone |
| `claimed-<n>` | a run of the same job has taken over the result |
| `failed` | the owner has given up; any process may continue the run |
| `done` | all sinks are published |

If all sinks of a run are of the user's own classes, its home is in the state directory of the user.

A journal is private to its user. If `.penstock-runs` belongs to another user, the name is
`.penstock-runs-<uid>`; records that others may have written are ignored.

Source: org.apache.flink.runtime.highavailability.JobResultStore, for results that are retained until they are
acknowledged ("dirty").
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pyarrow import fs
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from penstock.engine.machine.folders import state_path
from penstock.operators.connectors.sink import Committable, Recovery
from penstock.operators.files.durable_files import (
    NotOwnError,
    force_folder,
    make_folder,
    make_private_folder,
    read_bytes_once_written,
    read_once_written,
    remove_folder,
    remove_once_written,
    require_own_folder,
    write_once,
)
from penstock.operators.files.filesystem import filesystem_of
from penstock.plans.installation import own_version

# The records of a journal: each file is validated strictly by one of these models, or ignored.
#
# The folder of a journal may contain arbitrary files: a record of another program or a later Penstock, or
# half a record.


FORMAT = 1

RunId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
"""A part of paths, like WriteId."""

WriteId = Annotated[str, Field(pattern="^[0-9a-f]{32}$")]

_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Folder = Annotated[str, Field(min_length=1, max_length=32_768)]
_YEAR_3000 = 32_503_680_000.0


class _Record(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class OwnerRecord(_Record):
    """A process, as described by `state_folder.this_process`."""

    host: str
    machine: str
    boot: str
    namespace: str
    pid: Annotated[str, Field(pattern="^[0-9]{1,18}$")]
    started: str


class FilesArguments(_Record):
    """Arguments for the recovery of a file sink, in addition to its folder."""


class StateArguments(_Record):
    """Arguments for the recovery of a stream's state, in addition to its folder."""


class DeltaArguments(_Record):
    """Arguments for the recovery of a Delta sink, in addition to its folder (`commit_delta.json_of`)."""

    mode: Literal["append", "overwrite", "error", "ignore"]
    schema_: Annotated[str, Field(alias="schema")]
    partition_by: tuple[str, ...]
    table_id: str | None
    version: _Count | None


_ARGUMENTS: dict[str, type[_Record]] = {
    "files": FilesArguments,
    "delta": DeltaArguments,
    "state": StateArguments,
}


class RecoveryRecord(_Record):
    """`operators.connectors.sink.Recovery`."""

    kind: Literal["files", "delta", "state"]
    folder: _Folder
    arguments: dict[str, JsonValue]

    @model_validator(mode="after")
    def _has_arguments(self) -> Self:
        _ARGUMENTS[self.kind].model_validate_json(json.dumps(self.arguments))
        return self


class SinkRecord(_Record):
    """`journal.SinkOfRun`."""

    name: str
    write_id: WriteId
    class_name: str
    recovery: RecoveryRecord | None


class CommittableRecord(_Record):
    """`operators.connectors.sink.Committable`."""

    staged: str
    target: str
    size: _Count
    subtask: _Count
    details: dict[str, JsonValue]


class RunRecord(_Record):
    """The record `owner`, which describes a run."""

    format: Literal[1]
    run_id: RunId
    job: str
    fingerprint: str
    started_at: Annotated[float, Field(ge=0.0, le=_YEAR_3000)]
    owner: OwnerRecord
    folders: Annotated[tuple[_Folder, ...], Field(min_length=1)]
    place: _Count | None = None  #: number of the folder with this record, among `folders`; None if unknown
    sinks: tuple[SinkRecord, ...]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if any("://" not in folder and not posixpath.isabs(folder) for folder in self.folders):
            raise ValueError("a folder is a relative path")
        if self.place is not None and self.place >= len(self.folders):
            raise ValueError("its place must be the number of a folder of the run")
        for sink in self.sinks:
            if sink.recovery is not None and sink.recovery.folder not in self.folders:
                raise ValueError(f"sink {sink.name!r} writes into a folder outside of the run's folders")
        return self


class DecisionRecord(_Record):
    """The record `decision`, to publish or to undo a run."""

    publish: bool
    sinks: tuple[SinkRecord, ...] = ()
    committables: tuple[tuple[CommittableRecord, ...], ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if len(self.sinks) != len(self.committables):
            raise ValueError("not every sink has committables")
        return self


def _other_format(owner_json: bytes) -> str | None:
    """Describe the format of a record that has another format; None if it has this one, or is damaged."""
    try:
        written = json.loads(owner_json)["format"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if written == FORMAT:
        return None
    return f"it has format {written!r}; Penstock {own_version()} reads format {FORMAT}"


def _first_problem(error: ValidationError) -> str:
    """Describe the first problem of a record in one line."""
    first: Any = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    return f"{place}: {first['msg']}" if place else str(first["msg"])


RUNS = ".penstock-runs"


@dataclass(frozen=True, kw_only=True)
class SinkOfRun:
    """A sink of a run, with the data by which another process finishes its commit."""

    name: str
    write_id: str
    class_name: str
    recovery: Recovery | None  #: None for a class of the user's


@dataclass(frozen=True, kw_only=True)
class JournalRun:
    """A run that commits sinks, with the content of `owner` and the paths of its journal."""

    run_id: str
    job: str
    fingerprint: str  #: equal for a repetition of the same job (`job_fingerprint`)
    started_at: float  #: seconds since the epoch
    owner: Mapping[str, str]  #: a process, as described by state_folder.this_process
    folders: tuple[str, ...]  #: their current paths or URIs; the first is the home
    sinks: tuple[SinkOfRun, ...]
    #: Each folder's part of the journal, a path in the folder's file system; None if it is missing.
    parts: tuple[str | None, ...] = field(default=(), compare=False)
    #: Recorded path to current path, for folders that have been moved.
    moved: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def short_id(self) -> str:
        """The start of the id, for messages."""
        return self.run_id[:12]

    @cached_property
    def home(self) -> tuple[fs.FileSystem, str]:
        """File system and path of its records. Raises FileNotFoundError if its first folder has none."""
        home = self.parts[0] if self.parts else None
        if home is None:
            raise FileNotFoundError(2, "it does not have the journal of the run", self.folders[0])
        return filesystem_of(self.folders[0])[0], home

    def has_part_in(self, folder: str) -> bool:
        """Whether `folder`, one of the run's, still has its part of the journal."""
        return self.parts[self.folders.index(folder)] is not None


@dataclass(frozen=True)
class RunDecision:
    """The decision about a run, with its sinks and their committables if it is to be published."""

    publish: bool
    sinks: tuple[SinkOfRun, ...] = ()
    committables: tuple[list[Committable], ...] = ()


def state_folder() -> str:
    """Return the folder of journals of runs whose sinks have no folder."""
    return str(state_path())


def names_of_runs() -> tuple[str, ...]:
    """Return the names that the folder of this user's journals may have."""
    return RUNS, f"{RUNS}-{os.geteuid()}"


def begin_journal(run: JournalRun) -> JournalRun:
    """Write `owner` into every folder, into the home first; return the run with its parts.

    Raises OSError if a record cannot be written.
    """
    parts: list[str | None] = []
    begun = run
    try:
        for place, folder in enumerate(run.folders):
            system, base = filesystem_of(folder)
            if folder == state_folder():
                make_private_folder(base)
            else:
                make_folder(system, base)
            part = _make_part(system, base, run.run_id)
            parts.append(part)
            write_once(system, posixpath.join(part, "owner"), _as_json(run, place))
        begun = replace(run, parts=tuple(parts))
        system, home = begun.home
        if read_once_written(system, posixpath.join(home, "owner")) is None:
            raise NotOwnError(1, "a journal that was written there cannot be read back", run.folders[0])
    except BaseException:
        with suppress(OSError):
            forget(replace(run, folders=run.folders[: len(parts)], parts=tuple(parts)))
        raise
    return begun


def _make_part(system: fs.FileSystem, base: str, run_id: str) -> str:
    if not isinstance(system, fs.LocalFileSystem):
        part = posixpath.join(base, RUNS, run_id)
        make_folder(system, part)
        return part
    for name in names_of_runs():
        runs = posixpath.join(base, name)
        while True:
            with suppress(FileExistsError):
                os.mkdir(runs, 0o700)
                force_folder(system, base)
            try:
                require_own_folder(runs)
                os.mkdir(posixpath.join(runs, run_id), 0o700)
            except FileNotFoundError:  # another run has just removed the folder of runs, which was empty
                continue
            except NotOwnError:
                break
            force_folder(system, runs)
            return posixpath.join(runs, run_id)
    raise NotOwnError(1, f"{' and '.join(names_of_runs())} exist, and others may write them", base)


def decision_in(run: JournalRun, decision_json: bytes) -> RunDecision:
    """Return the decision of a record of `run`, with current paths. Raises ValueError if it is damaged."""
    place = f"{run.home[1]}/decision"
    try:
        record = DecisionRecord.model_validate_json(decision_json)
    except ValidationError as error:
        raise ValueError(f"{place}: {_first_problem(error)}") from error
    sinks = tuple(_sink_of(sink_record, run.moved) for sink_record in record.sinks)
    if record.publish and list(map(_write_and_folder, sinks)) != list(map(_write_and_folder, run.sinks)):
        raise ValueError(f"{place}: its sinks differ from the run's")
    pairs = zip(record.sinks, record.committables, strict=True)
    return RunDecision(record.publish, sinks, tuple(_committables(sink, items, run) for sink, items in pairs))


def process_in(owner_json: bytes) -> dict[str, str]:
    """Return the process that a record names. Raises ValueError if it is damaged."""
    return OwnerRecord.model_validate_json(owner_json).model_dump()


def _write_and_folder(sink: SinkOfRun) -> tuple[str, str | None]:
    return sink.write_id, None if sink.recovery is None else sink.recovery.folder


def _sink_of(record: SinkRecord, moved: Mapping[str, str]) -> SinkOfRun:
    """Return the sink of a record, with the current path of its folder."""
    old = record.recovery
    recovery = old and Recovery(old.kind, moved.get(old.folder, old.folder), dict(old.arguments))
    return SinkOfRun(
        name=record.name, write_id=record.write_id, class_name=record.class_name, recovery=recovery or None
    )


def _committables(sink: SinkRecord, records: Any, run: JournalRun) -> list[Committable]:
    committables = [Committable(**record.model_dump()) for record in records]
    if sink.recovery is None or sink.recovery.folder not in run.moved:
        return committables
    old = filesystem_of(sink.recovery.folder)[1]
    new = filesystem_of(run.moved[sink.recovery.folder])[1]

    def moved(path: str) -> str:
        return new + path.removeprefix(old) if path.startswith(f"{old}/") else path

    return [replace(item, staged=moved(item.staged), target=moved(item.target)) for item in committables]


def forget(run: JournalRun) -> None:
    """Remove the journal; the home's part last, so that a run is still found if this process is killed."""
    for folder, known in reversed(list(zip(run.folders, run.parts, strict=True))):
        path = known or next(iter(_begun_parts(folder, run.run_id)), None)
        if path is None:
            continue
        system = filesystem_of(folder)[0]
        with suppress(FileNotFoundError):
            remove_once_written(system, posixpath.join(path, "owner"))  # first: without it the run is gone
        remove_folder(system, path)
        if isinstance(system, fs.LocalFileSystem):
            with suppress(OSError):  # it has parts of other runs
                os.rmdir(posixpath.dirname(path))


def _begun_parts(folder: str, run_id: str | None = None) -> list[str]:
    """Return parts in a folder, of one run or of any, that were begun, and whose record is not there."""
    system, base = filesystem_of(folder)
    begun = []
    names = names_of_runs() if isinstance(system, fs.LocalFileSystem) else (RUNS,)
    for runs in (posixpath.join(base, name) for name in names):
        with suppress(OSError, ValueError):
            for name in _names(system, runs) if run_id is None else [run_id]:
                path = posixpath.join(runs, name)
                there = system.get_file_info(path).type == fs.FileType.Directory
                if there and _record(system, path, name) is None:
                    begun.append(path)
    return begun


_SECONDS_BEFORE_REMOVAL = 3600.0


def remove_begun(folder: str) -> None:
    """Remove parts of runs whose process was killed long ago, before it wrote their record."""
    system = filesystem_of(folder)[0]
    for path in _begun_parts(folder):
        modified = system.get_file_info(path).mtime
        if modified is not None and modified.timestamp() < time.time() - _SECONDS_BEFORE_REMOVAL:
            remove_folder(system, path)


def _as_json(run: JournalRun, place: int) -> dict[str, Any]:
    values = asdict(run)
    del values["parts"], values["moved"]
    return {"format": FORMAT, **values, "place": place}


# The journals in a folder: this user's as runs, all others with the reason why they are skipped.
#
# The folder of a sink is the one with its part of the journal, even if its recorded path is another one:
# folders are moved. The other folders of the run have their recorded paths, or have been moved with this one.


_RUN_ID = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class SkippedEntry:
    """A file or folder that is skipped, and the reason."""

    path: str
    why: str
    of_others: bool = False  #: another user has, or may have, written it


@dataclass(frozen=True)
class JournalPart:
    """A run's record in a folder of the run."""

    record: RunRecord
    folder: str  #: path or URI of the folder
    path: str  #: path of this part of the journal, in the folder's file system


def parts_in(folder: str) -> tuple[list[JournalPart], list[SkippedEntry]]:
    """Return the records of runs in `folder`, sorted by run id, and the entries skipped there."""
    system, base = filesystem_of(folder)
    parts: list[JournalPart] = []
    skipped: list[SkippedEntry] = []
    names = names_of_runs() if isinstance(system, fs.LocalFileSystem) else (RUNS,)
    for runs in (posixpath.join(base, name) for name in names):
        try:
            run_names = _names(system, runs)
        except FileNotFoundError:
            continue
        except OSError as error:
            skipped.append(_skipped_entry(runs, error))
            continue
        for name in run_names:
            path = posixpath.join(runs, name)
            try:
                record = _record(system, path, name)
            except (OSError, ValueError) as error:
                skipped.append(_skipped_entry(path, error))
            else:
                if record is not None:
                    parts.append(JournalPart(record, folder, path))
    return sorted(parts, key=lambda part: part.record.run_id), skipped


def runs_of(parts: Iterable[JournalPart]) -> tuple[list[JournalRun], list[SkippedEntry]]:
    """Return the runs of these parts, oldest first, and an entry for each run whose home is not found."""
    together: dict[str, list[JournalPart]] = {}
    for part in parts:
        together.setdefault(part.record.run_id, []).append(part)
    runs, skipped = [], []
    for parts_of_run in together.values():
        try:
            runs.append(_run(parts_of_run))
        except ValueError as error:
            skipped.append(SkippedEntry(parts_of_run[0].path, str(error)))
    return sorted(runs, key=lambda run: (run.started_at, run.run_id)), skipped


def runs_in(folders: Iterable[str]) -> tuple[list[JournalRun], list[SkippedEntry]]:
    """Return the runs with journals in `folders`, oldest first, and the entries skipped there."""
    parts: list[JournalPart] = []
    skipped: list[SkippedEntry] = []
    for folder in folders:
        parts_here, skipped_here = parts_in(folder)
        parts += parts_here
        skipped += skipped_here
    runs, homeless = runs_of(parts)
    return runs, skipped + homeless


def _names(system: fs.FileSystem, runs: str) -> list[str]:
    if isinstance(system, fs.LocalFileSystem):
        require_own_folder(runs)
        return sorted(os.listdir(runs))
    infos = system.get_file_info(fs.FileSelector(runs, allow_not_found=True))
    return sorted(info.base_name for info in infos)


def _record(system: fs.FileSystem, path: str, run_id: str) -> RunRecord | None:
    """Return the record of a run; None if it does not exist yet, or no longer."""
    if _RUN_ID.fullmatch(run_id) is None:
        raise ValueError("its name is not the id of a run")
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
        raise ValueError(_other_format(owner_json) or _first_problem(error)) from error
    if record.run_id != run_id:
        raise ValueError("its record belongs to another run")
    return record


def _run(parts: Sequence[JournalPart]) -> JournalRun:
    """Combine parts to one run. Raises ValueError if its home cannot be found."""
    record = parts[0].record
    known: dict[int, JournalPart] = {}
    for part in parts:
        if part.record.folders != record.folders:
            raise ValueError(f"{parts[0].path} and {part.path} have the same id, but are of different runs")
        known.setdefault(_place(part), part)
    first_place, first = next(iter(known.items()))
    folders, paths, moved = [], [], {}
    for place, recorded in enumerate(record.folders):
        current = known.get(place) or _look_for(record, place, first_place, first)
        folder = recorded if current is None else current.folder
        folder = recorded if _is_same_folder(recorded, folder) else folder
        if folder != recorded:
            moved[recorded] = folder
        folders.append(folder)
        paths.append(None if current is None else current.path)
    if paths[0] is None:
        raise ValueError(
            f"its home {record.folders[0]} has no journal of it; if that folder was moved, name its new "
            "path, too"
        )
    return JournalRun(
        run_id=record.run_id,
        job=record.job,
        fingerprint=record.fingerprint,
        started_at=record.started_at,
        owner=record.owner.model_dump(),
        folders=tuple(folders),
        sinks=tuple(_sink_of(sink, moved) for sink in record.sinks),
        parts=tuple(paths),
        moved=moved,
    )


def _place(part: JournalPart) -> int:
    """Return the number of a part's folder among the folders of its run."""
    folders = part.record.folders
    if part.record.place is not None:
        return part.record.place
    same = [place for place, run_folder in enumerate(folders) if _is_same_folder(run_folder, part.folder)]
    if not same and len(folders) > 1:
        raise ValueError("it was moved, and its record lacks the number of this folder")
    return same[0] if same else 0


def _look_for(record: RunRecord, place: int, first_place: int, first: JournalPart) -> JournalPart | None:
    """Return the part in folder number `place`: at the path it has if it was moved along with the first, else
    at its recorded path; None if neither has it.
    """
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
    """Return the new path of `path` if a folder above it and `before` was moved, and `before` is at `now`."""
    if any("://" in name for name in (path, before, now)):
        return None
    return posixpath.normpath(posixpath.join(os.path.abspath(now), posixpath.relpath(path, before)))


def _is_same_folder(folder: str, other: str) -> bool:
    (system, path), (_, other_path) = filesystem_of(folder), filesystem_of(other)
    if path.rstrip("/") == other_path.rstrip("/"):
        return True
    return isinstance(system, fs.LocalFileSystem) and os.path.realpath(path) == os.path.realpath(other_path)


def _skipped_entry(path: str, error: Exception) -> SkippedEntry:
    why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    return SkippedEntry(path, why, isinstance(error, NotOwnError))
