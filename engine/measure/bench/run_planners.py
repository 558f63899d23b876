"""Measure the planners that commands and the library call (see engine.planning.planners)."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import polars as pl

from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.measure.bench.planners import bench_configuration, bench_options
from penstock.engine.measure.bench.times import NotPlannedError, Times, by_layer
from penstock.engine.output.progress import SILENT
from penstock.engine.planning.plan_by_custom_planners import DEFAULT_SECONDS, named_custom_planners
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.planning.plan_result import PlanResult, PlanTopologies
from penstock.engine.planning.planner_program import PREFIX, program_named
from penstock.engine.planning.planners import Planner
from penstock.plans.custom_planners.find_violations import STAGE
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.passes import produced
from penstock.plans.plan_json.to_plan_lines import SECTIONS, to_plan_lines
from penstock.plans.planners.plan_in_parts import TO_ARROW
from penstock.plans.vocabulary import Layer

ON_SPARK = {"blocks": Planner.BLOCKS, "workers": Planner.WORKERS}
"""Measured planners that need a session, and the planner that each asks for."""

_READING = ("read_topologies", "partition_topologies", "read_and_validate", "read_blocks")
_WRITTEN = {"topologies", "rejected"} | {table for section in SECTIONS for table in section.tables}
_DERIVED = {table for layer in list(Layer)[1:] for table in LAYER_TABLES[layer]}


class PlannerRun:
    """A planner of Penstock that was started in this process, and its last plan.

    The last plan stays until the next one, so that comparing it does not plan again.
    """

    def __init__(self, name: str) -> None:
        """Import the planner `name`, and start a local session if it needs one."""
        self._name = name
        self._plan = _started(name)
        self._program = program_named(name) if name.startswith(PREFIX) else None
        self._last: tuple[Path, Layer, PlanResult] | None = None

    def plans(self, path: Path, until: Layer, warm: int) -> Iterator[Times]:
        """Yield the times of a plan and of `warm` more. Raises NotPlannedError."""
        for _ in range(1 + warm):
            yield self._times(path, until)

    def lines(self, path: Path, until: Layer) -> Iterator[str]:
        """Yield plan JSON lines; reuse the last plan if it was of this input."""
        last, self._last = self._last, None
        planned = None
        if last is not None:
            if last[:2] == (path, until):
                planned = last[2]
            else:
                last[2].release()
        if planned is None:
            planned = self._plan(str(path), replace(bench_options(), until=until), None, SILENT)
        if self._name in ON_SPARK:
            tables = _by_way_of_a_store(planned)
        else:
            tables = {name: from_arrow(table) for name, table in planned.tables.items()}
        planned.release()
        yield from to_plan_lines(tables)["line"]

    def release(self) -> None:
        """Release the last plan."""
        if self._last is not None:
            self._last[2].release()
            self._last = None

    def _times(self, path: Path, until: Layer) -> Times:
        """Compute times. `other`: checks, and what a custom planner adds: its decisions, and Flink's plan."""
        self.release()
        on_device = self._program.device_seconds if self._program else 0.0
        started = time.monotonic()
        planned = self._plan(str(path), replace(bench_options(), until=until), None, SILENT)
        made = time.monotonic()
        handed_over = 0.0
        if self._name in ON_SPARK:
            self._last = path, until, planned
            for name, rows in planned.tables.items():
                if name in _DERIVED:
                    rows.write.format("noop").mode("overwrite").save()
            handed_over = time.monotonic() - made
        else:
            _require_plans(planned)
        seconds = planned.seconds
        layers = by_layer(seconds, produced())
        reading = sum(seconds.get(stage, 0.0) for stage in _READING)
        to_arrow = seconds.get(TO_ARROW, 0.0)
        other = max(0.0, made - started - sum(layers.values()) - reading - to_arrow)
        device = None
        if self._program is not None and self._program.greeting.device:
            device = self._program.device_seconds - on_device
        return Times(reading, layers, handed_over + to_arrow, other, device=device)


def _started(name: str) -> PlanTopologies:
    if name == "process":
        return plan_in_process
    if name not in ON_SPARK:
        return named_custom_planners(name, None, DEFAULT_SECONDS).plan
    from penstock.engine.planning.plan_on_spark import plan_on_spark
    from penstock.engine.planning.planning_settings import settings_for_planner
    from penstock.engine.spark.session import get_session

    planner = ON_SPARK[name]
    of_jvm = settings_for_planner(planner)
    spark = get_session(app_name="penstock bench", conf=bench_configuration().spark, of_jvm=of_jvm)
    return partial(plan_on_spark, spark=spark, planner=planner)


def _by_way_of_a_store(planned: PlanResult) -> dict[str, pl.DataFrame]:
    from penstock.engine.store.delta_rs_tables import DeltaRsTables
    from penstock.engine.store.open_plan import read_plan

    written = {name: rows for name, rows in planned.tables.items() if name in _WRITTEN}
    with short_lived_folder("bench") as folder:
        replace(planned, tables=written).write(folder, {})
        return {name: from_arrow(rows) for name, rows in read_plan(DeltaRsTables(folder)).items()}


def _require_plans(planned: PlanResult) -> None:
    """Raise NotPlannedError if a planner left topologies unplanned: its time is then incomparable."""
    rejected = from_arrow(planned.tables["rejected"])
    failed = rejected.filter(pl.col("error_stage") == STAGE).sort("name")
    if len(failed):
        first = failed.row(0, named=True)
        where = f"{len(failed):,} of {planned.inputs:,} topologies, first {first['name']}"
        raise NotPlannedError(first["error"], f"{where}: {first['message']}")
