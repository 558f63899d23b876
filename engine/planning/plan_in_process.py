"""Plan small inputs in this process by the columnar planner, without Spark."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from penstock.engine.planning.memory_estimate import (
    FleetSize,
    parts_at_once,
    require_memory_after_reading,
    require_memory_for_tasks,
    require_memory_to_read_on,
)
from penstock.engine.planning.plan_options import require_nothing_lost
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import ConfigurationError
from penstock.plans.execution_graph.job_graph_arrays import TaskRows
from penstock.plans.layers import Choices
from penstock.plans.planners.plan_as_read import ROWS_AT_A_TIME, Topologies, plan_as_read, read_topologies
from penstock.plans.planners.plan_in_parts import (
    Finished,
    plan_alone,
    plan_in_parts,
    without_garbage_collection,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.read_topology_files import read_topology_files_in_parts
from penstock.plans.topology.read_topology_tables import holds_tables, read_topology_folder_in_parts
from penstock.plans.topology.topologies_of_lines import TopologyTables
from penstock.plans.vocabulary import Layer

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


class PlannedTables(NamedTuple):
    """The counterpart of planned_on_spark.Planned with Arrow tables."""

    tables: dict[str, pa.Table]
    inputs: int
    planned: int
    rejected: int
    seconds: dict[str, float]


@without_pandas()
def plan_in_process(
    topologies: Topologies,
    *,
    until: Layer = Layer.SLOTS,
    choices: Choices | None = None,
    report: Callable[[str], None] = lambda stage: None,
    max_line_bytes: int = MAX_LINE_BYTES,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> PlannedTables:
    """Plan all topologies into Arrow tables, with the same rows as engine.planning.plan_topologies.plan.

    `topologies`: a path or several, dicts, or two Arrow tables (see read_topologies). No Spark session is
    used or started. A line of a file with more than `max_line_bytes` is rejected. `job_defaults` apply to
    settings that a topology leaves unset. Raises InputError, NotEnoughMemoryError before memory runs out, and
    LostTopologiesError (see require_nothing_lost).
    """
    read = read_in_process(topologies, report, max_line_bytes, job_defaults)
    planned = plan_frames(read.frames, read.inputs, until, choices, report)
    return planned._replace(seconds={"read_and_validate": read.seconds, **planned.seconds})


class ReadTopologies(NamedTuple):
    """An input's frames by table (see TopologyTables), its number of topologies, and seconds to read."""

    frames: dict[str, pl.DataFrame]
    inputs: int
    seconds: float


@without_pandas()
def read_in_process(
    topologies: Topologies,
    report: Callable[[str], None],
    max_line_bytes: int = MAX_LINE_BYTES,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> ReadTopologies:
    """Read the tables of the topology layer like `plan_in_process`; same errors."""
    started = time.monotonic()
    _require_threads("planning")
    _note_forks()
    report("read topologies")
    with without_garbage_collection():
        read = read_topologies(
            topologies,
            max_line_bytes=max_line_bytes,
            before_block=require_memory_to_read_on,
            job_defaults=job_defaults,
        )
    frames = read._asdict()
    inputs = frames.pop("inputs")
    return ReadTopologies(frames, inputs, time.monotonic() - started)


@without_pandas()
def plan_frames(
    frames: dict[str, pl.DataFrame],
    inputs: int,
    until: Layer,
    choices: Choices | None,
    report: Callable[[str], None],
) -> PlannedTables:
    """Plan topologies that were read like `plan_in_process`.

    `frames` are the tables of `inputs` topologies, and are emptied. Raises NotEnoughMemoryError before memory
    runs out.
    """
    require_memory_after_reading(_size(frames))
    planned = plan_in_parts(
        frames,
        until,
        choices or Choices(),
        lambda stage: report(stage.replace("_", " ")),
        require_memory_for_tasks(),
    )
    tables = planned.tables
    planned_count, rejected = len(tables["topologies"]), len(tables["rejected"])
    require_nothing_lost(inputs, planned_count, rejected, len(tables["topologies"][TOPOLOGY].unique()))
    return PlannedTables(tables, inputs, planned_count, rejected, planned.seconds)


def parts_in_process(
    paths: Sequence[str], max_line_bytes: int, job_defaults: JobDefaults
) -> Iterator[TopologyTables]:
    """Read files of topologies, or a folder of tables, in parts that are planned one by one.

    Same errors as read_in_process.
    """
    if any(map(holds_tables, paths)):
        return read_topology_folder_in_parts(paths, ROWS_AT_A_TIME, require_memory_to_read_on, job_defaults)
    return read_topology_files_in_parts(
        paths, ROWS_AT_A_TIME, max_line_bytes, require_memory_to_read_on, job_defaults
    )


@without_pandas()
def plan_parts(
    parts: Iterator[TopologyTables],
    until: Layer,
    choices: Choices | None,
    take: Callable[[dict[str, pa.Table]], None],
    report: Callable[[int], None],
) -> int:
    """Plan `parts` while they are read, pass their tables to `take`, and return the number of topologies.

    `report` is called with the number of topologies taken so far. Raises NotEnoughMemoryError before memory
    runs out.
    """
    inputs = done = 0

    def frames() -> Iterator[dict[str, pl.DataFrame]]:
        nonlocal inputs
        for part in parts:
            frames_of_part = part._asdict()
            inputs += frames_of_part.pop("inputs")
            require_memory_after_reading(_size(frames_of_part))
            yield frames_of_part

    def before_tasks(rows: TaskRows) -> None:
        require_memory_for_tasks()(rows)  # of this part alone: earlier ones are written

    def take_and_count(tables: dict[str, pa.Table]) -> None:
        nonlocal done
        done += len(tables["topologies"]) + len(tables["rejected"])
        take(tables)
        report(done)

    plan_as_read(frames(), until, choices or Choices(), take_and_count, before_tasks, parts_at_once())
    return inputs


@without_pandas()
def plan_giant(
    finished: Finished,
    frames: dict[str, pl.DataFrame],
    until: Layer,
    choices: Choices | None,
    report: Callable[[str], None],
) -> None:
    """Plan the only topology of `frames`, which are emptied, and pass its tables to `finished`.

    Raises NotEnoughMemoryError before memory runs out.
    """
    require_memory_after_reading(_size(frames))
    plan_alone(
        finished,
        frames,
        until,
        choices or Choices(),
        lambda stage: report(stage.replace("_", " ")),
        require_memory_for_tasks(),
    )


def is_giant(frames: Mapping[str, pl.DataFrame]) -> bool:
    """Return whether this is a single topology so large that its plan should be written while it is made."""
    return _size(frames).is_giant


def _size(frames: Mapping[str, pl.DataFrame]) -> FleetSize:
    return FleetSize(len(frames["transformations"]) + len(frames["stream_nodes"]), len(frames["topologies"]))
