"""Java's hash of sequences, Σ element·31^(n-1-i), for many sequences at once.

Source: java.lang.String.hashCode, java.util.Arrays.hashCode, java.util.List.hashCode.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint32]  #: Java ints, unsigned
Offsets = npt.NDArray[np.int64]

_BLOCK = 1 << 16
"""Elements at once: what is computed of them stays in the processor's cache."""


def _powers(base: int) -> Hashes:
    powers = np.full(_BLOCK + 1, base, dtype=np.uint32)
    powers[0] = 1
    return np.multiply.accumulate(powers, dtype=np.uint32)


_POWERS = _powers(31)
_INVERSE_POWERS = _powers(pow(31, -1, 1 << 32))


def polynomial_hashes(elements: npt.NDArray[Any], offsets: Offsets, initial: int) -> Hashes:
    """Hash of each sequence elements[offsets[i]:offsets[i+1]], on top of `initial`·31^length.

    `elements` are integers of any width; they are taken modulo 2^32.
    """
    sums = [np.zeros(0, dtype=np.uint32)]
    lengths = np.diff(offsets)
    row, rows = 0, len(lengths)
    while row < rows:
        until = int(np.searchsorted(offsets, offsets[row] + _BLOCK, side="right")) - 1
        if until <= row:
            sums.append(_hash_long_sequence(elements[offsets[row] : offsets[row + 1]]))
            until = row + 1
        else:
            sums.append(_hash_block(elements, offsets[row : until + 1]))
        row = until
    hashes = np.concatenate(sums)
    if initial:
        short = _POWERS[np.minimum(lengths, _BLOCK)]
        hashes += short * np.uint32(initial)
        for long in np.flatnonzero(lengths > _BLOCK):
            extra = (pow(31, int(lengths[long]), 1 << 32) - int(short[long])) * initial
            hashes[long] = (int(hashes[long]) + extra) % (1 << 32)
    return hashes


def _hash_block(elements: npt.NDArray[Any], offsets: Offsets) -> Hashes:
    # 31 is odd, so has an inverse modulo 2^32: one running sum of element·31^-i serves all sequences
    start = offsets[0]
    block = elements[start : offsets[-1]].astype(np.uint32)
    running = np.zeros(len(block) + 1, dtype=np.uint32)
    np.cumsum(block * _INVERSE_POWERS[: len(block)], dtype=np.uint32, out=running[1:])
    ends = offsets[1:] - start
    sums: Hashes = (running[ends] - running[offsets[:-1] - start]) * _POWERS[np.maximum(ends - 1, 0)]
    return sums


def _hash_long_sequence(elements: npt.NDArray[Any]) -> Hashes:
    code = 0
    for at in range(0, len(elements), _BLOCK):
        part = elements[at : at + _BLOCK]
        own = _hash_block(part, np.array([0, len(part)]))
        code = (code * int(_POWERS[len(part)]) + int(own[0])) % (1 << 32)
    return np.array([code], dtype=np.uint32)


def binary_offsets(column: pa.Array) -> tuple[npt.NDArray[np.uint8], Offsets]:
    """The bytes of all values of a string or binary column, and where each value's begin and end."""
    large = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, content = column.buffers()
    if not len(column):
        return np.zeros(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    width = np.int64 if large else np.int32
    bounds = np.frombuffer(offsets, dtype=width)[column.offset : column.offset + len(column) + 1]
    start = int(bounds[0])
    used_bytes = np.frombuffer(content or b"", dtype=np.uint8)[start : int(bounds[-1])]
    return used_bytes, bounds.astype(np.int64) - start


def string_hashes(column: pa.Array) -> Hashes:
    """java.lang.String.hashCode of the strings of a string column; of null anything."""
    utf8, offsets = binary_offsets(column)
    if not len(utf8) or utf8.max() < 0x80:
        return polynomial_hashes(utf8, offsets, 0)
    units = np.frombuffer(utf8.tobytes().decode().encode("utf-16-le"), dtype="<u2")
    # a character has one code unit, from four bytes of UTF-8 on two
    own = ((utf8 & 0xC0) != 0x80).astype(np.int64) + (utf8 >= 0xF0)
    units_before = np.zeros(len(own) + 1, dtype=np.int64)
    np.cumsum(own, out=units_before[1:])
    return polynomial_hashes(units, units_before[offsets], 0)
