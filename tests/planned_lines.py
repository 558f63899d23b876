"""Plans of many topologies in one run of the Spark passes, as plan JSON: a run costs seconds at any size."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from penstock.plans.planners.run_joins import Planned
from tests.plans.planners.by_joins import plan_by_joins
from tests.reference.canonical_plan import canonical_plan

LAYERS = ("stream_graph", "job_graph", "execution_graph", "slots")
PlanJson = dict[str, Any]


def planned_lines(
    spark: SparkSession,
    topologies: Iterable[Mapping[str, Any]],
    inspect: Callable[[Planned], None] | None = None,
) -> dict[str, PlanJson]:
    """Return the plan JSON of each name. `inspect` gets the tables before their storage is released."""
    planned = plan_by_joins(spark, topologies)
    try:
        if inspect is not None:
            inspect(planned)
        tables = {name: from_arrow(frame.toArrow()) for name, frame in planned.tables.items()}
    finally:
        planned.release()
    lines = to_plan_lines(tables)
    assert len(lines) == planned.inputs
    return {name: json.loads(line) for name, line in lines.rows()}


def differs(actual: PlanJson, expected: PlanJson) -> bool:
    """Whether `actual` differs from `expected` (of Flink or the reference planner).

    For a topology that was given as a stream graph, golden plans leave that layer out.
    """
    if "error" in expected or "error" in actual:
        return "error" not in expected or canonical_plan(actual) != canonical_plan(expected)
    layers = [layer for layer in LAYERS if layer in actual and layer in expected]
    return canonical_plan(actual, layers) != canonical_plan(expected, layers)
