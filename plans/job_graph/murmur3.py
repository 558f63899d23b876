"""murmur3-128, compiled: hashes as two halves of 64 bits."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import uint64

from penstock.plans.frames.arrays import Flags, Halves, Ints
from penstock.plans.frames.compiled import compiled

_C1, _C2 = np.uint64(0x87C37B91114253D5), np.uint64(0x4CF5AD432745937F)
_N1, _N2 = np.uint64(0x52DCE729), np.uint64(0x38495AB5)
_M1, _M2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_BITS = 64


def hash_texts(texts: pa.Array, named: Flags) -> Halves:
    """Return both halves of the murmur3-128 hash of every text that is not null."""
    texts = texts.cast(pa.large_string())
    _, offsets, characters = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    hashes = np.zeros((len(texts), 2), np.uint64)
    _hash_texts(named, bounds, np.frombuffer(characters or b"", np.uint8), hashes)
    return hashes


@compiled
def _rotated(word: np.uint64, bits: int) -> np.uint64:
    rotated: np.uint64 = (word << uint64(bits)) | (word >> uint64(_BITS - bits))
    return rotated


@compiled
def _first_mixed(word: np.uint64) -> np.uint64:
    return _rotated(word * _C1, 31) * _C2


@compiled
def _second_mixed(word: np.uint64) -> np.uint64:
    return _rotated(word * _C2, 33) * _C1


@compiled
def _avalanche(word: np.uint64) -> np.uint64:
    word = (word ^ (word >> uint64(33))) * _M1
    word = (word ^ (word >> uint64(33))) * _M2
    return word ^ (word >> uint64(33))


@compiled
def block(
    low: np.uint64, high: np.uint64, first: np.uint64, second: np.uint64
) -> tuple[np.uint64, np.uint64]:
    """Extend the murmur3-128 state by 16 bytes."""
    low = (_rotated(low ^ _first_mixed(first), 27) + high) * uint64(5) + _N1
    high = (_rotated(high ^ _second_mixed(second), 31) + low) * uint64(5) + _N2
    return low, high


@compiled
def end_of_hash(
    low: np.uint64, high: np.uint64, first: np.uint64, second: np.uint64, length: int
) -> tuple[np.uint64, np.uint64]:
    """Finish the hash with the bytes after the last block (0 for none)."""
    low ^= _first_mixed(first) ^ uint64(length)
    high ^= _second_mixed(second) ^ uint64(length)
    low += high
    high += low
    low, high = _avalanche(low), _avalanche(high)
    low += high
    return low, high + low


@compiled
def _word(characters: npt.NDArray[np.uint8], start: int, end: int) -> np.uint64:
    """Return up to eight bytes as a little-endian word."""
    word = uint64(0)
    for place in range(start, end):
        word |= uint64(characters[place]) << uint64(8 * (place - start))
    return word


@compiled
def _hash_texts(named: Flags, bounds: Ints, characters: npt.NDArray[np.uint8], hashes: Halves) -> None:
    """Write the murmur3-128 hash of every text that is not null."""
    for row in range(len(named)):
        if not named[row]:
            continue
        start, end = bounds[row], bounds[row + 1]
        low = high = uint64(0)
        while end - start >= 16:
            first = _word(characters, start, start + 8)
            low, high = block(low, high, first, _word(characters, start + 8, start + 16))
            start += 16
        first = _word(characters, start, min(end, start + 8))
        second = _word(characters, min(end, start + 8), end)
        low, high = end_of_hash(low, high, first, second, end - bounds[row])
        hashes[row, 0], hashes[row, 1] = low, high
