"""Plan in this process, over columns and without Spark, into memory or into a store."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from penstock.engine.output.progress import SILENT, Report
from penstock.engine.planning.memory_estimate import (
    FleetSize,
    parts_at_once,
    require_memory_after_reading,
    require_memory_for_tasks,
    require_memory_to_read_on,
)
from penstock.engine.planning.plan_result import PlanResult, require_nothing_lost
from penstock.engine.store.store_location import is_local
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import ConfigurationError
from penstock.plans.execution_graph.job_graph_arrays import TaskRows
from penstock.plans.installation import own_version
from penstock.plans.layers import DEFAULT_OPTIONS, PlanOptions
from penstock.plans.planners.plan_as_read import ROWS_AT_A_TIME, Topologies, plan_as_read, read_topologies
from penstock.plans.planners.plan_in_parts import plan_alone, plan_in_parts, without_garbage_collection
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.find_topology_files import topology_paths
from penstock.plans.topology.read_topology_files import read_topology_files_in_parts
from penstock.plans.topology.read_topology_tables import read_topology_folder_in_parts
from penstock.plans.topology.topologies_of_lines import TopologyTables

if TYPE_CHECKING:
    from penstock.engine.store.write_plan import WriteWhilePlanning

# Detect processes forked from one that planned: they lack its threads.


_forked = False


@cache
def _note_forks() -> None:
    """Register a hook that marks forked children, in which this process's threads do not continue."""
    os.register_at_fork(after_in_child=_note)


def _note() -> None:
    global _forked  # noqa: PLW0603  (one flag per process)
    _forked = True


def _require_threads(work: str) -> None:
    """Raise ConfigurationError if `work` would wait forever for threads that only a parent process has."""
    if _forked:
        raise ConfigurationError(
            f"{work}: this process was forked from one that has planned, and lacks its polars threads",
            'start processes by "spawn" or "forkserver" (multiprocessing.get_context), or fork before the '
            "first plan",
        )


Source = Topologies | TopologyTables
"""Topologies in any form that this process reads, or the tables of the topology layer: these were read."""


def plan_in_process(
    source: Source,
    options: PlanOptions = DEFAULT_OPTIONS,
    out: str | None = None,
    report: Report = SILENT,
) -> PlanResult:
    """Plan all topologies into Arrow tables, or into a version of the store `out`.

    `source`: see Source. No Spark session is used or started. Into a local store, a fleet is planned in parts
    while it is read, and a giant is written table by table while it is planned: memory grows with neither
    plan. Raises InputError, NotEnoughMemoryError before memory runs out, LostTopologiesError (see
    require_nothing_lost), and StoreError and MachineError of the store.
    """
    with without_pandas():
        started = time.monotonic()
        if isinstance(source, TopologyTables):
            parts = iter([source])
        elif out is None or not is_local(out):
            parts = iter([read_in_process(source, options, report)])
        else:
            report("read topologies")
            parts = parts_in_process(source, options)
        first, second = next(parts), next(parts, None)
        seconds = {} if first is source else {"read_and_validate": time.monotonic() - started}
        del source
        if out is not None and second is not None:
            return _write_parts(chain([first, second], parts), out, options, report)
        frames, inputs = _frames(first)
        del first, parts
        if out is not None and _size(frames).is_giant and is_local(out):
            return _write_while_planning(frames, inputs, out, options, report)
        planned = _plan_whole(frames, inputs, options, report)
        planned.seconds = {**seconds, **planned.seconds}
        return planned if out is None else write_result(planned, out, options, report)


@without_pandas()
def read_in_process(
    source: Topologies, options: PlanOptions = DEFAULT_OPTIONS, report: Report = SILENT
) -> TopologyTables:
    """Read the tables of the topology layer like `plan_in_process`; same errors."""
    _require_threads("planning")
    _note_forks()
    report("read topologies")
    with without_garbage_collection():
        return read_topologies(
            source,
            max_line_bytes=options.max_line_bytes,
            before_block=require_memory_to_read_on,
            job_defaults=options.job_defaults,
        )


def parts_in_process(source: Topologies, options: PlanOptions = DEFAULT_OPTIONS) -> Iterator[TopologyTables]:
    """Read topologies like `read_in_process`, files and folders of tables in parts to plan one by one.

    Same errors.
    """
    paths = topology_paths(source)
    if paths is None:
        return iter([read_in_process(source, options)])
    if (folder := paths.folder) is not None:
        return read_topology_folder_in_parts(
            folder, ROWS_AT_A_TIME, require_memory_to_read_on, options.job_defaults
        )
    return read_topology_files_in_parts(
        paths.paths, ROWS_AT_A_TIME, options.max_line_bytes, require_memory_to_read_on, options.job_defaults
    )


def _frames(read: TopologyTables) -> tuple[dict[str, pl.DataFrame], int]:
    """Return the tables by name, which planners empty, and the number of topologies."""
    frames = read._asdict()
    return frames, frames.pop("inputs")


def _plan_whole(
    frames: dict[str, pl.DataFrame], inputs: int, options: PlanOptions, report: Report
) -> PlanResult:
    """Plan all topologies at once, in parallel parts; `frames` are emptied."""
    require_memory_after_reading(_size(frames))
    planned = plan_in_parts(frames, options, _spaced(report), require_memory_for_tasks())
    tables = planned.tables
    planned_count, rejected = len(tables["topologies"]), len(tables["rejected"])
    require_nothing_lost(inputs, planned_count, rejected, len(tables["topologies"][TOPOLOGY].unique()))
    return PlanResult(tables, inputs, planned_count, rejected, planned.seconds)


def _spaced(report: Report) -> Callable[[str], None]:
    return lambda stage: report(stage.replace("_", " "))


def _size(frames: Mapping[str, pl.DataFrame]) -> FleetSize:
    return FleetSize(len(frames["transformations"]) + len(frames["stream_nodes"]), len(frames["topologies"]))


@without_pandas()
def plan_parts(
    parts: Iterator[TopologyTables],
    options: PlanOptions,
    take: Callable[[dict[str, pa.Table]], None],
    report: Callable[[int], None] = lambda done: None,
) -> int:
    """Plan `parts` while they are read, pass their tables to `take`, and return the number of topologies.

    `report` is called with the number of topologies taken so far. Raises NotEnoughMemoryError before memory
    runs out.
    """
    inputs = done = 0

    def frames() -> Iterator[dict[str, pl.DataFrame]]:
        nonlocal inputs
        for part in parts:
            frames_of_part, count = _frames(part)
            del part
            inputs += count
            require_memory_after_reading(_size(frames_of_part))
            yield frames_of_part

    def before_tasks(rows: TaskRows) -> None:
        require_memory_for_tasks()(rows)  # of this part alone: earlier ones are written

    def take_and_count(tables: dict[str, pa.Table]) -> None:
        nonlocal done
        done += len(tables["topologies"]) + len(tables["rejected"])
        take(tables)
        report(done)

    plan_as_read(frames(), options, take_and_count, before_tasks, parts_at_once())
    return inputs


# Plans of this process in a store.


def write_result(
    planned: PlanResult, store: str, options: PlanOptions, report: Report = SILENT, planner: str = ""
) -> PlanResult:
    """Write Arrow tables as a new version of a store, which records the options, and a custom `planner`."""
    report("write the version")
    recorded = {**options.recorded, **({"planner": planner} if planner else {})}
    return planned.stored(planned.write(store, recorded))


def _write_parts(
    parts: Iterator[TopologyTables], out: str, options: PlanOptions, report: Report
) -> PlanResult:
    """Plan many topologies in parts, and write each part while later ones are read."""
    report("plan and write topologies")
    report.count(0, 0, "topologies")

    def plan(write: "WriteWhilePlanning") -> int:
        return plan_parts(parts, options, write.add_part, lambda done: report.count(done, 0, "topologies"))

    return _written_while_planning(plan, out, options, report)


def _write_while_planning(
    frames: dict[str, pl.DataFrame], inputs: int, out: str, options: PlanOptions, report: Report
) -> PlanResult:
    """Plan one topology, and write each table as soon as no step reads it; `frames` are emptied."""
    require_memory_after_reading(_size(frames))

    def plan(write: "WriteWhilePlanning") -> int:
        plan_alone(write, frames, options, _spaced(report), require_memory_for_tasks())
        return inputs

    return _written_while_planning(plan, out, options, report)


def _written_while_planning(
    plan: "Callable[[WriteWhilePlanning], int]", out: str, options: PlanOptions, report: Report
) -> PlanResult:
    """Publish what `plan` writes; it returns the number of topologies."""
    from penstock.engine.store.write_plan import WriteWhilePlanning

    write = WriteWhilePlanning(out)
    try:
        inputs = plan(write)
        planned, ids, rejected = write.planned()
        require_nothing_lost(inputs, planned, rejected, ids)
        report("write the version")
        version = write.publish(planner_version=own_version(), options=options.recorded)
    except BaseException:
        write.discard()
        raise
    return PlanResult({}, inputs, planned, rejected, {}, version=version)
