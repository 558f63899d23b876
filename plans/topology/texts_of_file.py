"""The text of a local file, unpacked, piece by piece."""

import os
from collections.abc import Callable, Iterator

import pyarrow as pa

from plans.topology.columnar.find_topology_files import STANDARD_INPUT, is_pipe
from plans.topology.input_errors import incomplete_gzip, unreadable_file, unusable_path

BLOCK_BYTES = 4 * 2**20
"""Read at once."""

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
SPARK_ONLY = (".deflate", ".lz4", ".snappy")
_GZIP_MARK = b"\x1f\x8b"


def texts_of_file(
    file: str, before_block: Callable[[], None] = lambda: None, *, start: int = 0
) -> Iterator[bytes]:
    """The text from byte `start` on, which is 0 for compressed files and pipes, BLOCK_BYTES at a time.

    `before_block` is called before each block is read; what it raises stops the reading. Raises InputError.
    """
    suffix = os.path.splitext(file)[1].lower()
    if suffix in SPARK_ONLY:
        raise unusable_path(file, f"{suffix} files are read by Spark only")
    codec = None
    try:
        opened, codec = _opened(file)
        with opened as raw:
            if start:
                raw.seek(start)
            stream = raw if codec is None else pa.CompressedInputStream(raw, codec)
            before_block()
            while text := stream.read(BLOCK_BYTES):
                yield text
                before_block()
    except OSError as error:
        if codec == "gzip" and error.errno is None:  # not the system's, so the codec's
            raise incomplete_gzip(file) from None
        raise unreadable_file(file, error.strerror or str(error)) from None


def _opened(file: str) -> tuple[pa.NativeFile, str | None]:
    """The file to read, and how it is packed; Arrow's own files seek, which pipes cannot.

    Standard input has no name to say so, and other pipes need not: they are gzip if they begin as gzip does.
    """
    codec = CODECS.get(os.path.splitext(file)[1].lower())
    if not is_pipe(file):
        return pa.OSFile(os.fsencode(file)), codec
    from_start = file != STANDARD_INPUT
    opened = open(file if from_start else 0, "rb", closefd=from_start)  # noqa: SIM115 - the caller closes it
    packed = codec is None and opened.peek(len(_GZIP_MARK))[: len(_GZIP_MARK)] == _GZIP_MARK
    return pa.PythonFile(opened), "gzip" if packed else codec
