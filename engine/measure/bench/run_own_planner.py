"""A custom planner as a benchmark runs it: in one Python process, by columns."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import polars as pl

from penstock.engine.measure.bench.planners import bench_choices
from penstock.engine.measure.bench.times import NotPlannedError, Plans, Times, again_and_again, by_layer
from penstock.engine.planning.plan_by_custom_planners import (
    DEFAULT_SECONDS,
    named_custom_planners,
    plan_by_custom_planners,
)
from penstock.engine.planning.plan_in_process import PlannedTables, read_in_process
from penstock.engine.planning.planner_program import PREFIX, program_named
from penstock.plans.custom_planners.find_violations import STAGE
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.planners.columnar_passes import produced
from penstock.plans.planners.plan_in_parts import TO_ARROW
from penstock.plans.vocabulary import Layer


class OwnPlanner:
    """What modules of other planners are: something to start, and to have plan lines made by.

    A class, since it knows its name.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def start(self) -> Plans:
        """Import the planner, so that this counts as start-up."""
        named_custom_planners(self._name, None, DEFAULT_SECONDS)
        return again_and_again(partial(_times, self._name))

    def plan_lines(self, path: Path, until: Layer) -> Iterator[str]:
        """Plan JSON lines."""
        planned, _ = _plan(self._name, path, until)
        tables = {name: from_arrow(table) for name, table in planned.tables.items()}
        yield from to_plan_lines(tables)["line"]


def _plan(name: str, path: Path, until: Layer) -> tuple[PlannedTables, float]:
    """The plans, and the seconds of reading."""
    own = named_custom_planners(name, None, DEFAULT_SECONDS)
    read = read_in_process(str(path), lambda stage: None)
    planned = plan_by_custom_planners(
        read.frames,
        read.inputs,
        own.chosen,
        until=until,
        choices=bench_choices(),
        question=own.question(read.frames["topologies"]),
    )
    return planned, read.seconds


def _require_plans(planned: PlannedTables) -> None:
    """Raise NotPlannedError if topologies were not planned because of the planner: its time is of others."""
    rejected = from_arrow(planned.tables["rejected"])
    failed = rejected.filter(pl.col("error_stage") == STAGE).sort("name")
    if len(failed):
        first = failed.row(0, named=True)
        where = f"{len(failed):,} of {planned.inputs:,} topologies, first {first['name']}"
        raise NotPlannedError(first["error"], f"{where}: {first['message']}")


def _times(name: str, path: Path, until: Layer) -> Times:
    """`other`: what is not the last planning, that is Flink's plan that is shown, decisions and checks."""
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
