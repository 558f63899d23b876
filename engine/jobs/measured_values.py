"""What the functions of a job have measured."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Metrics = Mapping[str, Mapping[str, Any]]
"""Operator to metric to value: a number, or the `sum`, `count`, `min` and `max` of a distribution."""


def add_up_metrics(subtasks: Iterable[Metrics]) -> dict[str, dict[str, Any]]:
    """The metrics of all subtasks: counters, meters and gauges are added up, distributions are merged."""
    total: dict[str, dict[str, Any]] = {}
    for metrics in subtasks:
        for operator, values in metrics.items():
            of_operator = total.setdefault(operator, {})
            for name, value in values.items():
                of_operator[name] = add_up_values(of_operator.get(name), value)
    return total


def add_up_values(first: Any, second: Any) -> Any:
    """The values of one metric in two subtasks as one; None is no value."""
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


def measured_texts(metrics: Metrics) -> Iterator[str]:
    """A line for each metric, as people read it. Names are the author's: they may hold anything."""
    for operator, values in metrics.items():
        for name, value in values.items():
            shown = f"{value:,}" if isinstance(value, int | float) else _distribution(value)
            yield f"{operator}: {name} {shown}"


def _distribution(value: Any) -> str:
    if not isinstance(value, Mapping) or not value.get("count"):
        return str(value)
    mean = value["sum"] / value["count"]
    return f"{value['min']:,} to {value['max']:,}, mean {mean:,.4g} of {value['count']:,}"
