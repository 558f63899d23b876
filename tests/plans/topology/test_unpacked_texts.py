"""Files as Hadoop's codecs pack them, unpacked in pieces."""

import bz2
import gzip
import random
import zlib
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa
import pytest

from penstock.plans.topology.unpacked_texts import CODECS, unpacked_texts
from tests.plans.topology.packed_blocks import packed_blocks

DICE = random.Random(0)
TEXTS = [
    b"",
    b"a",
    b"abc\n" * 100_000,
    b"x" * 300_000,
    bytes(DICE.choices(b'{"kind": 1}\n', k=100_000)),
    DICE.randbytes(70_000),
]
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda text: pa.compress(text, "zstd").to_pybytes(),
    ".deflate": zlib.compress,
    ".lz4": lambda text: packed_blocks(text, ".lz4"),
    ".snappy": lambda text: packed_blocks(text, ".snappy"),
}


def unpack(packed: bytes, ending: str) -> bytes:
    return b"".join(unpacked_texts(pa.BufferReader(packed), CODECS[ending], 2**16))


@pytest.mark.parametrize("ending", CODECS)
def test_what_is_packed_comes_out(ending):
    for text in TEXTS:
        packed = PACK[ending](text)
        assert unpack(packed, ending) == text
        assert unpack(packed + PACK[ending](b"more"), ending) == text + b"more"


@pytest.mark.parametrize("ending", [".deflate", ".lz4", ".snappy"])
def test_what_is_broken_is_an_error_and_takes_no_memory(ending):
    packed = PACK[ending](TEXTS[4])
    huge = b"\xff" * 12
    for broken in (
        packed[:-1],
        packed[:5],
        b"x",
        b"no such file",
        huge,
        packed + b"x",
        b"\x00\x00\x00\x09" + huge,
    ):
        with pytest.raises(OSError, match=r"it ends|it has|broken|Error") as found:
            unpack(broken, ending)
        assert found.value.errno is None
    for place in DICE.sample(range(len(packed)), 40):
        flipped = bytearray(packed)
        flipped[place] ^= 0x5A
        with suppress(OSError):
            unpack(bytes(flipped), ending)


@pytest.mark.parametrize("ending", [".gz", ".deflate", ".snappy"])
def test_text_comes_in_bounded_pieces(ending):
    sizes = [
        len(text)
        for text in unpacked_texts(pa.BufferReader(PACK[ending](b"0" * 10**7)), CODECS[ending], 2**16)
    ]
    assert sum(sizes) == 10**7
    assert max(sizes) < 2**18
