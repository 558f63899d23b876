"""Scan a stored table as a lazy frame of polars, which reads the columns it needs when it is collected."""

import os
from collections.abc import Sequence

import polars as pl

from penstock.engine.store.data_files import DataFile
from penstock.engine.store.is_local import local_folder
from penstock.plans.frames.polars_frames import empty
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.topologies_of_lines import topology_id

BY_NAME = ("topologies", "rejected")
"""Tables in which topologies are found by name; in `rejected` the key may be null."""


def scan_stored_table(
    store: str, table: str, files: Sequence[DataFile], topology: str | None
) -> pl.LazyFrame:
    """Scan the declared columns of these files of a local store; only rows of `topology`, if given."""
    paths = [os.path.join(local_folder(store, table), file.path) for file in files]
    rows = _with_declared_columns(pl.scan_parquet(paths, glob=False), table) if paths else empty(table).lazy()
    return rows_of_topology(rows, table, topology)


def rows_of_topology(rows: pl.LazyFrame, table: str, topology: str | None) -> pl.LazyFrame:
    """Return the rows of a topology by its name; None: all rows."""
    if topology is None:
        return rows
    chosen = pl.col("name") == topology if table in BY_NAME else pl.col(TOPOLOGY) == topology_id(topology)
    return rows.filter(chosen)


def _with_declared_columns(rows: pl.LazyFrame, table: str) -> pl.LazyFrame:
    """Select the declared columns; those that an earlier release did not write are null."""
    known, declared = rows.collect_schema().names(), empty(table).schema
    return rows.select(
        name if name in known or not TABLES[table].field(name).nullable else pl.lit(None, kind).alias(name)
        for name, kind in declared.items()
    )
