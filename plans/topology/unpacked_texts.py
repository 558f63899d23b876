"""Decompress files piece by piece, in the formats that Hadoop's codecs write.

Source: the codecs of org.apache.hadoop.io.compress; for .lz4 and .snappy, BlockCompressorStream.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.plans.errors import InputError
from penstock.plans.topology.find_topology_files import STANDARD_INPUT, is_pipe
from penstock.plans.topology.input_errors import incomplete_gzip, unreadable_file

CODECS = {
    ".gz": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".deflate": "deflate",
    ".lz4": "lz4",
    ".snappy": "snappy",
}
"""Extension of compressed files to codec."""

_PACKED_BYTES = 2**16
_LARGEST_CHUNK_BYTES = 64 * 2**20
"""Limit per chunk, compressed or decompressed. Hadoop writes 256 KiB; sizes in a damaged file are not
trusted."""


def unpacked_texts(packed: Any, codec: str, block_bytes: int) -> Iterator[bytes]:
    """Yield the text of the readable file `packed`, about `block_bytes` at a time.

    Raises OSError, without errno if the data is damaged.
    """
    if codec == "deflate":
        yield from _inflated(packed, block_bytes)
    elif codec == "lz4":
        yield from _joined(_chunks(packed, _lz4_unpacker()), block_bytes)
    elif codec == "snappy":
        yield from _joined(_chunks(packed, _snappy_unpacker()), block_bytes)
    else:
        stream = pa.CompressedInputStream(packed, codec)
        while text := stream.read(block_bytes):
            yield text


def _inflated(packed: Any, block_bytes: int) -> Iterator[bytes]:
    """Decompress the zlib streams that follow each other in a file."""
    data = packed.read(_PACKED_BYTES)
    while data:
        inflate = zlib.decompressobj()
        while not inflate.eof:
            if not data and not (data := packed.read(_PACKED_BYTES)):
                raise OSError("it ends in the middle of its compressed data")
            try:
                text = inflate.decompress(data, block_bytes)
            except zlib.error as error:
                raise OSError(str(error)) from None
            data = inflate.unconsumed_tail
            if text:
                yield text
        data = inflate.unused_data or packed.read(_PACKED_BYTES)


def _chunks(packed: Any, unpack: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """Yield the chunks of blocks; a block is its unpacked size, then chunks of packed size and data; sizes
    are 4 bytes.
    """
    while begin := packed.read(4):
        remaining_bytes = _size(begin)
        if remaining_bytes == 0:
            return
        while remaining_bytes > 0:
            size = _size(packed.read(4))
            if size > _LARGEST_CHUNK_BYTES:
                raise OSError(f"it has a chunk of {size:,} bytes")
            data = packed.read(size)
            if len(data) < size:
                raise OSError("it ends in the middle of a chunk")
            try:
                text = unpack(data)
            except (OSError, pa.ArrowException, IndexError) as error:
                raise OSError(f"a chunk is damaged: {error}") from None
            if not text and remaining_bytes:
                raise OSError("it has an empty chunk")
            remaining_bytes -= len(text)
            yield text


def _size(four_bytes: bytes) -> int:
    if len(four_bytes) < 4:
        raise OSError("it ends in the middle of a size")
    return int.from_bytes(four_bytes, "big")


def _joined(pieces: Iterator[bytes], block_bytes: int) -> Iterator[bytes]:
    """Yield the same text in fewer pieces."""
    pending: list[bytes] = []
    size = 0
    for piece in pieces:
        pending.append(piece)
        size += len(piece)
        if size >= block_bytes:
            yield b"".join(pending)
            pending, size = [], 0
    if pending:
        yield b"".join(pending)


def _lz4_unpacker() -> Callable[[bytes], bytes]:
    codec = pa.Codec("lz4_raw")
    return lambda data: codec.decompress(data, _at_most(_unpacked_size_of_lz4(data)), asbytes=True)


def _snappy_unpacker() -> Callable[[bytes], bytes]:
    codec = pa.Codec("snappy")
    return lambda data: codec.decompress(data, _at_most(_unpacked_size_of_snappy(data)), asbytes=True)


def _at_most(size: int) -> int:
    if size > _LARGEST_CHUNK_BYTES:
        raise OSError(f"it has a chunk of {size:,} bytes")
    return size


def _unpacked_size_of_lz4(data: bytes) -> int:
    """Return the decompressed size of a block, summed over its sequences; Arrow needs it.

    Source: lz4_Block_format.md of LZ4.
    """
    at, size = 0, 0
    while at < len(data):
        token = data[at]
        literals, at = _length_of_lz4(data, at + 1, token >> 4)
        at += literals
        size += literals
        if at < len(data):
            matched, at = _length_of_lz4(data, at + 2, token & 15)
            size += matched + 4
    return size


def _length_of_lz4(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Return a length and the position after it; further bytes are added as long as they are 255."""
    length, more = first, first == 15
    while more:
        length += data[at]
        more = data[at] == 255
        at += 1
    return length, at


def _unpacked_size_of_snappy(data: bytes) -> int:
    """Return the number before a block, in seven bits per byte, the lowest first."""
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 127) << 7 * place
        if byte < 128:
            break
    return size


# The text of a local file, decompressed, piece by piece.


BLOCK_BYTES = 4 * 2**20
"""Bytes per read."""

_GZIP_MARK = b"\x1f\x8b"


def texts_of_file(
    file: str, before_block: Callable[[], None] = lambda: None, *, start: int = 0
) -> Iterator[bytes]:
    """Yield the text from byte `start` on (0 for compressed files and pipes), BLOCK_BYTES at a time.

    `before_block` is called before each block is read; its exceptions stop the reading. Raises InputError.
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
    """Return the error for a file that cannot be read to its end."""
    if codec == "gzip" and error.errno is None:  # raised by the codec, not by the system
        return incomplete_gzip(file)
    return unreadable_file(file, error.strerror or str(error))


def _pieces(raw: pa.NativeFile) -> Iterator[bytes]:
    while text := raw.read(BLOCK_BYTES):
        yield text


def _opened(file: str) -> tuple[pa.NativeFile, str | None]:
    """Open the file and return it with its codec; Arrow's own files can seek, which pipes cannot.

    Standard input has no file name with an extension, and other pipes need not have one: they are gzip if
    they begin like gzip.
    """
    codec = CODECS.get(os.path.splitext(file)[1].lower())
    if not is_pipe(file):
        return pa.OSFile(os.fsencode(file)), codec
    from_start = file != STANDARD_INPUT
    opened = open(file if from_start else 0, "rb", closefd=from_start)  # noqa: SIM115 - the caller closes it
    packed = codec is None and opened.peek(len(_GZIP_MARK))[: len(_GZIP_MARK)] == _GZIP_MARK
    return pa.PythonFile(opened), "gzip" if packed else codec
