"""Frames of other libraries as Arrow tables."""

import sys
from typing import Any

import polars as pl
import pyarrow as pa

from plans.errors import InputError
from plans.printable import limited


def frame_as_arrow(frame: Any) -> pa.Table:
    """A frame of pandas, polars or PyArrow, or of any library with Arrow's C stream, as a table.

    Of pandas, NaN is null, and a column of whole floats (ints beside NaN) is one of ints. Raises InputError
    for a frame that Arrow cannot hold, such as one with two types of values in a column.
    """
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    try:
        if isinstance(frame, pl.DataFrame):
            return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        if not is_pandas(frame):
            return frame if isinstance(frame, pa.Table) else pa.table(frame)
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        kind = f"{type(frame).__module__.split('.')[0]}.{type(frame).__name__}"
        raise InputError(f"{kind}: found what Arrow cannot hold: {limited(str(error))}") from None
    columns = [_ints(table[name]) for name in table.column_names]
    return pa.table(columns, table.column_names)


def is_pandas(frame: Any) -> bool:
    """Whether a value is a DataFrame of pandas, which the caller has imported to make it."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(frame, pandas.DataFrame)


def _ints(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_floating(column.type):
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column
