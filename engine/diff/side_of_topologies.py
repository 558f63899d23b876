"""Topologies of files or objects as one side of a comparison: read once, planned as far as they differ."""

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

import polars as pl

from penstock.engine.diff.rows_of_slices import rows_of_slices
from penstock.engine.diff.side import PLAN_COLUMNS, Plans, Side, count_left_out, known_topologies
from penstock.engine.planning.plan_in_process import plan_frames
from penstock.engine.planning.plan_options import PlanOptions
from penstock.plans.columnar.frames import empty, from_arrow
from penstock.plans.columnar.plan_in_parts import without_garbage_collection
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.topology_tables import TopologyTables

_TABLES = tuple(table for table in TopologyTables._fields if table != "inputs")


def side_of_topologies(
    label: str, parts: Iterable[TopologyTables], options: PlanOptions, folder: Path
) -> Side:
    """What `parts` hold, kept in files of `folder`, so that memory does not grow with the fleet.

    Its plans raise NotEnoughMemoryError before memory runs out.
    """
    files: dict[str, list[Path]] = {table: [] for table in _TABLES}
    with without_garbage_collection():
        for number, part in enumerate(parts):
            for table in _TABLES:
                if len(rows := getattr(part, table)):
                    files[table].append(folder / f"{table}-{number}.arrow")
                    rows.write_ipc(files[table][-1])
    frames = {table: pl.scan_ipc(paths) if paths else empty(table).lazy() for table, paths in files.items()}

    def planned(given: dict[str, pl.DataFrame]) -> Plans:
        inputs = len(given["topologies"]) + len(given["rejected"])
        tables = plan_frames(given, inputs, options.until, options.choices, lambda stage: None).tables
        return {
            table: from_arrow(tables[table].select(list(columns))) for table, columns in PLAN_COLUMNS.items()
        }

    def plans(chosen: pl.DataFrame, slices: int) -> Iterator[Plans]:
        return map(planned, rows_of_slices(frames, chosen, slices, folder))

    known = known_topologies(frames["topologies"], frames["rejected"])
    operators = pl.concat([frames[table].select(TOPOLOGY) for table in ("transformations", "stream_nodes")])
    return Side(
        label,
        known,
        operators,
        plans,
        (version("penstock"), *sorted(options.recorded.items())),
        count_left_out(known, frames["rejected"]),
    )
