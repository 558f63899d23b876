"""Ids of two longs as Flink prints them."""

from binascii import hexlify

import numpy as np
import polars as pl
import pyarrow as pa

_HEX_DIGITS = 32


def hex_id(lower: pl.Series, upper: pl.Series) -> pl.Series:
    """Flink's AbstractID.toString of ids held as two longs."""
    longs = np.empty((len(lower), 2), dtype=">i8")
    longs[:, 0], longs[:, 1] = lower.to_numpy(), upper.to_numpy()
    ends = np.arange(len(lower) + 1, dtype=np.int64) * _HEX_DIGITS
    digits = pa.py_buffer(hexlify(longs.data))
    strings = pa.LargeStringArray.from_buffers(len(lower), pa.py_buffer(ends), digits)
    return pl.Series(values=strings, dtype=pl.String)
