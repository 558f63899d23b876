"""Unpacks compressed files piece by piece, in the forms that Hadoop's codecs write.

Source: the codecs of org.apache.hadoop.io.compress; of .lz4 and .snappy BlockCompressorStream.
"""

import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from penstock.plans.errors import InputError
from penstock.plans.topology.columnar.find_topology_files import STANDARD_INPUT, is_pipe
from penstock.plans.topology.input_errors import incomplete_gzip, unreadable_file

CODECS = {
    ".gz": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".deflate": "deflate",
    ".lz4": "lz4",
    ".snappy": "snappy",
}
"""What the name of a packed file ends in, and its codec."""

_PACKED_BYTES = 2**16
_LARGEST_CHUNK_BYTES = 64 * 2**20
"""Packed or unpacked. Hadoop writes 256 KiB; what a broken file says of itself is not believed."""


def unpacked_texts(packed: Any, codec: str, block_bytes: int) -> Iterator[bytes]:
    """The text of `packed`, a file that can be read, about `block_bytes` at a time.

    Raises OSError, without errno where what is read is broken.
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
    """The streams of zlib that follow each other in a file."""
    data = packed.read(_PACKED_BYTES)
    while data:
        inflate = zlib.decompressobj()
        while not inflate.eof:
            if not data and not (data := packed.read(_PACKED_BYTES)):
                raise OSError("it ends in the middle of its packed data")
            try:
                text = inflate.decompress(data, block_bytes)
            except zlib.error as error:
                raise OSError(str(error)) from None
            data = inflate.unconsumed_tail
            if text:
                yield text
        data = inflate.unused_data or packed.read(_PACKED_BYTES)


def _chunks(packed: Any, unpack: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """Blocks, each its unpacked size and then chunks, each its packed size and data; all sizes in 4 bytes."""
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
                raise OSError(f"a chunk is broken: {error}") from None
            if not text and remaining_bytes:
                raise OSError("it has an empty chunk")
            remaining_bytes -= len(text)
            yield text


def _size(four_bytes: bytes) -> int:
    if len(four_bytes) < 4:
        raise OSError("it ends in the middle of a size")
    return int.from_bytes(four_bytes, "big")


def _joined(pieces: Iterator[bytes], block_bytes: int) -> Iterator[bytes]:
    """The same text in fewer pieces."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= block_bytes:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


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
    """The unpacked size of a block, which Arrow needs: the sum over its sequences.

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
    """A length and the place after it: further bytes are added as long as they are 255."""
    length, more = first, first == 15
    while more:
        length += data[at]
        more = data[at] == 255
        at += 1
    return length, at


def _unpacked_size_of_snappy(data: bytes) -> int:
    """The number before a block: seven bits in each byte, the lowest first."""
    size = 0
    for place, byte in enumerate(data[:5]):
        size |= (byte & 127) << 7 * place
        if byte < 128:
            break
    return size


# The text of a local file, unpacked, piece by piece.


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
    """The error for a file that cannot be read to its end."""
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
