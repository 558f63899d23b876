"""Bytes of a file, decompressed by what its name ends in.

Source: org.apache.flink.connector.file.src.compression.StandardDeCompressors.
"""

import bz2
import gzip
import lzma
import os
import zlib
from typing import IO, Any, cast

from penstock.operators.files.filesystem import filesystem_of

_OPENERS: dict[str, Any] = {
    ".gz": gzip.open,
    ".gzip": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}

_SKIPPED_AT_ONCE = 1 << 20


def is_compressed(path: str) -> bool:
    """Whether the file can only be read from its beginning. Zstandard is beyond what Flink knows."""
    return os.path.splitext(path)[1] in {*_OPENERS, ".deflate", ".zst"}


def open_bytes(path: str) -> IO[bytes]:
    """The file's bytes from the beginning, decompressed."""
    system, inside = filesystem_of(path)
    ending = os.path.splitext(path)[1]
    if ending == ".zst":
        return cast("IO[bytes]", system.open_input_stream(inside, compression="zstd"))
    raw = system.open_input_stream(inside, compression=None)
    if ending in _OPENERS:
        return cast("IO[bytes]", _OPENERS[ending](raw, "rb"))
    if ending == ".deflate":
        return cast("IO[bytes]", _Inflated(raw))
    return cast("IO[bytes]", raw)


def open_at(path: str, start: int) -> IO[bytes]:
    """The file's bytes as they are, from `start` on."""
    system, inside = filesystem_of(path)
    file = system.open_input_file(inside)
    file.seek(start)
    return cast("IO[bytes]", file)


def skip_bytes(file: IO[bytes], size: int) -> None:
    """Read and drop `size` bytes; works for streams that cannot seek."""
    while size and (data := file.read(min(size, _SKIPPED_AT_ONCE))):
        size -= len(data)


class _Inflated:
    """A zlib stream; the standard library has no file for it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._inflate = raw, zlib.decompressobj()

    def read(self, size: int = -1) -> bytes:
        data = b""
        while not data and not self._inflate.eof:
            compressed = self._inflate.unconsumed_tail or self._raw.read(1 << 16)
            data = self._inflate.decompress(compressed, max(size, 0)) if compressed else self._inflate.flush()
            if not compressed and not data and not self._inflate.eof:
                raise EOFError("the file ends in the middle of its compressed data")
        return data

    def close(self) -> None:
        self._raw.close()

    def __enter__(self) -> "_Inflated":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
