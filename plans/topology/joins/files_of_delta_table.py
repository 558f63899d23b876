"""The files of a local Delta table that needs nothing of Delta to be read."""

from pathlib import Path

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.plans.topology.columnar.open_given_table import plain_files


def files_of_delta_table(table: Path) -> tuple[list[str], StructType] | None:
    """The files of a local Delta table whose rows are just those in its files, and its columns.

    None for others, and where delta-rs cannot read the log: Delta says what is wrong with it.
    """
    from deltalake import DeltaTable

    if "%" in str(table):
        return None  # delta-rs might take it for another folder's name, escaped
    try:
        delta = DeltaTable(table)
        paths = plain_files(table, delta)
        return None if paths is None else (paths, from_arrow_schema(pa.schema(delta.schema())))
    except Exception:
        return None
