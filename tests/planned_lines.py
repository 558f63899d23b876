"""Plan JSON compared with that of Flink or of the reference planner."""

from typing import Any

from tests.reference.canonical_plan import canonical_plan

LAYERS = ("stream_graph", "job_graph", "execution_graph", "slots")
PlanJson = dict[str, Any]


def differs(actual: PlanJson, expected: PlanJson) -> bool:
    """Whether `actual` differs from `expected` (of Flink or the reference planner).

    For a topology that was given as a stream graph, golden plans leave that layer out.
    """
    if "error" in expected or "error" in actual:
        return "error" not in expected or canonical_plan(actual) != canonical_plan(expected)
    layers = [layer for layer in LAYERS if layer in actual and layer in expected]
    return canonical_plan(actual, layers) != canonical_plan(expected, layers)
