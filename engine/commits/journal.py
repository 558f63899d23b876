"""The journal of a run's commit: records that are written once, in the folders that its sinks write into.

Each of these folders has `.penstock-runs/<run id>/owner`, which describes the run. Decisions stand beside it
in the first of them, the run's home:

| record | says |
|---|---|
| `owner` | who runs, since when, into which folders |
| `alive-<n>` | the owner was running when it was written; the newest one is kept |
| `decision` | `publish`, with everything that publishing needs, or `undo`; the first to write it decides |
| `attempt-<n>` | somebody began to publish |
| `settled-<n>` | sink n is published, or undone |
| `claimed-<n>` | a run of the same job has taken the result for its own |
| `failed` | the owner has given up; any process may go on with the run |
| `done` | all sinks are published |

A run whose only sinks are of the user's own classes has its home in the state directory of the user.

Source: org.apache.flink.runtime.highavailability.JobResultStore, for results that are kept until they are
acknowledged ("dirty").
"""

from __future__ import annotations

import os
import posixpath
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyarrow import fs

from engine.machine.home_folder import home_folder
from operators.connectors.sink import Committable, Recovery
from operators.files.durable_files import (
    make_folder,
    read_once_written,
    remove_folder,
    write_once,
)
from operators.files.filesystem import filesystem_of

RUNS = ".penstock-runs"
_FORMAT = 1
# Both become parts of paths.
_RUN_ID = re.compile("[0-9a-f]{32}")
_WRITE_ID = re.compile("[0-9A-Za-z-]+")


@dataclass(frozen=True, kw_only=True)
class SinkOfRun:
    """A sink of a run, as another process needs it."""

    name: str
    write_id: str
    class_name: str
    recovery: Recovery | None  #: None: a class of the user's


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run that commits sinks; what `owner` says."""

    run_id: str
    job: str
    fingerprint: str  #: the same where the same job is run again (`job_fingerprint`)
    started_at: float  #: seconds since the epoch
    owner: Mapping[str, str]  #: run_owner.this_process
    folders: tuple[str, ...]  #: paths or URIs; the first is the home
    sinks: tuple[SinkOfRun, ...]

    @property
    def short_id(self) -> str:
        """The start of the id, for people."""
        return self.run_id[:12]


@dataclass(frozen=True)
class Decision:
    """What is to become of a run: its sinks and their committables if it is to be published."""

    publish: bool
    sinks: tuple[SinkOfRun, ...] = ()
    committables: tuple[list[Committable], ...] = ()


def state_folder() -> str:
    """The folder of journals of runs whose sinks have no folder."""
    given = os.environ.get("XDG_STATE_HOME")
    return str((Path(given) if given else home_folder() / ".local" / "state") / "penstock")


def begin_journal(run: Run) -> None:
    """Write `owner` into every folder, into the home first. OSError where that cannot be."""
    for folder in run.folders:
        system, path = _place(folder, run.run_id)
        try:
            make_folder(system, path)
        except FileNotFoundError:  # another run has just removed the folder of runs, which was empty
            make_folder(system, path)
        write_once(system, posixpath.join(path, "owner"), _as_json(run))


def runs_in(folder: str) -> Iterator[Run]:
    """The runs with an `owner` record in `folder`, by id."""
    system, base = filesystem_of(folder)
    selector = fs.FileSelector(posixpath.join(base, RUNS), allow_not_found=True)
    for one in sorted(system.get_file_info(selector), key=lambda entry: entry.path):
        try:
            found = read_once_written(system, posixpath.join(one.path, "owner"))
            run = None if found is None or found["format"] != _FORMAT else _run_of(found)
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # nothing that Penstock has written
        if run is not None and run.run_id == one.base_name:
            yield run


def is_known(run: Run) -> bool:
    """Whether the home still has the run; False once it is settled and forgotten."""
    return read(run, "owner") is not None


def write(run: Run, record: str, value: Any = True) -> bool:
    """Write a record into the home; False if it is there already, or the run is forgotten."""
    system, path = _place(run.folders[0], run.run_id)
    try:
        return write_once(system, posixpath.join(path, record), value)
    except FileNotFoundError:
        return False


def read(run: Run, record: str) -> Any:
    """A record of the home; None if there is none."""
    system, path = _place(run.folders[0], run.run_id)
    return read_once_written(system, posixpath.join(path, record))


def records(run: Run) -> dict[str, float]:
    """The records of the home, and when each was written (seconds since the epoch)."""
    system, path = _place(run.folders[0], run.run_id)
    entries = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return {one.base_name: one.mtime.timestamp() if one.mtime else 0.0 for one in entries}


def decide_to_publish(
    run: Run, sinks: tuple[SinkOfRun, ...], committables: tuple[list[Committable], ...]
) -> bool:
    """Decide; False if it was decided otherwise before. TypeError where a committable is no JSON."""
    return write(
        run,
        "decision",
        {
            "publish": True,
            "sinks": [asdict(one) for one in sinks],
            "committables": [[asdict(one) for one in some] for some in committables],
        },
    )


def decide_to_undo(run: Run) -> bool:
    """Decide; False if it was decided before."""
    return write(run, "decision", {"publish": False})


def decision_of(run: Run) -> Decision | None:
    """What was decided; None if nothing was."""
    found = read(run, "decision")
    if found is None:
        return None
    return Decision(
        found["publish"],
        tuple(map(_sink_of, found.get("sinks", ()))),
        tuple([Committable(**one) for one in some] for some in found.get("committables", ())),
    )


def heartbeat(run: Run, number: int) -> None:
    """Say that the owner is running."""
    write(run, f"alive-{number}")
    system, path = _place(run.folders[0], run.run_id)
    with suppress(FileNotFoundError):
        system.delete_file(posixpath.join(path, f"alive-{number - 1}"))


def seconds_since_sign_of_life(run: Run) -> float:
    """How long ago the owner wrote a record."""
    written = [at for name, at in records(run).items() if name == "owner" or name.startswith("alive-")]
    return time.time() - max(written, default=run.started_at)


def forget(run: Run) -> None:
    """Remove the journal; the home's part last, so that a kill leaves a run that can be found."""
    for folder in reversed(run.folders):
        system, path = _place(folder, run.run_id)
        with suppress(FileNotFoundError):
            system.delete_file(posixpath.join(path, "owner"))  # first: without it there is no run
        remove_folder(system, path)
        if isinstance(system, fs.LocalFileSystem):
            with suppress(OSError):  # another run has its own there
                os.rmdir(posixpath.dirname(path))


def _place(folder: str, run_id: str) -> tuple[fs.FileSystem, str]:
    system, base = filesystem_of(folder)
    return system, posixpath.join(base, RUNS, run_id)


def _as_json(run: Run) -> dict[str, Any]:
    return {"format": _FORMAT, **asdict(run)}


def _run_of(found: Mapping[str, Any]) -> Run:
    values = {key: value for key, value in found.items() if key != "format"}
    if not _RUN_ID.fullmatch(values["run_id"]):
        raise ValueError(f"{values['run_id']!r} is no id of a run")
    return Run(
        **{
            **values,
            "folders": tuple(values["folders"]),
            "sinks": tuple(map(_sink_of, values["sinks"])),
        }
    )


def _sink_of(found: Mapping[str, Any]) -> SinkOfRun:
    recovery = found["recovery"]
    if not _WRITE_ID.fullmatch(found["write_id"]):
        raise ValueError(f"{found['write_id']!r} is no id of a write")
    return SinkOfRun(**{**found, "recovery": None if recovery is None else Recovery(**recovery)})
