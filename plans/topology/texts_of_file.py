"""The text of a local file, unpacked, piece by piece."""

import os
from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.plans.errors import InputError
from penstock.plans.topology.columnar.find_topology_files import STANDARD_INPUT, is_pipe
from penstock.plans.topology.input_errors import incomplete_gzip, unreadable_file
from penstock.plans.topology.unpacked_texts import CODECS, unpacked_texts

BLOCK_BYTES = 4 * 2**20
"""Read at once."""

_GZIP_MARK = b"\x1f\x8b"


def texts_of_file(
    file: str, before_block: Callable[[], None] = lambda: None, *, start: int = 0
) -> Iterator[bytes]:
    """The text from byte `start` on, which is 0 for compressed files and pipes, BLOCK_BYTES at a time.

    `before_block` is called before each block is read; what it raises stops the reading. Raises InputError.
    """
    codec = None
    try:
        opened, codec = _opened(file)
        with opened as raw:
            if start:
                raw.seek(start)
            before_block()
            for text in _pieces(raw) if codec is None else unpacked_texts(raw, codec, BLOCK_BYTES):
                yield text
                before_block()
    except OSError as error:
        raise broken_file(file, codec, error) from None


def broken_file(file: str, codec: str | None, error: OSError) -> InputError:
    """What is wrong with a file that cannot be read to its end."""
    if codec == "gzip" and error.errno is None:  # not the system's, so the codec's
        return incomplete_gzip(file)
    return unreadable_file(file, error.strerror or str(error))


def _pieces(raw: pa.NativeFile) -> Iterator[bytes]:
    while text := raw.read(BLOCK_BYTES):
        yield text


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
