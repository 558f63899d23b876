"""The folder in which a run of a script saves finished data sets: its owner and its content.

Below the folder of `--checkpoint-dir`, each run of a script has a folder, named by a random id:

| file | meaning |
|---|---|
| `claimed-<n>` | the process that works on it; when that process is dead, another may claim it |
| `done-<i>` | job number i of the script, from 0, has finished |
| `job-<i>/plan` | the identity of that job's plan: its vertices, operators and edges |
| `job-<i>/id-<job id>` | a run of the script has run this job under that id |
| `job-<i>/<vertex id>/…` | output blocks of a vertex, a file for each attempt of a subtask |
| `job-<i>/<vertex id>.complete` | all its subtasks have finished: the valid files, and a code of these |

The code is a message authentication code by the key of the user's state folder: it shows that this user's
Penstock has saved the files, which hold pickles. Files are written once, for this user only, and are on the
disk before a record names them. Nothing here imports pyspark.

Source: org.apache.flink.runtime.io.network.partition (blocking results), and
org.apache.flink.runtime.scheduler.adaptivebatch.BatchJobRecoveryHandler, for the recovered results.
"""

from __future__ import annotations

import hmac
import json
import os
import posixpath
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import uuid4

from pyarrow import fs

from penstock.engine.machine.folders import describe_owner, liveness, state_folder, this_process
from penstock.engine.run.runtime.job_records import JobRecord, find_job, list_jobs
from penstock.operators.files.durable_files import (
    NotOwnError,
    force_folder,
    make_folder_of_user,
    read_once_written,
    remove_folder,
    remove_once_written,
    require_own_folder,
    write_once,
)
from penstock.operators.files.filesystem import filesystem_of
from penstock.operators.task.keep_rows import KeptFile
from penstock.plans.errors import ConfigurationError, InputError

_SCRIPT = re.compile("[0-9a-f]{32}")
_JOB = re.compile(r"job-\d+")
_ID = "id-"
_COMPLETE = ".complete"


@dataclass(frozen=True)
class KeptScript:
    """A run of a script; `folder` is an absolute path or a URI."""

    folder: str

    def job(self, number: int) -> KeptJob:
        """Return job number `number` of the script, from 0."""
        return KeptJob(f"{self.folder}/job-{number}")

    def claim(self) -> None:
        """Claim the folder for this process. Raises InputError if another process works on it, or may."""
        system, path = filesystem_of(self.folder)
        make_folder_of_user(system, path)
        if isinstance(system, fs.LocalFileSystem):
            try:
                require_own_folder(path)
            except NotOwnError as error:
                raise InputError(f"{self.folder} is not used: {error.strerror}") from error
        number = 0
        while True:
            owner = read_once_written(system, posixpath.join(path, f"claimed-{number}"))
            if owner is None:
                if write_once(system, posixpath.join(path, f"claimed-{number}"), this_process()):
                    return
                continue
            if owner == this_process():
                return
            if liveness(owner) != "dead":
                raise InputError(
                    f"{self.folder}: {describe_owner(owner)} works on this run, or may do so",
                    "cancel its job first; on another machine, wait for its end",
                )
            number += 1

    def is_claimed(self) -> bool:
        """Whether a process works on it, or may do so."""
        system, path = filesystem_of(self.folder)
        owner, number = None, 0
        while (claim := read_once_written(system, posixpath.join(path, f"claimed-{number}"))) is not None:
            owner, number = claim, number + 1
        return owner is not None and liveness(owner) != "dead"

    def note_done(self, number: int, name: str) -> None:
        """Record that job number `number` has finished, so that it does not run again."""
        _write(self.folder, f"done-{number}", name)

    def name_of_done(self, number: int) -> str | None:
        """Return the name of job number `number`; None unless it has finished."""
        return _read(self.folder, f"done-{number}")  # type: ignore[no-any-return]

    def jobs(self) -> Iterator[tuple[int, KeptJob]]:
        """Yield number and job for each job that has not finished."""
        for name in _folders(self.folder):
            if _JOB.fullmatch(name):
                yield int(name.removeprefix("job-")), KeptJob(f"{self.folder}/{name}")

    def remove(self) -> None:
        """Remove the folder."""
        remove_folder(*filesystem_of(self.folder))


@dataclass(frozen=True)
class KeptJob:
    """The folder of a job of a script, with its finished vertices."""

    folder: str

    def plan(self) -> Any:
        """Return the identity of its plan; None if it has not run yet."""
        return _read(self.folder, "plan")

    def begin(self, plan: Any, job_id: str) -> None:
        """Record a run of the job under an id; `plan` is the identity of its plan."""
        make_folder_of_user(*filesystem_of(self.folder))
        _write(self.folder, "plan", plan)
        _write(self.folder, f"{_ID}{job_id}", True)

    def ids(self) -> list[str]:
        """Return the ids under which it has run."""
        system, path = filesystem_of(self.folder)
        infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return [info.base_name.removeprefix(_ID) for info in infos if info.base_name.startswith(_ID)]

    def vertex_folder(self, vertex_id: str) -> str:
        """Return the folder of a vertex's files."""
        return f"{self.folder}/{vertex_id}"

    def begin_vertex(self, vertex_id: str) -> str:
        """Empty the folder of a vertex that is about to run, and return its path."""
        system, path = filesystem_of(self.vertex_folder(vertex_id))
        remove_folder(system, path)
        _remove_if_there(system, self._complete(vertex_id))
        make_folder_of_user(system, path)
        return self.vertex_folder(vertex_id)

    def complete_vertex(self, vertex_id: str, files: Sequence[KeptFile]) -> None:
        """Record `files` as the output of a finished vertex; when this returns, they are on the disk."""
        force_folder(*filesystem_of(self.vertex_folder(vertex_id)))
        listed = [list(file) for file in files]
        _write(self.folder, f"{vertex_id}{_COMPLETE}", {"files": listed, "mac": self._mac(vertex_id, listed)})

    def files_of(self, vertex_id: str) -> list[KeptFile] | None:
        """Return the saved output of a vertex.

        None if it is not complete, if a file is missing or has another size, or if it was not saved by this
        user's Penstock with this state folder.
        """
        record = self._completion(vertex_id)
        if record is None:
            return None
        if not hmac.compare_digest(str(record.get("mac")), self._mac(vertex_id, record["files"])):
            return None
        files = [KeptFile(str(name), int(size), str(digest)) for name, size, digest in record["files"]]
        system, path = filesystem_of(self.vertex_folder(vertex_id))
        infos = system.get_file_info([posixpath.join(path, file.name) for file in files])
        if [info.size for info in infos] == [file.size for file in files]:
            return files
        _remove_if_there(system, self._complete(vertex_id))
        return None

    def is_of_others(self, vertex_id: str) -> bool:
        """Whether a vertex was saved completely, but not by this user's Penstock with this state folder."""
        return self.files_of(vertex_id) is None and self._completion(vertex_id) is not None

    def _complete(self, vertex_id: str) -> str:
        return posixpath.join(filesystem_of(self.folder)[1], f"{vertex_id}{_COMPLETE}")

    def _completion(self, vertex_id: str) -> Any:
        try:
            record = _read(self.folder, f"{vertex_id}{_COMPLETE}")
        except (NotOwnError, ValueError):
            record = {}
        return {"files": [], **record} if isinstance(record, dict) else record and {"files": []}

    def _mac(self, vertex_id: str, files: Any) -> str:
        """Return the message authentication code of a vertex's output in this job of this run."""
        message = [*self.folder.rstrip("/").split("/")[-2:], vertex_id, files]
        return hmac.digest(state_key(), json.dumps(message).encode(), "sha256").hex()

    def remove(self) -> None:
        """Remove the folder."""
        remove_folder(*filesystem_of(self.folder))


def new_script(checkpoint_dir: str) -> KeptScript:
    """Make a folder for the run of a script, and claim it. Raises ConfigurationError if this fails."""
    script = KeptScript(f"{_absolute(checkpoint_dir)}/{uuid4().hex}")
    try:
        script.claim()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--checkpoint-dir {checkpoint_dir}: {error}") from error
    return script


def scripts_in(checkpoint_dir: str) -> list[KeptScript]:
    """Return the runs of scripts that have a folder in `checkpoint_dir`.

    Raises ConfigurationError if it cannot be read.
    """
    above = _absolute(checkpoint_dir)
    try:
        names = _folders(above)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--checkpoint-dir {checkpoint_dir}: {error}") from error
    kept = [KeptScript(f"{above}/{name}") for name in names if _SCRIPT.fullmatch(name)]
    return [script for script in kept if _is_own(script)]


def _is_own(script: KeptScript) -> bool:
    system, path = filesystem_of(script.folder)
    try:
        if isinstance(system, fs.LocalFileSystem):
            require_own_folder(path)
    except OSError:  # it is another user's, or has just been removed
        return False
    return True


def _absolute(folder: str) -> str:
    """Return the absolute path of `folder`; URIs stay unchanged."""
    return folder.rstrip("/") if "://" in folder else os.path.abspath(folder.removeprefix("file:"))


def _folders(folder: str) -> list[str]:
    system, path = filesystem_of(folder)
    infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(info.base_name for info in infos if info.type == fs.FileType.Directory)


def _remove_if_there(system: fs.FileSystem, path: str) -> None:
    with suppress(FileNotFoundError):
        remove_once_written(system, path)


def _write(folder: str, name: str, value: Any) -> None:
    system, path = filesystem_of(folder)
    write_once(system, posixpath.join(path, name), value)


def _read(folder: str, name: str) -> Any:
    system, path = filesystem_of(folder)
    return read_once_written(system, posixpath.join(path, name))


# The key by which Penstock recognizes the files that it has saved itself.


_BYTES = 32


def state_key() -> bytes:
    """Return the key of this user's state folder, made at its first use.

    Raises OSError if it cannot be read or made.
    """
    return _key_in(str(state_folder()))


@cache
def _key_in(folder: str) -> bytes:
    system, path = fs.LocalFileSystem(), f"{folder}/key"
    while (key := read_once_written(system, path)) is None:
        write_once(system, path, secrets.token_hex(_BYTES))
    return bytes.fromhex(key)


# Runs of scripts, which `--resume` and `penstock clean` find by the id of one of their jobs.


def find_kept(prefix: str, checkpoint_dir: str | None) -> tuple[KeptScript, JobRecord | None]:
    """Return the run of the script with the job whose id begins with `prefix`, and the job if it is listed.

    Searches `checkpoint_dir`, if given, and the list of jobs. Raises InputError if there is no such job, if
    several jobs match, or if nothing of it is saved.
    """
    if checkpoint_dir is not None and prefix.strip():
        kept = {
            script.folder
            for script in scripts_in(checkpoint_dir)
            for _, job in script.jobs()
            if any(job_id.startswith(prefix.strip().lower()) for job_id in job.ids())
        }
        if len(kept) > 1:
            raise InputError(f"{checkpoint_dir} holds several jobs whose ids begin with {prefix!r}")
        if kept:
            listed = [
                listed_job
                for listed_job in list_jobs()
                if listed_job.job_id.startswith(prefix.strip().lower())
            ]
            return KeptScript(kept.pop()), listed[0] if len(listed) == 1 else None
    record = find_job(prefix)
    if record.submitted.kept_in is None:
        raise InputError(
            f"job {record.job_id} has not saved anything to resume from",
            "`penstock run --checkpoint-dir DIR` saves the output of finished vertices",
        )
    script = KeptScript(record.submitted.kept_in)
    if not any(record.job_id in job.ids() for _, job in script.jobs()):
        why = "it is FINISHED" if record.state == "FINISHED" else "it was removed"
        raise InputError(f"nothing of job {record.job_id} is saved: {why}")
    return script, record
