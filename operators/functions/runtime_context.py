"""Where a function runs. Source: pyflink.datastream.functions.RuntimeContext."""

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

# Metrics of user functions: counters, gauges, meters and distributions in named groups.
#
# Values live in the subtask; `metric_values` reads all of an operator's.
#
# Source: pyflink.metrics; org.apache.flink.metrics.


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


def _metrics_of(context: OperatorContext) -> dict[str, Any]:
    """An operator's metrics by name, groups before it with dots between; gauges as their callables."""
    return context.metrics


def metric_values(context: OperatorContext) -> dict[str, MetricValue]:
    """Current values of an operator's metrics; None for a gauge that fails or gives no number."""
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
    """A gauge's value as a plain Python number. TypeError or ValueError for anything else."""
    return operator.index(value) if hasattr(value, "__index__") else float(value)


class DistributedCache:
    """The files that were registered with the environment, as local copies."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def get_file(self, name: str) -> str:
        """The local path of the file or directory registered as `name`. ValueError if there is none."""
        if name not in self._files:
            raise ValueError(f"no file {name!r} is in the distributed cache; there are {sorted(self._files)}")
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
