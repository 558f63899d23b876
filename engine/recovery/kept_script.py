"""The folder of a script's run that keeps finished data sets: who works on it, and what it holds."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyarrow import fs

from engine.commits.run_owner import describe_owner, liveness, this_process
from operators.files.durable_files import (
    force_folder,
    make_folder,
    read_once_written,
    remove_folder,
    write_once,
)
from operators.files.filesystem import filesystem_of
from plans.errors import ConfigurationError, InputError

_SCRIPT = re.compile("[0-9a-f]{32}")
_JOB = re.compile(r"job-\d+")
_ID = "id-"


@dataclass(frozen=True)
class KeptFile:
    """What one subtask has put out."""

    name: str
    size: int  #: bytes


@dataclass(frozen=True)
class KeptScript:
    """A run of a script; `folder` is an absolute path or a URI."""

    folder: str

    def job(self, number: int) -> KeptJob:
        """Job number `number` of the script, from 0."""
        return KeptJob(f"{self.folder}/job-{number}")

    def claim(self) -> None:
        """From now on this process works on it. InputError where another one does, or may."""
        system, path = filesystem_of(self.folder)
        make_folder(system, path)
        number = 0
        while True:
            found = read_once_written(system, posixpath.join(path, f"claimed-{number}"))
            if found is None:
                if write_once(system, posixpath.join(path, f"claimed-{number}"), this_process()):
                    return
                continue
            if found == this_process():
                return
            if liveness(found) != "dead":
                raise InputError(
                    f"{self.folder}: {describe_owner(found)} works on this run, or may do so",
                    "cancel its job first; on another machine, wait for its end",
                )
            number += 1

    def is_claimed(self) -> bool:
        """Whether a process works on it, or may do so."""
        system, path = filesystem_of(self.folder)
        owner, number = None, 0
        while (found := read_once_written(system, posixpath.join(path, f"claimed-{number}"))) is not None:
            owner, number = found, number + 1
        return owner is not None and liveness(owner) != "dead"

    def note_done(self, number: int, name: str) -> None:
        """Job number `number` has finished; it is not to run again."""
        _write(self.folder, f"done-{number}", name)

    def name_of_done(self, number: int) -> str | None:
        """The name of job number `number`, if it has finished."""
        return _read(self.folder, f"done-{number}")  # type: ignore[no-any-return]

    def jobs(self) -> Iterator[tuple[int, KeptJob]]:
        """The jobs that have not finished, by number."""
        for name in _folders(self.folder):
            if _JOB.fullmatch(name):
                yield int(name.removeprefix("job-")), KeptJob(f"{self.folder}/{name}")

    def remove(self) -> None:
        """Remove all that it keeps."""
        remove_folder(*filesystem_of(self.folder))


@dataclass(frozen=True)
class KeptJob:
    """A job of a script, and those of its vertices that have finished."""

    folder: str

    def plan(self) -> Any:
        """What identified its plan; None if it was not run yet."""
        return _read(self.folder, "plan")

    def begin(self, plan: Any, job_id: str) -> None:
        """Run the job under an id; `plan` is what identifies its plan."""
        make_folder(*filesystem_of(self.folder))
        _write(self.folder, "plan", plan)
        _write(self.folder, f"{_ID}{job_id}", True)

    def ids(self) -> list[str]:
        """The ids that it has had."""
        system, path = filesystem_of(self.folder)
        found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        return [one.base_name.removeprefix(_ID) for one in found if one.base_name.startswith(_ID)]

    def vertex_folder(self, vertex_id: str) -> str:
        """Where the files of a vertex are."""
        return f"{self.folder}/{vertex_id}"

    def begin_vertex(self, vertex_id: str) -> str:
        """The folder of a vertex that is about to run, without what an earlier run has left there."""
        system, path = filesystem_of(self.vertex_folder(vertex_id))
        remove_folder(system, path)
        make_folder(system, path)
        return self.vertex_folder(vertex_id)

    def complete_vertex(self, vertex_id: str, files: Sequence[KeptFile]) -> None:
        """All subtasks of a vertex have finished; when this returns, nothing of `files` can be lost."""
        force_folder(*filesystem_of(self.vertex_folder(vertex_id)))
        _write(self.folder, f"{vertex_id}.complete", [[one.name, one.size] for one in files])

    def files_of(self, vertex_id: str) -> list[KeptFile] | None:
        """What a vertex has put out; None if it is not complete, or a file is not there as it was."""
        found = _read(self.folder, f"{vertex_id}.complete")
        if found is None:
            return None
        files = [KeptFile(str(name), int(size)) for name, size in found]
        system, path = filesystem_of(self.vertex_folder(vertex_id))
        there = system.get_file_info([posixpath.join(path, one.name) for one in files])
        if [info.size for info in there] == [one.size for one in files]:
            return files
        system.delete_file(posixpath.join(filesystem_of(self.folder)[1], f"{vertex_id}.complete"))
        return None

    def remove(self) -> None:
        """Remove all that it keeps."""
        remove_folder(*filesystem_of(self.folder))


def new_script(checkpoint_dir: str) -> KeptScript:
    """A folder for the run of a script, claimed by this process. ConfigurationError where it cannot be."""
    made = KeptScript(f"{_absolute(checkpoint_dir)}/{uuid4().hex}")
    try:
        made.claim()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--checkpoint-dir {checkpoint_dir}: {error}") from error
    return made


def scripts_in(checkpoint_dir: str) -> list[KeptScript]:
    """The runs of scripts that have a folder in `checkpoint_dir`; ConfigurationError if it cannot be read."""
    above = _absolute(checkpoint_dir)
    try:
        names = _folders(above)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"--checkpoint-dir {checkpoint_dir}: {error}") from error
    return [KeptScript(f"{above}/{name}") for name in names if _SCRIPT.fullmatch(name)]


def _absolute(folder: str) -> str:
    """`folder` from wherever it is used; URIs stay as they are."""
    return folder.rstrip("/") if "://" in folder else os.path.abspath(folder.removeprefix("file:"))


def _folders(folder: str) -> list[str]:
    system, path = filesystem_of(folder)
    found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(one.base_name for one in found if one.type == fs.FileType.Directory)


def _write(folder: str, name: str, value: Any) -> None:
    system, path = filesystem_of(folder)
    write_once(system, posixpath.join(path, name), value)


def _read(folder: str, name: str) -> Any:
    system, path = filesystem_of(folder)
    return read_once_written(system, posixpath.join(path, name))
