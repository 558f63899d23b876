"""The text of a local file, unpacked, piece by piece."""

import os
from collections.abc import Callable, Iterator

import pyarrow as pa

from plans.topology.input_errors import incomplete_gzip, unreadable_file, unusable_path

BLOCK_BYTES = 4 * 2**20
"""Read at once."""

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
SPARK_ONLY = (".deflate", ".lz4", ".snappy")


def texts_of_file(
    file: str, before_block: Callable[[], None] = lambda: None, *, start: int = 0, seeks: bool = True
) -> Iterator[bytes]:
    """The text from byte `start` on, which is 0 for compressed files, BLOCK_BYTES at a time.

    `before_block` is called before each block is read; what it raises stops the reading. `seeks`: False for
    pipes. Raises InputError.
    """
    suffix = os.path.splitext(file)[1].lower()
    if suffix in SPARK_ONLY:
        raise unusable_path(file, f"{suffix} files are read by Spark only")
    codec = CODECS.get(suffix)
    try:
        # Arrow's own files seek, which pipes cannot.
        with pa.OSFile(os.fsencode(file)) if seeks else pa.PythonFile(open(file, "rb")) as raw:
            if start:
                raw.seek(start)
            stream = raw if codec is None else pa.CompressedInputStream(raw, codec)
            before_block()
            while text := stream.read(BLOCK_BYTES):
                yield text
                before_block()
    except OSError as error:
        if suffix == ".gz" and error.errno is None:  # not the system's, so the codec's
            raise incomplete_gzip(file) from None
        raise unreadable_file(file, error.strerror or str(error)) from None
