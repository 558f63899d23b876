"""Run the Spark planner in a benchmark."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.measure.bench.planners import bench_choices, bench_configuration
from penstock.engine.measure.bench.times import Plans, Times, by_layer, repeat_plan
from penstock.engine.planning.choose_planner import Planner
from penstock.engine.planning.plan_in_workers import PARTITION
from penstock.engine.planning.plan_topologies import plan, plan_read_topologies, read_topologies
from penstock.engine.planning.planned_on_spark import Planned
from penstock.engine.planning.planning_settings import settings_for_planner
from penstock.engine.spark.session import get_session
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.open_plan import read_plan
from penstock.engine.store.spark_tables import tables_of_spark
from penstock.engine.store.write_plan import write_plan
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.passes import produced
from penstock.plans.plan_json.to_plan_lines import SECTIONS, to_plan_lines
from penstock.plans.planners.plan_in_parts import TO_ARROW
from penstock.plans.vocabulary import Layer

_PRODUCED = produced()
_READING = (PARTITION, "read_and_validate", "read_blocks")
_WRITTEN = {"topologies", "rejected"} | {table for section in SECTIONS for table in section.tables}
_DERIVED = {table for layer in list(Layer)[1:] for table in LAYER_TABLES[layer]}


def start(planner: Planner = Planner.JOINS) -> Plans:
    """Start a local session."""
    get_session(
        app_name="penstock bench", conf=bench_configuration().spark, of_jvm=settings_for_planner(planner)
    )
    return repeat_plan(partial(_plan, planner=planner))


def plan_lines(path: Path, until: Layer, planner: Planner = Planner.JOINS) -> Iterator[str]:
    """Yield plan JSON lines by way of a store; reuse the last plan if it was of this input."""
    session = get_session(
        app_name="penstock bench", conf=bench_configuration().spark, of_jvm=settings_for_planner(planner)
    )
    planned = _last_plan.pop((path, until, planner), None)
    _release_last_plan()
    if planned is None:
        planned = plan(str(path), until=until, spark=session, planner=planner, choices=bench_choices())
    with short_lived_folder("bench") as folder:
        written = {name: rows for name, rows in planned.tables.items() if name in _WRITTEN}
        delta = tables_of_spark(session, folder, planned.packed)
        about = dict.fromkeys(written, planned.rows_read)
        write_plan(delta, written, planner_version="bench", options={}, rows=about)
        planned.release()
        tables = {name: from_arrow(rows) for name, rows in read_plan(DeltaRsTables(folder)).items()}
    yield from to_plan_lines(tables)["line"]


COLUMNAR = SimpleNamespace(
    start=partial(start, Planner.COLUMNAR), plan_lines=partial(plan_lines, planner=Planner.COLUMNAR)
)
"""The columnar planner in Spark's Python workers, with the same two functions."""

_last_plan: dict[tuple[Path, Layer, Planner], Planned] = {}
"""The last plan of this process, until the next one: comparing it does not plan again."""


def _release_last_plan() -> None:
    while _last_plan:
        _last_plan.popitem()[1].release()


def _plan(path: Path, until: Layer, planner: Planner) -> Times:
    _release_last_plan()
    spark = get_session(app_name="penstock bench")
    started = time.monotonic()
    topologies = read_topologies(spark, str(path))
    read = time.monotonic()
    planned = plan_read_topologies(spark, topologies, until, lambda stage: None, bench_choices(), planner)
    done = time.monotonic()
    for name, rows in planned.tables.items():
        if name in _DERIVED:
            rows.write.format("noop").mode("overwrite").save()
    handed_over = time.monotonic()
    layers = by_layer(planned.seconds, _PRODUCED)
    reading = sum(planned.seconds.get(stage, 0.0) for stage in _READING)
    to_arrow = planned.seconds.get(TO_ARROW, 0.0)
    other = done - read - sum(layers.values()) - reading - to_arrow
    _last_plan[path, until, planner] = planned
    return Times(read - started + reading, layers, handed_over - done + to_arrow, other)
