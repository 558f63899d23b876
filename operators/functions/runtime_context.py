"""The runtime context of functions, and their metrics.

Source: pyflink.datastream.functions.RuntimeContext.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.state.interfaces import (
    AggregatingState,
    AggregatingStateDescriptor,
    KeyedStateStore,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from penstock.operators.state.keyed_state_backend import KeyedStateBackend

# Metrics of user functions: counters, gauges, meters and distributions in named groups
#
# Values live in the subtask; `metric_values` reads all values of an operator.
#
# Source: pyflink.metrics; org.apache.flink.metrics.


#: The value of a metric, as seen from outside.
MetricValue = float | dict[str, float | None] | None


class Metric(ABC):  # noqa: B024 a common base without methods, as in PyFlink
    """The base of all metrics."""


class Counter(Metric, ABC):
    """A number that goes up and down."""

    @abstractmethod
    def inc(self, n: int = 1) -> None:
        """Add to the number.

        Args:
            n: An int; default 1.
        """

    @abstractmethod
    def dec(self, n: int = 1) -> None:
        """Subtract from the number.

        Args:
            n: An int; default 1.
        """

    @abstractmethod
    def get_count(self) -> int:
        """Return the number."""


class Meter(Metric, ABC):
    """Counts events, to measure their rate."""

    @abstractmethod
    def mark_event(self, value: int = 1) -> None:
        """Count events.

        Args:
            value: Number of events; default 1.
        """

    @abstractmethod
    def get_count(self) -> int:
        """Return the number of events so far."""


class Distribution(Metric, ABC):
    """Sum, number, minimum and maximum of some values."""

    @abstractmethod
    def update(self, value: int) -> None:
        """Add a value to the distribution.

        Args:
            value: An int.
        """


class MetricGroup(ABC):
    """A named group of metrics and further groups."""

    @abstractmethod
    def add_group(self, name: str, extra: str | None = None) -> "MetricGroup":
        """Return a group within this one.

        Args:
            name: Name of the group.
            extra: Name of a group within that group, which is then returned; default: none.

        Returns:
            MetricGroup: The same names give the same metrics.
        """

    @abstractmethod
    def counter(self, name: str) -> Counter:
        """Return a counter, which is made on first use.

        Args:
            name: Its name in the group.

        Returns:
            Counter: The same one each time.
        """

    @abstractmethod
    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """Register a gauge.

        Args:
            name: Its name in the group.
            obj: A function without arguments that returns the current number; it is called for each read.
        """

    @abstractmethod
    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """Return a meter, which is made on first use; it only counts events, since PyFlink computes no rate.

        Args:
            name: Its name in the group.
            time_span_in_seconds: Without effect.

        Returns:
            Meter: The same one each time.
        """

    @abstractmethod
    def distribution(self, name: str) -> Distribution:
        """Return a distribution, which is made on first use.

        Args:
            name: Its name in the group.

        Returns:
            Distribution: The same one each time.
        """


class SubtaskCounter(Counter, Meter):
    """A counter, or a meter that only counts its events."""

    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int = 1) -> None:
        self.count += n

    def dec(self, n: int = 1) -> None:
        self.count -= n

    def mark_event(self, value: int = 1) -> None:
        self.count += value

    def get_count(self) -> int:
        """Return the number."""
        return self.count


class SubtaskDistribution(Distribution):
    """A distribution's four numbers."""

    def __init__(self) -> None:
        self.sum: float = 0
        self.count = 0
        self.min: float | None = None
        self.max: float | None = None

    def update(self, value: float) -> None:
        self.sum += value
        self.count += 1
        self.min = value if self.min is None else min(self.min, value)
        self.max = value if self.max is None else max(self.max, value)


class SubtaskMetricGroup(MetricGroup):
    """A group whose metrics share one dictionary with all other groups of the operator."""

    def __init__(self, metrics: dict[str, Any], scope: str = "") -> None:
        self._metrics, self._scope = metrics, scope

    def add_group(self, name: str, extra: str | None = None) -> "SubtaskMetricGroup":
        scope = f"{self._scope}{name}." if extra is None else f"{self._scope}{name}.{extra}."
        return SubtaskMetricGroup(self._metrics, scope)

    def counter(self, name: str) -> Counter:
        return self._counter(name)

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        self._metrics[self._scope + name] = obj

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        return self._counter(name)

    def distribution(self, name: str) -> Distribution:
        known = self._metrics.get(self._scope + name)
        if not isinstance(known, SubtaskDistribution):
            known = self._metrics[self._scope + name] = SubtaskDistribution()
        return known

    def _counter(self, name: str) -> SubtaskCounter:
        known = self._metrics.get(self._scope + name)
        if not isinstance(known, SubtaskCounter):
            known = self._metrics[self._scope + name] = SubtaskCounter()
        return known


def _metrics_of(context: OperatorContext) -> dict[str, Any]:
    """Return an operator's metrics by name, after their groups with dots between; gauges as callables."""
    return context.metrics


def metric_values(context: OperatorContext) -> dict[str, MetricValue]:
    """Return current values of an operator's metrics; None for a gauge that fails or returns no number."""
    return {name: _value_of(metric) for name, metric in _metrics_of(context).items()}


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
    """Return a gauge's value as a plain Python number. Raises TypeError or ValueError for other values."""
    return operator.index(value) if hasattr(value, "__index__") else float(value)


class DistributedCache:
    """Local copies of the files that were registered with the environment."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def get_file(self, name: str) -> str:
        """Return the local path of the file or directory registered as `name`.

        Raises ValueError if there is none.
        """
        if name not in self._files:
            raise ValueError(f"the distributed cache has no file {name!r}, only {sorted(self._files)}")
        return self._files[name]


class RuntimeContext(KeyedStateStore):
    """A function's view of its subtask; the argument of `open`."""

    def __init__(self, context: OperatorContext, backend: KeyedStateBackend | None = None) -> None:
        self._context, self._backend = context, backend

    def get_task_name(self) -> str:
        """Return the task's name in the plan."""
        return self._context.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the task's parallelism."""
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the task's maximum parallelism."""
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return the number of this subtask, from 0."""
        return self._context.subtask

    def get_attempt_number(self) -> int:
        """Return the number of earlier starts of this subtask."""
        return self._context.attempt_number

    def get_task_name_with_subtasks(self) -> str:
        """Return name, subtask (from 1), parallelism and attempt, such as `Map (3/6)#0`."""
        context = self._context
        return f"{context.task_name} ({context.subtask + 1}/{context.parallelism})#{context.attempt_number}"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a job parameter.

        Args:
            key: Its key.
            default_value: Returned if it is not set.

        Returns:
            str: Its value.
        """
        return self._context.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        """Return the operator's metric group: counters, meters, gauges and distributions."""
        return SubtaskMetricGroup(_metrics_of(self._context))

    def get_distributed_cache(self) -> DistributedCache:
        """Return the registered files.

        In Java's RuntimeContext; not in PyFlink's.
        """
        return DistributedCache(self._context.cached_files)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the state of one value per key.

        Args:
            state_descriptor: A ValueStateDescriptor.

        Returns:
            ValueState: Always of the current key.

        Raises:
            Exception: The stream has no key.
        """
        state: ValueState[Any] = self._keyed(state_descriptor)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the state of a list per key.

        Args:
            state_descriptor: A ListStateDescriptor.

        Returns:
            ListState: Always of the current key.

        Raises:
            Exception: The stream has no key.
        """
        state: ListState[Any] = self._keyed(state_descriptor)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the state of a dictionary per key.

        Args:
            state_descriptor: A MapStateDescriptor.

        Returns:
            MapState: Always of the current key.

        Raises:
            Exception: The stream has no key.
        """
        state: MapState[Any, Any] = self._keyed(state_descriptor)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the state of one combined value per key.

        Args:
            state_descriptor: A ReducingStateDescriptor.

        Returns:
            ReducingState: Always of the current key.

        Raises:
            Exception: The stream has no key.
        """
        state: ReducingState[Any] = self._keyed(state_descriptor)
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """Return the state of one accumulator per key.

        Args:
            state_descriptor: An AggregatingStateDescriptor.

        Returns:
            AggregatingState: Always of the current key.

        Raises:
            Exception: The stream has no key.
        """
        state: AggregatingState[Any, Any] = self._keyed(state_descriptor)
        return state

    def _keyed(self, descriptor: StateDescriptor) -> Any:
        if self._backend is None:
            raise Exception("This state is only accessible by functions executed on a KeyedStream.")
        return self._backend.state(descriptor)
