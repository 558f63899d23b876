"""The output of a vertex in files, written by its subtasks and read by the next vertex.

A file is an Arrow IPC stream of exchange rows, compressed with lz4. Rows hold pickles, so a file is read only
if its content is bit for bit the content that was written.
"""

import hashlib
import os
import posixpath
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import fs

from penstock.operators.files.durable_files import create_private_file, force_file
from penstock.operators.files.filesystem import filesystem_of

Rows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

KEPT = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
    ]
)
"""Columns of a row about a file: the fields of `KeptFile`."""

CANNOT_KEEP = "cannot write the output of a vertex to"
"""The beginning of error messages; the folder follows."""

_BUFFER = 1 << 20


class KeptFile(NamedTuple):
    """The output file of one subtask."""

    name: str
    size: int  #: bytes
    digest: str  #: SHA-256, in hex digits


def keep_rows(run: Rows, folder: str) -> Rows:
    """Return a function for mapInArrow that writes the rows of `run` into a new file of `folder`.

    It yields one row (KEPT) when the file is on the disk; only this user can read the file. It writes and
    yields nothing if `run` yields nothing.
    """

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        system, path = filesystem_of(folder)
        name = f"{uuid.uuid4().hex}.arrow"
        place = posixpath.join(path, name)
        written = run(batches)
        first = next(written, None)
        if first is None:
            return
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        opened = ExitStack()
        try:
            with _writing(folder):
                if isinstance(system, fs.LocalFileSystem):
                    os.close(create_private_file(place))
                stream = opened.enter_context(
                    system.open_output_stream(place, compression=None, buffer_size=_BUFFER)
                )
                hashed = _HashingStream(stream)
                writer = opened.enter_context(pa.ipc.new_stream(hashed, first.schema, options=options))
                writer.write_batch(first)
            for batch in written:
                with _writing(folder):
                    writer.write_batch(batch)
            with _writing(folder):
                opened.close()
                force_file(system, place)
        except BaseException:
            # closing writes as well: its error would hide the original one
            with suppress(OSError):
                opened.close()
            raise
        kept_file = KeptFile(name, system.get_file_info(place).size, hashed.digest())
        yield pa.RecordBatch.from_pylist([kept_file._asdict()], KEPT)

    return keep


@contextmanager
def _writing(folder: str) -> Iterator[None]:
    """Add the folder to an OSError raised inside the block."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"{CANNOT_KEEP} {folder}: {error}") from error


class _HashingStream:
    """A stream that passes on all data, and hashes it."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._hash = stream, hashlib.sha256()
        self.closed = False

    def write(self, data: Any) -> int:
        self._hash.update(data)
        return int(self._stream.write(data) or 0)

    def flush(self) -> None:
        pass

    def digest(self) -> str:
        return self._hash.hexdigest()


def read_rows(folder: str, files: Sequence[KeptFile]) -> Rows:
    """Return a function for mapInArrow that yields the rows of the files with the numbers in column `id`.

    Raises ValueError, before any row of a file, if its content has changed since it was written.
    """

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        system, path = filesystem_of(folder)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                place = posixpath.join(path, files[number].name)
                with system.open_input_file(place) as file:
                    _require_unchanged(file, place, files[number])
                    with pa.ipc.open_stream(file) as rows:
                        yield from rows

    return read


def _require_unchanged(file: Any, place: str, kept_file: KeptFile) -> None:
    hasher = hashlib.sha256()
    while data := file.read(_BUFFER):
        hasher.update(data)
    if hasher.hexdigest() != kept_file.digest:
        raise ValueError(f"{place} has changed since it was written: run the script again without --resume")
    file.seek(0)
