"""XXH64 over arrays, as Spark chains it: the hash of one column is the seed of the next.

Source: Spark's XxHash64Function and XXH64 (hashLong, hashUnsafeBytes); https://github.com/Cyan4973/xxHash.
"""

import numpy as np

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_LONGEST = 31
"""Bytes of a text: longer ones are hashed in another way, which no salt needs."""


def hash_longs(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """The hashes of 64-bit integers, each with its own seed."""
    words = np.ascontiguousarray(values).view(np.uint64)
    return _finished(_with_word(seeds + _PRIME_5 + np.uint64(8), words))


def hash_text(text: bytes, seeds: np.ndarray) -> np.ndarray:
    """The hashes of one text of at most 31 bytes with many seeds."""
    assert len(text) <= _LONGEST
    hashes = seeds + _PRIME_5 + np.uint64(len(text))
    place = 0
    while place + 8 <= len(text):
        word = np.frombuffer(text, "<u8", 1, place).astype(np.uint64)
        hashes, place = _with_word(hashes, word), place + 8
    if place + 4 <= len(text):
        half = np.frombuffer(text, "<u4", 1, place).astype(np.uint64)
        hashes, place = _rotated(hashes ^ half * _PRIME_1, 23) * _PRIME_2 + _PRIME_3, place + 4
    for byte in text[place:]:
        hashes = _rotated(hashes ^ np.array([byte], np.uint64) * _PRIME_5, 11) * _PRIME_1
    return _finished(hashes)


def _with_word(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    return _rotated(hashes ^ _rotated(words * _PRIME_2, 31) * _PRIME_1, 27) * _PRIME_1 + _PRIME_4


def _rotated(values: np.ndarray, bits: int) -> np.ndarray:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _finished(hashes: np.ndarray) -> np.ndarray:
    once = (hashes ^ (hashes >> np.uint64(33))) * _PRIME_2
    twice = (once ^ (once >> np.uint64(29))) * _PRIME_3
    finished: np.ndarray = twice ^ (twice >> np.uint64(32))
    return finished
