"""What a vertex puts out, in files: written by its subtasks, read by those of the next vertex.

A file is an Arrow IPC stream of exchange rows, compressed with lz4.
"""

import posixpath
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import pyarrow as pa

from operators.files.durable_files import force_file
from operators.files.filesystem import filesystem_of

Rows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

KEPT = pa.schema(
    [pa.field("name", pa.string(), nullable=False), pa.field("size", pa.int64(), nullable=False)]
)
"""What is told of a file."""

CANNOT_KEEP = "cannot write what a vertex puts out to"
"""How errors begin, before the folder."""

_BUFFER = 1 << 20


def keep_rows(run: Rows, folder: str) -> Rows:
    """A function for mapInArrow: writes what `run` gives into a new file of `folder`, and gives a row (KEPT).

    The file is on the disk when the row is given. Nothing is given where `run` gives nothing.
    """

    def keep(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        system, path = filesystem_of(folder)
        name = f"{uuid.uuid4().hex}.arrow"
        place = posixpath.join(path, name)
        given = run(batches)
        first = next(given, None)
        if first is None:
            return
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        opened = ExitStack()
        try:
            with _writing(folder):
                stream = opened.enter_context(
                    system.open_output_stream(place, compression=None, buffer_size=_BUFFER)
                )
                writer = opened.enter_context(pa.ipc.new_stream(stream, first.schema, options=options))
                writer.write_batch(first)
            for batch in given:
                with _writing(folder):
                    writer.write_batch(batch)
            with _writing(folder):
                opened.close()
                force_file(system, place)
        except BaseException:
            # closing writes, too: what it says would take the place of what went wrong
            with suppress(OSError):
                opened.close()
            raise
        yield pa.RecordBatch.from_pydict({"name": [name], "size": [system.get_file_info(place).size]}, KEPT)

    return keep


@contextmanager
def _writing(folder: str) -> Iterator[None]:
    """Inside the block, an OSError says which folder refuses."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"{CANNOT_KEEP} {folder}: {error}") from error


def read_rows(folder: str, names: Sequence[str]) -> Rows:
    """A function for mapInArrow: gives the rows of the files whose numbers column `id` of its input has."""

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        system, path = filesystem_of(folder)
        for batch in batches:
            for number in batch.column("id").to_pylist():
                with (
                    system.open_input_stream(
                        posixpath.join(path, names[number]), compression=None, buffer_size=_BUFFER
                    ) as stream,
                    pa.ipc.open_stream(stream) as rows,
                ):
                    yield from rows

    return read
