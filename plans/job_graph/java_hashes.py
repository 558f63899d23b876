"""java.lang.String.hashCode for a whole column at once."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.int32]
_STRINGS_AT_ONCE = 1 << 16
"""Every code unit takes some 30 bytes while it is weighted."""


def java_string_hashes(strings: pa.Array) -> Hashes:
    """s[0]*31^(n-1) + … + s[n-1] over UTF-16 code units, in 32-bit arithmetic; null counts as empty.

    Horner's rule over columns of characters would follow the longest string; instead every code unit is
    weighted by its power of 31 and the weighted units are summed per string.
    """
    starts = range(0, len(strings), _STRINGS_AT_ONCE)
    hashes = [_hashes(strings.slice(start, _STRINGS_AT_ONCE)) for start in starts]
    return np.concatenate([np.zeros(0, dtype=np.int32), *hashes])


def _hashes(strings: pa.Array) -> Hashes:
    units, lengths = _code_units(strings.fill_null("").cast(pa.large_string()))
    if len(units) == 0:
        return np.zeros(len(lengths), dtype=np.int32)
    ends = np.cumsum(lengths)
    from_end = np.repeat(ends, lengths) - np.arange(len(units)) - 1
    powers = np.ones(int(lengths.max()) + 1, dtype=np.uint32)
    np.multiply.accumulate(np.full(len(powers) - 1, 31, dtype=np.uint32), out=powers[1:])
    running = np.concatenate(([np.uint32(0)], np.cumsum(units * powers[from_end], dtype=np.uint32)))
    hashes: npt.NDArray[np.uint32] = running[ends] - running[ends - lengths]
    return hashes.view(np.int32)


def _code_units(strings: pa.Array) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """All UTF-16 code units one behind the other, and how many each string has."""
    _, offsets, characters = strings.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[strings.offset : strings.offset + len(strings) + 1]
    utf8 = np.frombuffer(characters or b"", dtype=np.uint8)[bounds[0] : bounds[-1]]
    if (utf8 < 0x80).all():
        return utf8.astype(np.uint32), np.diff(bounds)
    encoded = [text.encode("utf-16-le", "surrogatepass") for text in strings.to_pylist()]
    units = np.frombuffer(b"".join(encoded), dtype="<u2").astype(np.uint32)
    return units, np.fromiter((len(text) // 2 for text in encoded), dtype=np.int64, count=len(encoded))
