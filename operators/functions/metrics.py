"""Metrics of user functions: counters, gauges, meters and distributions in named groups.

Values live in the subtask; `metric_values` reads all of an operator's.

Source: pyflink.metrics; org.apache.flink.metrics.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from penstock.operators.chain.operator import OperatorContext

#: What a metric's value looks like from outside.
MetricValue = float | dict[str, float | None] | None


class Metric(ABC):  # noqa: B024 a common base without methods, as in PyFlink
    """Anything that is measured."""


class Counter(Metric, ABC):
    """A number that goes up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Add `n`."""

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Subtract `n`."""

    @abstractmethod
    def get_count(self) -> int:
        """The number."""


class Meter(Metric, ABC):
    """Counts events to tell how often they happen."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """`value` events have happened."""

    @abstractmethod
    def get_count(self) -> int:
        """The number of events so far."""


class Distribution(Metric, ABC):
    """Sum, number, least and greatest of some values."""

    @abstractmethod
    def update(self, value: int) -> None:
        """Count `value` in."""


class MetricGroup(ABC):
    """A named group of metrics and further groups."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> "MetricGroup":
        """The group `name` in this one; with `extra` the group `extra` in that."""

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """The counter `name`."""

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Have `obj` called whenever the value of the gauge `name` is asked for."""

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """The meter `name`."""

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """The distribution `name`."""


class SubtaskCounter(Counter, Meter):
    """A counter, or a meter, whose events are counted."""

    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int = 1) -> None:
        """Add `n`."""
        self.count += n

    def dec(self, n: int = 1) -> None:
        """Subtract `n`."""
        self.count -= n

    def mark_event(self, value: int = 1) -> None:
        """`value` events have happened."""
        self.count += value

    def get_count(self) -> int:
        """The number."""
        return self.count


class SubtaskDistribution(Distribution):
    """A distribution's four numbers."""

    def __init__(self) -> None:
        self.sum: float = 0
        self.count = 0
        self.min: float | None = None
        self.max: float | None = None

    def update(self, value: float) -> None:
        """Count `value` in."""
        self.sum += value
        self.count += 1
        self.min = value if self.min is None else min(self.min, value)
        self.max = value if self.max is None else max(self.max, value)


class SubtaskMetricGroup(MetricGroup):
    """A group whose metrics are in one dictionary with those of all other groups of the operator."""

    def __init__(self, metrics: dict[str, Any], scope: str = "") -> None:
        self._metrics, self._scope = metrics, scope

    def add_group(self, name: str, extra: str | None = None) -> "SubtaskMetricGroup":
        """The group `name` in this one; with `extra` the group `extra` in that."""
        scope = f"{self._scope}{name}." if extra is None else f"{self._scope}{name}.{extra}."
        return SubtaskMetricGroup(self._metrics, scope)

    def counter(self, name: str) -> Counter:
        """The counter `name`; the same one if asked for again."""
        return self._counter(name)

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Have `obj` called whenever the value of the gauge `name` is asked for."""
        self._metrics[self._scope + name] = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """The meter `name`, which only counts: as in PyFlink no rate is worked out here."""
        return self._counter(name)

    def distribution(self, name: str) -> Distribution:
        """The distribution `name`; the same one if asked for again."""
        known = self._metrics.get(self._scope + name)
        if not isinstance(known, SubtaskDistribution):
            known = self._metrics[self._scope + name] = SubtaskDistribution()
        return known

    def _counter(self, name: str) -> SubtaskCounter:
        known = self._metrics.get(self._scope + name)
        if not isinstance(known, SubtaskCounter):
            known = self._metrics[self._scope + name] = SubtaskCounter()
        return known


def metrics_of(context: OperatorContext) -> dict[str, Any]:
    """An operator's metrics by name, groups before it with dots between; gauges as their callables."""
    return context.metrics


def metric_values(context: OperatorContext) -> dict[str, MetricValue]:
    """Current values of an operator's metrics; None for a gauge that fails or gives no number."""
    return {name: _value_of(metric) for name, metric in metrics_of(context).items()}


def _value_of(metric: Any) -> MetricValue:
    if isinstance(metric, SubtaskCounter):
        return metric.count
    if isinstance(metric, SubtaskDistribution):
        return dict(vars(metric))
    try:
        return _number(metric())
    except Exception:
        return None


def _number(value: Any) -> float | None:
    """A gauge's value as a plain Python number. TypeError or ValueError for anything else."""
    return operator.index(value) if hasattr(value, "__index__") else float(value)
