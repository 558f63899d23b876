"""Run the columnar planner in a benchmark."""

from collections.abc import Iterator
from pathlib import Path

from penstock.engine.measure.bench.planners import bench_choices
from penstock.engine.measure.bench.times import Plans, Times, by_layer, repeat_plan
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.passes import produced
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.planners.plan_in_parts import TO_ARROW, WITHOUT_REFUSED
from penstock.plans.vocabulary import Layer


def start() -> Plans:
    """Return the planner; its imports are all of its start-up."""
    return repeat_plan(_plan)


def plan_lines(path: Path, until: Layer) -> Iterator[str]:
    """Yield plan JSON lines."""
    planned = plan_in_process(str(path), until=until, choices=bench_choices())
    tables = {name: from_arrow(table) for name, table in planned.tables.items()}
    yield from to_plan_lines(tables)["line"]


def _plan(path: Path, until: Layer) -> Times:
    seconds = plan_in_process(str(path), until=until, choices=bench_choices()).seconds
    layers = by_layer(seconds, produced())
    return Times(seconds["read_and_validate"], layers, seconds[TO_ARROW], seconds[WITHOUT_REFUSED])
