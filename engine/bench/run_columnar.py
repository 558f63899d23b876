"""The columnar planner as a benchmark runs it."""

from collections.abc import Iterator
from pathlib import Path

from engine.bench.times import Plans, Times, again_and_again, by_layer
from engine.planning.plan_in_process import plan_on_driver
from plans.columnar.frames import from_arrow
from plans.columnar.plan_columnar import TO_ARROW, WITHOUT_REFUSED, steps
from plans.passes import Choices
from plans.plan_json.columnar.to_plan_lines import to_plan_lines
from plans.vocabulary import Layer

STEPS = {layer: tuple(step.produces for step in of_layer) for layer, of_layer in steps(Choices()).items()}
"""What the steps of each layer are called in seconds."""


def start() -> Plans:
    """Nothing has to be started: imports are all."""
    return again_and_again(_plan)


def plan_lines(path: Path, until: Layer) -> Iterator[str]:
    """Plan JSON lines."""
    tables = {
        name: from_arrow(table) for name, table in plan_on_driver(str(path), until=until).tables.items()
    }
    yield from to_plan_lines(tables)["line"]


def _plan(path: Path, until: Layer) -> Times:
    seconds = plan_on_driver(str(path), until=until).seconds
    layers = by_layer(seconds, STEPS)
    return Times(seconds["read_and_validate"], layers, seconds[TO_ARROW], seconds[WITHOUT_REFUSED])
