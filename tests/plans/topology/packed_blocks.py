"""Text packed as Hadoop's block codecs pack it."""

import struct

import pyarrow as pa

CODECS = {".lz4": "lz4_raw", ".snappy": "snappy"}


def packed_blocks(text: bytes, ending: str, block_bytes: int = 200_000, chunk_bytes: int = 65_000) -> bytes:
    """Source: org.apache.hadoop.io.compress.BlockCompressorStream."""
    codec = pa.Codec(CODECS[ending])
    packed = []
    for start in range(0, len(text), block_bytes):
        block = text[start : start + block_bytes]
        packed.append(struct.pack(">I", len(block)))
        for at in range(0, len(block), chunk_bytes):
            chunk = codec.compress(block[at : at + chunk_bytes], asbytes=True)
            packed.append(struct.pack(">I", len(chunk)) + chunk)
    return b"".join(packed)
