"""Run a custom planner in a benchmark, in one Python process by columns."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import polars as pl

from penstock.engine.measure.bench.planners import bench_choices
from penstock.engine.measure.bench.times import NotPlannedError, Plans, Times, by_layer, repeat_plan
from penstock.engine.planning.plan_by_custom_planners import (
    DEFAULT_SECONDS,
    named_custom_planners,
    plan_by_custom_planners,
)
from penstock.engine.planning.plan_in_process import PlannedTables, read_in_process
from penstock.engine.planning.planner_program import PREFIX, program_named
from penstock.plans.custom_planners.find_violations import STAGE
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.passes import produced
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.planners.plan_in_parts import TO_ARROW
from penstock.plans.vocabulary import Layer


class CustomPlannerRunner:
    """Provides the functions of other planners' modules for a custom planner: start and plan_lines.

    A class, because it knows the planner's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def start(self) -> Plans:
        """Import the planner, which counts as start-up."""
        named_custom_planners(self._name, None, DEFAULT_SECONDS)
        return repeat_plan(partial(_times, self._name))

    def plan_lines(self, path: Path, until: Layer) -> Iterator[str]:
        """Yield plan JSON lines."""
        planned, _ = _plan(self._name, path, until)
        tables = {name: from_arrow(table) for name, table in planned.tables.items()}
        yield from to_plan_lines(tables)["line"]


def _plan(name: str, path: Path, until: Layer) -> tuple[PlannedTables, float]:
    """Return the plans, and the seconds of reading."""
    custom_planners = named_custom_planners(name, None, DEFAULT_SECONDS)
    read = read_in_process(str(path), lambda stage: None)
    planned = plan_by_custom_planners(
        read.frames,
        read.inputs,
        custom_planners.chosen,
        until=until,
        choices=bench_choices(),
        question=custom_planners.question(read.frames["topologies"]),
    )
    return planned, read.seconds


def _require_plans(planned: PlannedTables) -> None:
    """Raise NotPlannedError if the planner left topologies unplanned: its time is then incomparable."""
    rejected = from_arrow(planned.tables["rejected"])
    failed = rejected.filter(pl.col("error_stage") == STAGE).sort("name")
    if len(failed):
        first = failed.row(0, named=True)
        where = f"{len(failed):,} of {planned.inputs:,} topologies, first {first['name']}"
        raise NotPlannedError(first["error"], f"{where}: {first['message']}")


def _times(name: str, path: Path, until: Layer) -> Times:
    """Compute times. `other` is all but the last planning: Flink's plan for it, decisions and checks."""
    program = program_named(name) if name.startswith(PREFIX) else None
    on_device = program.device_seconds if program else 0.0
    started = time.monotonic()
    planned, reading = _plan(name, path, until)
    spent = time.monotonic() - started - reading
    _require_plans(planned)
    layers = by_layer(planned.seconds, produced())
    hand_over = planned.seconds[TO_ARROW]
    other = max(0.0, spent - sum(layers.values()) - hand_over)
    device = program.device_seconds - on_device if program and program.greeting.device else None
    return Times(reading, layers, hand_over, other, device=device)
