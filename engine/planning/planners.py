"""The way of every plan: choose a planner, in this process or on Spark, and get one result from it.

A planner is a function of the form PlanTopologies: `plan_in_process`, `plan_beside_flink`, `plan_on_spark`
(whole topologies in workers, giants in blocks), or `CustomPlanners.plan`. Commands, the library and
benchmarks call these functions; a plan that may take either place goes through `plan_topologies`.
"""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from penstock.engine.machine.available_memory import shown_bytes
from penstock.engine.output.progress import Report, no_progress
from penstock.engine.planning.memory_estimate import (
    BYTES_OF_A_PLANNED_ROW,
    bytes_of_tasks,
    estimate_size,
    require_memory_to_plan,
    spark_fits,
)
from penstock.engine.planning.plan_result import PlanResult, PlanTopologies
from penstock.engine.store.store_location import is_local
from penstock.plans.errors import ConfigurationError, NotEnoughMemoryError
from penstock.plans.execution_graph.job_graph_arrays import TaskRows
from penstock.plans.layers import PlanOptions
from penstock.plans.topology.find_topology_files import TopologyPaths

if TYPE_CHECKING:
    from penstock.engine.planning.plan_by_custom_planners import CustomPlanners

# Choose the planner of paths before they are read.


MARGIN = 1.25
"""Multiple of the estimate that must be free for AUTO to stay in this process. The estimate leaves out tasks,
except those of a giant with a parallelism of 4."""

SMALL_ENOUGH_BYTES = 2**29
"""Any worker has this much memory."""


class Planner(StrEnum):
    """The planners of Penstock: `planner` of `plan`. All give the same rows.

    Members: auto, process, workers, blocks, columnar, joins, flink.
    """

    AUTO = "auto"  #: where it costs least: process, workers, or blocks
    PROCESS = "process"  #: in this process, over arrays
    WORKERS = "workers"  #: the same in Spark's Python workers, each with a part of the topologies
    BLOCKS = "blocks"  #: on Spark: topologies too large for a worker in blocks, others as workers
    JOINS = "joins"  #: the former name of blocks
    COLUMNAR = "columnar"  #: process or workers
    FLINK = "flink"  #: process, checked by the real Flink: topologies it plans differently are rejected


ON_SPARK = (Planner.WORKERS, Planner.BLOCKS, Planner.JOINS)
"""Planners that need Spark."""


class ChosenPlanner(NamedTuple):
    """A planner, the reason shown to users, and whether it needs Spark."""

    planner: Planner
    why: str
    on_spark: bool = False
    topologies: int = 0  #: an estimate from a sample of the input

    @property
    def by_blocks(self) -> bool:
        """Whether giants are planned in blocks."""
        return self.planner in (Planner.BLOCKS, Planner.JOINS)

    @property
    def name(self) -> str:
        """The name that messages use: never a former one."""
        if self.planner is Planner.COLUMNAR:
            return str(Planner.WORKERS if self.on_spark else Planner.PROCESS)
        return str(Planner.BLOCKS if self.by_blocks else self.planner)


def choose_planner(
    asked: Planner, inputs: TopologyPaths, out: str = os.curdir, wants_spark: bool = False
) -> ChosenPlanner:
    """Choose the planner of `inputs` before they are read. `wants_spark`: settings for Spark were given.

    For inputs on Spark, `choose_on_spark` decides once topologies are counted. Raises ConfigurationError if
    planner `flink` cannot plan this input, and NotEnoughMemoryError if the input does not fit in this process
    and, with AUTO, a local Spark does not fit either.
    """
    elsewhere = [*inputs.elsewhere, *([] if is_local(out) else [out])]
    obstacle = f"{elsewhere[0]} is not a local path" if elsewhere else None
    if wants_spark:
        obstacle = "settings for Spark were given"
    if asked in (Planner.FLINK, Planner.PROCESS) and obstacle is not None:
        raise ConfigurationError(f"--planner {asked}: {obstacle}", "leave --planner out, or say workers")
    if asked in ON_SPARK:
        return ChosenPlanner(asked, "as asked", on_spark=True)
    if obstacle is not None:
        return ChosenPlanner(asked, obstacle, on_spark=True)
    size, is_free = estimate_size(inputs), asked is Planner.AUTO
    margin = MARGIN if is_free and spark_fits() and not size.is_giant else 1.0
    try:
        require_memory_to_plan(size, margin, in_parts=asked is not Planner.FLINK)
    except NotEnoughMemoryError as error:
        return on_spark_instead(asked, error)
    if not is_free:
        return ChosenPlanner(asked, "as asked", topologies=size.topologies)
    why = "pipes are read in this process" if inputs.pipes else f"about {size} fit in memory"
    return ChosenPlanner(Planner.COLUMNAR, why, topologies=size.topologies)


def on_spark_instead(asked: Planner, error: NotEnoughMemoryError) -> ChosenPlanner:
    """Choose Spark for input too large for this process; raise `error` unless AUTO may choose and it fits."""
    if asked is not Planner.AUTO or not spark_fits():
        raise error
    return ChosenPlanner(Planner.AUTO, error.message, on_spark=True)


def choose_on_spark(
    asked: Planner, largest: int, most_tasks: int, worker_bytes: Callable[[], int]
) -> ChosenPlanner:
    """Choose the planner on Spark by the largest topology and its tasks.

    `largest`: most transformations or stream nodes of a topology; `most_tasks`: most tasks of a topology if
    nothing is chained. `worker_bytes` measures the memory of each Python worker; it is called only if that
    may be too little. Raises ConfigurationError if `asked` is FLINK, which plans without Spark.
    """
    if asked in (Planner.FLINK, Planner.PROCESS):
        if asked is Planner.PROCESS:
            hint = "call penstock.engine.planning.plan_in_process.plan_in_process"
            raise ConfigurationError("planner process plans without Spark", hint)
        hint = "call penstock.engine.planning.plan_beside_flink.plan_beside_flink"
        raise ConfigurationError("planner flink plans without Spark", hint)
    if asked in (*ON_SPARK, Planner.COLUMNAR):
        return ChosenPlanner(asked, "as asked", on_spark=True)
    tasks = TaskRows(most_tasks, most_tasks, most_tasks)
    needed = largest * BYTES_OF_A_PLANNED_ROW + bytes_of_tasks(tasks)
    if needed > SMALL_ENOUGH_BYTES:
        worker_memory = worker_bytes()
        if needed > worker_memory:
            why = (
                f"a topology with {largest:,} transformations and up to {most_tasks:,} tasks takes about "
                f"{shown_bytes(needed)}, and a worker of Spark has {shown_bytes(worker_memory)}"
            )
            return ChosenPlanner(Planner.BLOCKS, why, on_spark=True)
    return ChosenPlanner(Planner.COLUMNAR, "whole topologies in Spark's workers", on_spark=True)


# Call the planner.


_STAGES_ON_SPARK = 6
"""Spark starts, topologies are read, blocks are read and planned, losses looked for, the version written."""


class ShowProgress(Protocol):
    """Shows the progress of a number of stages, see engine.output.progress.progress."""

    def __call__(self, total: int, *, expected: int = 0) -> AbstractContextManager[Report]:
        """Yield the Report of a run."""


def plan_topologies(
    source: Any,
    options: PlanOptions,
    chosen: ChosenPlanner,
    out: str | None = None,
    *,
    asked: Planner = Planner.AUTO,
    custom_planners: "CustomPlanners | None" = None,
    on_spark: Callable[[ChosenPlanner], PlanTopologies] | None = None,
    progress: ShowProgress = no_progress,
) -> PlanResult:
    """Plan `source` by the `chosen` planner, into memory or into a version of the store `out`.

    `source`: as the planner reads it. If it turns out not to fit in this process, and `asked` leaves the
    choice, `on_spark` returns the planner that is called instead; None: there is none. Raises the errors of
    planners.
    """
    if not chosen.on_spark:
        try:
            return _plan_here(source, options, chosen, out, custom_planners, progress)
        except NotEnoughMemoryError as error:
            # Lines already read from a pipe are gone.
            if on_spark is None or (isinstance(source, TopologyPaths) and source.pipes):
                raise
            chosen = on_spark_instead(asked, error)
    assert on_spark is not None
    with progress(_STAGES_ON_SPARK) as report:
        planned = on_spark(chosen)(source, options, out, report)
    why = planned.why if planned.why == chosen.why else f"{chosen.why}; {planned.why}"
    return replace(planned, why=why)


def _plan_here(
    source: Any,
    options: PlanOptions,
    chosen: ChosenPlanner,
    out: str | None,
    custom_planners: "CustomPlanners | None",
    progress: ShowProgress,
) -> PlanResult:
    """Plan in this process, which imports the planner now."""
    plan: PlanTopologies
    if custom_planners is not None:
        plan = custom_planners.plan
    elif chosen.planner is Planner.FLINK:
        from penstock.engine.planning.plan_beside_flink import plan_beside_flink as plan
    else:
        from penstock.engine.planning.plan_in_process import plan_in_process as plan
    from penstock.plans.planners.plan_in_parts import stages

    others = 4 if chosen.planner is Planner.FLINK else 2
    with progress(stages(options.until) + others, expected=chosen.topologies) as report:
        planned = plan(source, options, out, report)
    return replace(planned, planner=planned.planner or chosen.name, why=chosen.why)
