"""Stage files under a hidden name, and rename them at the commit.

All files that one run of a sink stages lie in one folder, `.penstock-<write id>` in the sink's own, with a
folder for each attempt of a subtask. Readers (of Spark, Hive, Flink and this project) skip names that start
with a dot. The driver creates the run's folder before any subtask runs, and subtasks never do: a subtask that
outlives its run fails instead of leaving files that are never removed.

Source: org.apache.flink.core.fs.RecoverableWriter and
org.apache.flink.connector.file.sink.committer.FileCommitter, for the failures that a commit must survive.
"""

from __future__ import annotations

import errno
import json
import os
import posixpath
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Self

import orjson
import pyarrow as pa
from pyarrow import fs
from xxhash import xxh3_128

from penstock.operators.chain.operator import OperatorContext, Timestamps, Values
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.sink import Committable, LostFilesError, Recovery, Sink, SinkWriter
from penstock.operators.files.durable_files import (
    create_private_file,
    force_file,
    force_folder,
    make_folder,
    move_file,
    open_folder,
    read_own_file,
    remove_folder,
    write_private_file,
)
from penstock.operators.files.filesystem import filesystem_of
from penstock.operators.files.lines import python_charset
from penstock.operators.formats.json_values import to_json
from penstock.operators.formats.part_formats import (
    CsvColumnsFormat,
    ParquetFormat,
    PartFormat,
    PartWriter,
    RowFormat,
    TextLines,
)

DIGEST = "digest"
"""The detail of a committable with the `content_digest` of its file."""

_TEST_RECORD = "tried"
"""The file of a staging folder that names the files and folders of the test of renaming."""

_BUFFER = 1 << 20


def staging_folder(base: str, write_id: str) -> str:
    """Return the folder in which one run of a sink stages its files."""
    if not write_id:
        raise RuntimeError("a sink can only be written after start()")
    return posixpath.join(base, f".penstock-{write_id}")


def make_staging_folder(base: str, write_id: str) -> None:
    """Create the folder in which the subtasks of a run stage files. Raises OSError if that fails."""
    system, inside = filesystem_of(base)
    system.create_dir(staging_folder(inside, write_id), recursive=True)


class StagedFiles:
    """The files that one attempt of a subtask stages; `base` is a path or URI."""

    def __init__(self, base: str, write_id: str, context: OperatorContext) -> None:
        self._system, self._base = filesystem_of(base)
        # Spark restarts the count of attempts when it reruns a stage: the number alone is not unique
        attempt = f"{context.subtask}-{context.attempt_number}-{uuid.uuid4().hex[:8]}"
        self._folder = posixpath.join(staging_folder(self._base, write_id), attempt)
        self._subtask = context.subtask
        self._opened = 0

    def open(self, name: str) -> tuple[Any, str]:
        """Return a stream for the file that will be `name` (relative to the base), and its current path."""
        staged = posixpath.join(self._folder, f"{self._opened}")
        if not self._opened:
            self._make_folder()
        self._opened += 1
        return self._system.open_output_stream(staged, compression=None, buffer_size=_BUFFER), staged

    def committable(
        self, staged: str, name: str, details: dict[str, Any] | None = None, *, is_unique: bool = True
    ) -> Committable:
        """Return the committable that makes a closed file visible as `name`; force the file to the disk.

        `is_unique`: no other run gives a file this name.
        """
        force_file(self._system, staged)
        size = self._system.get_file_info(staged).size
        digest_detail = {} if is_unique else {DIGEST: content_digest(self._system, staged)}
        target = posixpath.join(self._base, name)
        return Committable(staged, target, size, self._subtask, {**(details or {}), **digest_detail})

    def _make_folder(self) -> None:
        try:
            self._system.create_dir(self._folder, recursive=False)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{posixpath.dirname(self._folder)} does not exist: the run has ended, or this machine does "
                "not see the folder of the driver"
            ) from None

    def remove(self) -> None:
        """Delete all files of this attempt."""
        remove_folder(self._system, self._folder)


def prepare_files(base: str, write_id: str, committables: Iterable[Committable]) -> None:
    """Check that staged files can be renamed, by renaming an empty one; force names to the disk.

    Raises LostFilesError if a file is neither staged nor at its target, because it was deleted; ValueError if
    a target is not below `base`; OSError if its folder cannot be created, or refuses the name.
    """
    system, inside = filesystem_of(base)
    make_folder(system, inside)
    folders = set()
    staging = staging_folder(inside, write_id)
    waiting = []
    for committable in committables:
        _require_within(committable, staging, inside)
        if system.get_file_info(committable.staged).type == fs.FileType.File:
            folders.add(posixpath.dirname(committable.staged))
            waiting.append(committable)
        else:
            _require_published(system, committable)
    _require_targets(system, inside, staging, [committable.target for committable in waiting])
    if folders:
        folders |= {staging, inside}
        folders |= {above for folder in folders if (above := posixpath.dirname(folder)).startswith(staging)}
    for folder in sorted(folders):
        force_folder(system, folder)


def commit_files(base: str, write_id: str, committables: Iterable[Committable]) -> None:
    """Rename staged files to their targets, then delete all other staged files; may be repeated.

    When it returns, the files are on the disk under their new names. Raises LostFilesError if a file is
    neither staged nor at its target, because it was deleted; ValueError if a file would leave `base`; OSError
    if a link is on its path.
    """
    system, inside = filesystem_of(base)
    staging = staging_folder(inside, write_id)
    changed_folders = {inside}
    make_folder(system, inside)
    for committable in committables:
        _require_within(committable, staging, inside)
        folder = posixpath.dirname(committable.target)
        if folder not in changed_folders:
            _make_bucket(system, inside, folder)
            changed_folders.add(folder)
        if system.get_file_info(committable.staged).type != fs.FileType.File:
            _require_published(system, committable)
            continue
        try:
            move_file(system, committable.staged, committable.target, inside)
        except FileNotFoundError:  # another process finishes the same commit
            _require_published(system, committable)
    for folder in sorted(changed_folders):
        force_folder(system, folder)
    remove_folder(system, staging)


def abort_files(base: str, write_id: str) -> None:
    """Delete all files that a run has staged."""
    system, inside = filesystem_of(base)
    staging = staging_folder(inside, write_id)
    if isinstance(system, fs.LocalFileSystem):
        _remove_test_paths(inside, staging)
    remove_folder(system, staging)


def content_digest(system: fs.FileSystem, path: str) -> str:
    """Return the XXH3-128 of a file, in hex digits. Raises OSError if it cannot be read."""
    digest = xxh3_128()
    with system.open_input_stream(path, compression=None) as stream:
        while data := stream.read(_BUFFER):
            digest.update(data)
    return digest.hexdigest()


def _require_targets(system: fs.FileSystem, base: str, staging: str, targets: list[str]) -> None:
    """Raise OSError unless files can be renamed to `targets`; remove the files and folders of the test.

    The files and folders are recorded in the staging folder before they are created, for `abort_files` after
    a kill.
    """
    by_folder: dict[str, list[str]] = {}
    for target in targets:
        by_folder.setdefault(posixpath.dirname(target), []).append(target)
        if system.get_file_info(target).type == fs.FileType.Directory:
            raise IsADirectoryError(errno.EISDIR, "a folder is at the path of a file", target)
    if not isinstance(system, fs.LocalFileSystem) or not targets:
        return
    longest = {
        folder: max(inside, key=lambda target: len(os.fsencode(posixpath.basename(target))))
        for folder, inside in by_folder.items()
    }
    hidden = {folder: _hidden_name(staging, target) for folder, target in longest.items()}
    missing = sorted({path for folder in by_folder for path in _missing_folders(base, folder)}, key=len)
    test_paths = [
        posixpath.relpath(path, base) for path in (*hidden.values(), *reversed(missing))
    ]  # it may be moved
    write_private_file(posixpath.join(staging, _TEST_RECORD), json.dumps(test_paths).encode())
    try:
        for folder, target in longest.items():
            with open_folder(base, folder, make=True):
                pass
            _try_rename(system, base, staging, target, hidden[folder])
    finally:
        _remove_test_paths(base, staging)


def _missing_folders(base: str, folder: str) -> list[str]:
    """Return the missing folders from `folder` up to `base`."""
    missing = []
    while folder != base and not os.path.lexists(folder):
        missing.append(folder)
        folder = posixpath.dirname(folder)
    return missing


def _hidden_name(staging: str, target: str) -> str:
    """Return a hidden name in the same folder as `target`, and as long as its name."""
    size = len(os.fsencode(posixpath.basename(target)))
    return posixpath.join(posixpath.dirname(target), f"{posixpath.basename(staging)}-".ljust(size, "x"))


def _try_rename(system: fs.FileSystem, base: str, staging: str, target: str, hidden: str) -> None:
    """Rename an empty file to `hidden`. Raises OSError that names the target."""
    test_path = posixpath.join(staging, f".{uuid.uuid4().hex}")
    os.close(create_private_file(test_path))
    try:
        move_file(system, test_path, hidden, base)
    except OSError as error:
        raise OSError(error.errno, f"a file cannot be renamed to it: {error.strerror}", target) from None


def _remove_test_paths(base: str, staging: str) -> None:
    """Remove the hidden files and empty folders that `_require_targets` has left."""
    record = posixpath.join(staging, _TEST_RECORD)
    try:
        test_paths = json.loads(read_own_file(record))
    except (OSError, ValueError):
        return
    hidden = f"{posixpath.basename(staging)}-"
    for path in (posixpath.join(base, name_in_base) for name_in_base in test_paths):
        name = posixpath.basename(path)
        with suppress(OSError), open_folder(base, posixpath.dirname(path)) as folder:
            if name.startswith(hidden):
                os.unlink(name, dir_fd=folder)
            else:
                os.rmdir(name, dir_fd=folder)
    os.unlink(record)


def _make_bucket(system: fs.FileSystem, base: str, folder: str) -> None:
    if not isinstance(system, fs.LocalFileSystem):
        make_folder(system, folder)
        return
    with open_folder(base, folder, make=True):
        pass


def _require_within(committable: Committable, staging: str, base: str) -> None:
    if not (_is_below(committable.staged, staging) and _is_below(committable.target, base)):
        raise ValueError(
            f"{committable.staged} to {committable.target}: a sink can only rename files within its folder"
        )


def _require_published(system: fs.FileSystem, committable: Committable) -> None:
    """Raise LostFilesError unless the file at the target is the staged one."""
    info = system.get_file_info(committable.target)
    if info.type != fs.FileType.File:
        raise LostFilesError(
            f"{committable.staged} was written, but is neither there nor at {committable.target}"
        )
    if info.size != committable.size or committable.details.get(DIGEST, "") not in (
        "",
        content_digest(system, committable.target),
    ):
        raise LostFilesError(
            f"{committable.staged} was written, but is missing; {committable.target} is another file"
        )


def _is_below(path: str, folder: str) -> bool:
    return path == posixpath.normpath(path) and path.startswith(folder.rstrip("/") + "/")


# Sinks of files in one folder: text, CSV, JSON lines, Parquet
#
# Each subtask writes one file, `part-<subtask>-<write id><suffix>`, into `path`, next to other files. All
# files become visible at the commit. A subtask without records writes none.


class PartFileSink(Sink):
    """Writes one file per subtask, in one format."""

    def __init__(self, path: str, part_format: PartFormat, suffix: str) -> None:
        super().__init__()
        self.path, self.part_format, self.suffix = path, part_format, suffix
        self.columnar = part_format.columnar

    def start(self, write_id: str | None = None, type_info: TypeInformation | None = None) -> Self:
        started = super().start(write_id, type_info)
        started.part_format = self.part_format.for_type(type_info)
        return started

    def begin(self) -> None:
        make_staging_folder(self.path, self.write_id)

    def writer(self, context: OperatorContext) -> SinkWriter:
        name = f"part-{context.subtask:05d}-{self.write_id}{self.suffix}"
        return _SingleFileWriter(StagedFiles(self.path, self.write_id, context), self.part_format, name)

    def prepare(self, committables: list[Committable]) -> list[Committable]:
        prepare_files(self.path, self.write_id, committables)
        return committables

    def commit(self, committables: list[Committable]) -> None:
        commit_files(self.path, self.write_id, committables)

    def recovery(self) -> Recovery:
        return Recovery("files", self.path)

    def abort(self, committables: list[Committable] | None = None) -> None:
        abort_files(self.path, self.write_id)


class TextSink(PartFileSink):
    """Writes one line per record, as Java's toString; strings as they are.

    Args:
        path: A folder; it is made if missing.
        charset: A charset of Python; default UTF-8.
        suffix: End of file names; default ".txt".

    Raises:
        LookupError: Unknown charset.
    """

    def __init__(self, path: str, *, charset: str = "UTF-8", suffix: str = ".txt") -> None:
        super().__init__(path, TextLines(python_charset(charset)), suffix)


class CsvSink(PartFileSink):
    """Writes CSV files with a header.

    Args:
        path: A folder; it is made if missing.
        type_info: A row or tuple type without nested fields.
        header: Whether each file starts with the names.
        delimiter: One character.

    Raises:
        TypeError: The type has no columns, or nested ones.
    """

    def __init__(
        self, path: str, type_info: TypeInformation, *, header: bool = True, delimiter: str = ","
    ) -> None:
        super().__init__(path, CsvColumnsFormat(type_info, header=header, delimiter=delimiter), ".csv")


class JsonLinesSink(PartFileSink):
    """Writes one JSON value per line: rows as objects.

    Floats are as orjson writes them; infinities and NaN become null.

    Args:
        path: A folder; it is made if missing.
        type_info: A row type; default: each value as orjson writes it.
    """

    def __init__(self, path: str, type_info: TypeInformation | None = None) -> None:
        super().__init__(path, JsonLinesFormat(type_info), ".jsonl")


class ParquetSink(PartFileSink):
    """Writes Parquet files.

    Args:
        path: A folder; it is made if missing.
        type_info: A row or tuple type.
        row_group_rows: Rows of a row group, 1 or more; default 131,072.
        compression: A codec of Parquet; default "snappy".

    Raises:
        TypeError: The type has no columns.
    """

    def __init__(
        self,
        path: str,
        type_info: TypeInformation,
        *,
        row_group_rows: int = 131_072,
        compression: str = "snappy",
    ) -> None:
        super().__init__(path, ParquetFormat(type_info, row_group_rows, compression), ".parquet")


class JsonLinesFormat(RowFormat):
    """A JSON value and a line feed for each record."""

    def __init__(self, type_info: TypeInformation | None) -> None:
        self.type_info = type_info
        to_json(type_info, java_numbers=False)  # raises TypeError here instead of in the subtasks

    def encode(self, values: Values) -> list[bytes]:
        """Return the lines. Raises TypeError for values that JSON cannot represent."""
        convert: Callable[[Any], Any] = to_json(self.type_info, java_numbers=False)
        dumps, option = orjson.dumps, orjson.OPT_APPEND_NEWLINE
        return [dumps(convert(value), None, option) for value in values]


class _SingleFileWriter(SinkWriter):
    """Writes the only file of an attempt, opened with the first record."""

    def __init__(self, files: StagedFiles, part_format: PartFormat, name: str) -> None:
        self._files, self._format, self._name = files, part_format, name
        self._stream: Any = None
        self._staged = ""

    def write(self, values: Values, timestamps: Timestamps) -> None:
        self._opened().write(values)

    def write_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        self._opened().write_batch(batch)

    def finish(self) -> list[Committable]:
        if self._stream is None:
            return []
        self._part.finish()
        self._stream.close()
        return [self._files.committable(self._staged, self._name)]

    def abort(self) -> None:
        if self._stream is not None:
            self._part.close()
            self._stream.close()
        self._files.remove()

    def _opened(self) -> PartWriter:
        if self._stream is None:
            self._stream, self._staged = self._files.open(self._name)
            self._part = self._format.open(self._stream)
        return self._part
