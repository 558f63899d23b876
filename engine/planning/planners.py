"""The way of every plan: from topologies through one planner, here or on Spark, to one result.

A planner is a function of the form PlanTopologies: `plan_in_process`, `plan_beside_flink`, `plan_on_spark`
(whole topologies in workers, giants in blocks), or `CustomPlanners.plan`. Commands, the library and
benchmarks call these functions; a plan that may take either place goes through `plan_topologies`.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from penstock.engine.output.progress import Report, no_progress
from penstock.engine.planning.choose_planner import ChosenPlanner, Planner, on_spark_instead
from penstock.engine.planning.plan_result import PlanResult, PlanTopologies
from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.layers import PlanOptions
from penstock.plans.topology.find_topology_files import is_pipe

if TYPE_CHECKING:
    from penstock.engine.planning.plan_by_custom_planners import CustomPlanners

_STAGES_ON_SPARK = 6
"""Spark starts, topologies are read, blocks are read and planned, losses looked for, the version written."""


class ShowProgress(Protocol):
    """Shows the progress of a number of stages, see engine.output.progress.progress."""

    def __call__(self, total: int, *, expected: int = 0) -> AbstractContextManager[Report]:
        """Yield the Report of a run."""


def planner_here(planner: Planner, custom_planners: "CustomPlanners | None" = None) -> PlanTopologies:
    """Return the planner of this process, which is imported now."""
    if custom_planners is not None:
        return custom_planners.plan
    if planner is Planner.FLINK:
        from penstock.engine.planning.plan_beside_flink import plan_beside_flink

        return plan_beside_flink
    from penstock.engine.planning.plan_in_process import plan_in_process

    return plan_in_process


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
            if on_spark is None or _reads_pipe(source):  # lines already read from a pipe are gone
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
    plan = planner_here(chosen.planner, custom_planners)
    from penstock.plans.planners.plan_in_parts import stages

    others = 4 if chosen.planner is Planner.FLINK else 2
    with progress(stages(options.until) + others, expected=chosen.topologies) as report:
        planned = plan(source, options, out, report)
    return replace(planned, planner=planned.planner or chosen.name, why=chosen.why)


def _reads_pipe(source: Any) -> bool:
    return isinstance(source, list) and any(isinstance(item, str) and is_pipe(item) for item in source)
