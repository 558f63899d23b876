"""Frames of other libraries as Arrow tables."""

import sys
from typing import Any

import polars as pl
import pyarrow as pa

from penstock.plans.errors import InputError
from penstock.plans.printable import limited
from penstock.plans.tables.plain_columns import plain_columns, require_unique_columns


def frame_as_arrow(frame: Any) -> pa.Table:
    """A frame of pandas, polars or PyArrow, or of any library with Arrow's C stream, as a table.

    A stream that can be read once is read. Of pandas, NaN is null, and a column of whole floats (ints beside
    NaN) is one of ints. Columns are in plain types (see plain_columns). Raises InputError for a frame that
    Arrow cannot hold, such as one with two types of values in a column, and for a stream that holds nothing,
    and SchemaError where two columns have one name.
    """
    if is_pandas(frame):
        require_unique_columns(map(str, frame.columns), "a frame of pandas")
    table = _as_arrow(frame)
    if not len(table) and not _keeps_rows(frame):
        raise InputError(
            f"topologies: found a stream without rows ({type(frame).__name__})",
            "a stream can be read once: make it again, or give the table that it was made of",
        )
    return plain_columns(table)


def _keeps_rows(frame: Any) -> bool:
    """Whether a frame still has its rows after they have been read."""
    return hasattr(frame, "__len__") or hasattr(frame, "num_rows") or isinstance(frame, pl.LazyFrame)


def _as_arrow(frame: Any) -> pa.Table:
    if isinstance(frame, pl.LazyFrame):
        frame = frame.collect()
    try:
        if isinstance(frame, pl.DataFrame):
            return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        if not is_pandas(frame):
            return frame if isinstance(frame, pa.Table) else _read(frame)
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowException, TypeError, ValueError) as error:
        kind = f"{type(frame).__module__.split('.')[0]}.{type(frame).__name__}"
        raise InputError(f"{kind}: found what Arrow cannot hold: {limited(str(error))}") from None
    columns = [_ints(table[name]) for name in table.column_names]
    return pa.table(columns, table.column_names)


def _read(frame: Any) -> pa.Table:
    if isinstance(frame, pa.RecordBatch):
        return pa.Table.from_batches([frame])
    reader = frame if isinstance(frame, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(frame)
    return reader.read_all()


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
