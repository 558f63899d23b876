"""Files that are written under a hidden name and renamed by the commit.

What one run of a sink stages lies in one folder, `.penstock-<write id>` in the sink's own, below which every
attempt of a subtask has a folder for itself. Readers (Spark's, Hive's, Flink's and this project's) skip names
that start with a dot. The driver makes the run's folder before any subtask runs, and subtasks never do: a
subtask that outlives its run fails instead of leaving files that nobody removes.

Source: org.apache.flink.core.fs.RecoverableWriter and
org.apache.flink.connector.file.sink.committer.FileCommitter, for what a commit has to survive.
"""

import posixpath
import uuid
from collections.abc import Iterable
from typing import Any

from pyarrow import fs

from operators.chain.operator import OperatorContext
from operators.connectors.sink import Committable
from operators.files.durable_files import (
    force_file,
    force_folder,
    make_folder,
    move_file,
    remove_folder,
)
from operators.files.filesystem import filesystem_of

_BUFFER = 1 << 20


def staging_folder(base: str, write_id: str) -> str:
    """Where one run of a sink stages its files."""
    if not write_id:
        raise RuntimeError("a sink is written after start() only")
    return posixpath.join(base, f".penstock-{write_id}")


def make_staging_folder(base: str, write_id: str) -> None:
    """Make the folder that the subtasks of a run stage in. OSError where that cannot be."""
    system, inside = filesystem_of(base)
    system.create_dir(staging_folder(inside, write_id), recursive=True)


class StagedFiles:
    """The files that one attempt of a subtask stages; `base` is a path or URI."""

    def __init__(self, base: str, write_id: str, context: OperatorContext) -> None:
        self._system, self._base = filesystem_of(base)
        # Spark counts attempts anew when it runs a stage a second time: the number alone is no name
        attempt = f"{context.subtask}-{context.attempt_number}-{uuid.uuid4().hex[:8]}"
        self._folder = posixpath.join(staging_folder(self._base, write_id), attempt)
        self._subtask = context.subtask
        self._opened = 0

    def open(self, name: str) -> tuple[Any, str]:
        """A stream for the file that will be `name` (relative to the base), and where it lies until then."""
        staged = posixpath.join(self._folder, f"{self._opened}")
        if not self._opened:
            self._make_folder()
        self._opened += 1
        return self._system.open_output_stream(staged, compression=None, buffer_size=_BUFFER), staged

    def committable(self, staged: str, name: str, details: dict[str, Any] | None = None) -> Committable:
        """What makes a closed file visible as `name`; the file is on the disk when this returns."""
        force_file(self._system, staged)
        size = self._system.get_file_info(staged).size
        return Committable(staged, posixpath.join(self._base, name), size, self._subtask, details or {})

    def _make_folder(self) -> None:
        try:
            self._system.create_dir(self._folder, recursive=False)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{posixpath.dirname(self._folder)} is not there: the run has ended, or this machine does "
                "not see the folder in which the driver has made it"
            ) from None

    def remove(self) -> None:
        """Delete everything that this attempt has written."""
        remove_folder(self._system, self._folder)


def prepare_files(base: str, write_id: str, committables: Iterable[Committable]) -> None:
    """Force the names of staged files to the disk.

    FileNotFoundError where a file is neither staged nor at its target: somebody has deleted it.
    """
    system, inside = filesystem_of(base)
    make_folder(system, inside)
    folders = set()
    for one in committables:
        if system.get_file_info(one.staged).type == fs.FileType.File:
            folders.add(posixpath.dirname(one.staged))
        else:
            _require(system, one)
    staging = staging_folder(inside, write_id)
    if folders:
        folders |= {staging, inside}
        folders |= {folder for one in list(folders) if (folder := posixpath.dirname(one)).startswith(staging)}
    for folder in sorted(folders):
        force_folder(system, folder)


def commit_files(base: str, write_id: str, committables: Iterable[Committable]) -> None:
    """Rename staged files to their targets, then delete what else was staged; may be repeated.

    When it returns, the files are on the disk under their new names. FileNotFoundError where a file is
    neither staged nor at its target: somebody has deleted it. ValueError where one would leave `base`.
    """
    system, inside = filesystem_of(base)
    staging = staging_folder(inside, write_id)
    made = {inside}
    make_folder(system, inside)
    for one in committables:
        if not (_is_below(one.staged, staging) and _is_below(one.target, inside)):
            raise ValueError(f"{one.staged} to {one.target}: a sink renames files within its folder only")
        folder = posixpath.dirname(one.target)
        if folder not in made:
            make_folder(system, folder)
            made.add(folder)
        if system.get_file_info(one.staged).type != fs.FileType.File:
            _require(system, one)
            continue
        try:
            move_file(system, one.staged, one.target)
        except FileNotFoundError:  # another process finishes the same commit
            _require(system, one)
    for folder in sorted(made):
        force_folder(system, folder)
    remove_folder(system, staging)


def abort_files(base: str, write_id: str) -> None:
    """Delete everything that a run has staged."""
    system, inside = filesystem_of(base)
    remove_folder(system, staging_folder(inside, write_id))


def _require(system: fs.FileSystem, one: Committable) -> None:
    if system.get_file_info(one.target).type != fs.FileType.File:
        raise FileNotFoundError(f"{one.staged}: it was written, and is neither there nor at {one.target}")


def _is_below(path: str, folder: str) -> bool:
    return posixpath.normpath(path).startswith(folder.rstrip("/") + "/")
