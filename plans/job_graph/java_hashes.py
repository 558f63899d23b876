"""Java's hashes of strings for a whole column at once, and Java's notation of doubles."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.plans.frames.arrays import Ints
from penstock.plans.frames.compiled import compiled, is_worth_compiling

Hashes = npt.NDArray[np.int32]
_STRINGS_AT_ONCE = 1 << 16
"""Strings per slice; every code unit takes some 30 bytes while it is weighted."""


def java_string_hashes(strings: pa.Array) -> Hashes:
    """s[0]*31^(n-1) + … + s[n-1] over UTF-16 code units, in 32-bit arithmetic; null counts as empty.

    Many strings are hashed by a compiled loop. In numpy, Horner's rule over columns of characters would take
    as many steps as the longest string has characters; instead every code unit is weighted by its power of 31
    and the weighted units are summed per string.
    """
    if is_worth_compiling(len(strings)):
        bounds, utf8 = _utf8(strings.fill_null("").cast(pa.large_string()))
        codes = np.zeros(len(strings), np.uint32)
        compiled(_by_horners_rule)(bounds, utf8, codes)
        return codes.view(np.int32)
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


def _code_units(strings: pa.Array) -> tuple[npt.NDArray[np.uint32], Ints]:
    """Return the UTF-16 code units of all strings, concatenated, and the number of units per string."""
    bounds, characters = _utf8(strings)
    utf8 = characters[bounds[0] : bounds[-1]]
    if (utf8 < 0x80).all():
        return utf8.astype(np.uint32), np.diff(bounds)
    encoded = [text.encode("utf-16-le", "surrogatepass") for text in strings.to_pylist()]
    units = np.frombuffer(b"".join(encoded), dtype="<u2").astype(np.uint32)
    return units, np.fromiter((len(text) // 2 for text in encoded), dtype=np.int64, count=len(encoded))


def _utf8(strings: pa.Array) -> tuple[Ints, npt.NDArray[np.uint8]]:
    """Return the bounds of each string, and the bytes of all."""
    _, offsets, characters = strings.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[strings.offset : strings.offset + len(strings) + 1]
    return bounds, np.frombuffer(characters or b"", dtype=np.uint8)


def _by_horners_rule(bounds: Ints, utf8: npt.NDArray[np.uint8], hashes: npt.NDArray[np.uint32]) -> None:
    """The compiled loop. A 4-byte character in UTF-8 is two code units in UTF-16."""
    for row in range(len(hashes)):
        place, end = bounds[row], bounds[row + 1]
        value = 0
        while place < end:
            first = int(utf8[place])
            if first < 0x80:
                character, length = first, 1
            elif first < 0xE0:
                character, length = first & 0x1F, 2
            elif first < 0xF0:
                character, length = first & 0x0F, 3
            else:
                character, length = first & 0x07, 4
            for following in range(place + 1, place + length):
                character = character << 6 | (int(utf8[following]) & 0x3F)
            if length == 4:
                value = (value * 31 + 0xD7C0 + (character >> 10)) & 0xFFFFFFFF
                character = 0xDC00 + (character & 0x3FF)
            value = (value * 31 + character) & 0xFFFFFFFF
            place += length
        hashes[row] = value


def java_double(value: float) -> str:
    """Return the shortest decimal of a finite number, with an exponent below 0.001 and from ten
    million on.
    """
    sign = "-" if repr(value).startswith("-") else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits.strip("0"):
        return f"{sign}0.0"
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 1e-3 <= abs(value) < 1e7:
        padded = "0" * max(0, 1 - point) + digits.ljust(point, "0")
        at = max(point, 1)
        return f"{sign}{padded[:at]}.{padded[at:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
