"""Topologies in any form that `plan` takes as the tables of the topology layer, without Spark."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from plans.topology.columnar.read_topology_files import read_topology_files
from plans.topology.columnar.read_topology_objects import read_topology_objects
from plans.topology.columnar.read_topology_tables import (
    holds_tables,
    read_topology_folder,
    read_topology_tables,
)
from plans.topology.columnar.topology_tables import TopologyTables
from plans.topology.input_errors import tables_beside_others
from plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from plans.topology.line_too_long import MAX_LINE_BYTES

Topologies = str | Path | Sequence[str | Path] | tuple[Any, Any] | Iterable[Mapping[str, Any] | str | bytes]


def read_topologies(
    topologies: Topologies,
    *,
    max_line_bytes: int = MAX_LINE_BYTES,
    before_block: Callable[[], None] = lambda: None,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> TopologyTables:
    """The tables of `topologies`: paths, objects, or the tables (topologies, transformations) themselves.

    As engine.planning.plan_topologies.read_topologies; paths are local, tables of PyArrow or Polars. For
    `max_line_bytes`, `before_block` and `job_defaults` see read_topology_files. Raises InputError, and
    SchemaError for tables with other columns.
    """
    if isinstance(topologies, str | Path):
        return _read_paths([str(topologies)], max_line_bytes, before_block, job_defaults)
    items: list[Any] = list(topologies)
    match items:
        case [pa.Table() | pl.DataFrame() as given, pa.Table() | pl.DataFrame() as transformations]:
            return read_topology_tables(_as_arrow(given), _as_arrow(transformations), job_defaults)
    if items and all(isinstance(item, str | Path) for item in items):
        return _read_paths([str(item) for item in items], max_line_bytes, before_block, job_defaults)
    return read_topology_objects(items, job_defaults)


def _as_arrow(table: pl.DataFrame | pa.Table) -> pa.Table:
    return table.to_arrow(compat_level=pl.CompatLevel.oldest()) if isinstance(table, pl.DataFrame) else table


def _read_paths(
    paths: list[str], max_line_bytes: int, before_block: Callable[[], None], job_defaults: JobDefaults
) -> TopologyTables:
    folders = [path for path in paths if holds_tables(path)]
    if not folders:
        return read_topology_files(paths, max_line_bytes, before_block, job_defaults)
    if len(paths) > 1:
        raise tables_beside_others(folders[0])
    return read_topology_folder(paths[0], job_defaults)
