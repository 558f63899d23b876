"""A version of a store, or a plan in memory, as one side of a comparison."""

from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

import polars as pl

from penstock.engine.planning.plan_in_process import plan_frames
from penstock.engine.planning.plan_options import PlanOptions
from penstock.engine.store.open_plan import BY_NAME, StoredPlan
from penstock.engine.views.diff.rows_of_slices import rows_of_slices
from penstock.engine.views.diff.side import PLAN_COLUMNS, Plans, Side, count_left_out, known_topologies
from penstock.plans.errors import ConfigurationError, StoreError
from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.installation import own_version
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.planners.plan_in_parts import without_garbage_collection
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.topology_tables import TopologyTables
from penstock.plans.vocabulary import Layer

_OPTIONAL = LAYER_TABLES[Layer.SLOTS]


def side_of_store(store: str, plan: StoredPlan, folder: Path) -> Side:
    """All topologies of a version; `folder` keeps plans until they are compared.

    Raises StoreError if its plans end before the execution graph.
    """
    version = plan.version
    planned_as = (version.planner_version, *sorted(version.options.items()))
    try:
        return side_of_tables(
            f"{store} version {version.version}", version.tables, plan.table, planned_as, folder
        )
    except ConfigurationError as error:
        raise StoreError(
            f"version {version.version} of {store} {error.message}",
            "diff compares plans through the execution graph: plan again without --until",
        ) from None


def side_of_tables(
    label: str,
    names: Collection[str],
    table: Callable[[str], pl.LazyFrame],
    planned_as: tuple[object, ...],
    folder: Path,
) -> Side:
    """All topologies of a plan with the tables `names`; `folder` keeps plans until they are compared.

    Raises ConfigurationError if its plans end before the execution graph.
    """
    tables = [name for name in PLAN_COLUMNS if name not in _OPTIONAL or name in names]
    if missing := [name for name in tables if name not in names]:
        raise ConfigurationError(f"has no {', '.join(missing)}")

    def plans(chosen: pl.DataFrame, slices: int) -> Iterator[Plans]:
        frames = {name: table(name).select(PLAN_COLUMNS[name]) for name in tables}
        return rows_of_slices(frames, chosen, slices, folder)

    topologies, rejected = (table(name) for name in BY_NAME)
    known = known_topologies(topologies, rejected)
    operators = table("stream_nodes").select(TOPOLOGY)
    return Side(label, known, operators, plans, planned_as, count_left_out(known, rejected))


# Topologies of files or objects as one side of a comparison: read once; only those that differ are planned.


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

    def planned(read_frames: dict[str, pl.DataFrame]) -> Plans:
        inputs = len(read_frames["topologies"]) + len(read_frames["rejected"])
        tables = plan_frames(read_frames, inputs, options.until, options.choices, lambda stage: None).tables
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
        (own_version(), *sorted(options.recorded.items())),
        count_left_out(known, frames["rejected"]),
    )
