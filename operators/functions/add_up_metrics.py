"""Sums of metrics over operators or subtasks."""

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.operators.chain.operator import OperatorContext

Metrics = Mapping[str, Mapping[str, Any]]
"""Operator to metric to value: a number, or the `sum`, `count`, `min` and `max` of a distribution."""


def metrics_of_subtask(contexts: Iterable[OperatorContext]) -> dict[str, dict[str, Any]]:
    """Return current metrics of a subtask's functions by operator, which may be fused of several."""
    # imported here: commands that list jobs add up metrics as well, without functions
    from penstock.operators.functions.runtime_context import metric_values

    return add_up_metrics(
        {context.operator_name: metric_values(context)} for context in contexts if context.metrics
    )


def add_up_metrics(subtasks: Iterable[Metrics]) -> dict[str, dict[str, Any]]:
    """Return the metrics of all subtasks, with counters, meters and gauges added up, distributions merged."""
    total: dict[str, dict[str, Any]] = {}
    for metrics in subtasks:
        for name_of_operator, values in metrics.items():
            operator_total = total.setdefault(name_of_operator, {})
            for name, value in values.items():
                operator_total[name] = _add_up(operator_total.get(name), value)
    return total


def metrics_by_name(metrics: Metrics) -> dict[str, Any]:
    """Return the metrics by their own names, over all operators, like Flink's accumulators."""
    total: dict[str, Any] = {}
    for values in metrics.values():
        for name, value in values.items():
            total[name] = _add_up(total.get(name), value)
    return total


def _add_up(first: Any, second: Any) -> Any:
    """Combine the values of one metric in two subtasks; None means no value."""
    if first is None or second is None:
        return second if first is None else first
    if isinstance(first, dict) and isinstance(second, dict):
        least = [value["min"] for value in (first, second) if value.get("min") is not None]
        most = [value["max"] for value in (first, second) if value.get("max") is not None]
        return {
            "sum": first.get("sum", 0) + second.get("sum", 0),
            "count": first.get("count", 0) + second.get("count", 0),
            "min": min(least, default=None),
            "max": max(most, default=None),
        }
    numbers = isinstance(first, int | float) and isinstance(second, int | float)
    return first + second if numbers else second
