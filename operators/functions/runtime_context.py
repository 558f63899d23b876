"""Where a function runs. Source: pyflink.datastream.functions.RuntimeContext."""

from collections.abc import Mapping
from typing import Any

from penstock.operators.chain.operator import OperatorContext
from penstock.operators.functions.metrics import MetricGroup, SubtaskMetricGroup, metrics_of
from penstock.operators.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.operators.state.interfaces import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from penstock.operators.state.keyed_state_backend import KeyedStateBackend
from penstock.operators.state.keyed_state_store import KeyedStateStore


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
    """A function's view of its subtask; handed to `open`."""

    def __init__(self, context: OperatorContext, backend: KeyedStateBackend | None = None) -> None:
        self._context, self._backend = context, backend

    def get_task_name(self) -> str:
        """The task's name in the plan."""
        return self._context.task_name

    def get_number_of_parallel_subtasks(self) -> int:
        """The task's parallelism."""
        return self._context.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """The task's maximum parallelism."""
        return self._context.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """The index of this subtask among the parallel ones, from 0."""
        return self._context.subtask

    def get_attempt_number(self) -> int:
        """How often the subtask was started before."""
        return self._context.attempt_number

    def get_task_name_with_subtasks(self) -> str:
        """The task's name, the subtask (from 1), the parallelism and the attempt: `Map (3/6)#0`."""
        context = self._context
        return f"{context.task_name} ({context.subtask + 1}/{context.parallelism})#{context.attempt_number}"

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """The job parameter `key`, or the default."""
        return self._context.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        """The group of the operator's metrics."""
        return SubtaskMetricGroup(metrics_of(self._context))

    def get_distributed_cache(self) -> DistributedCache:
        """The registered files. (Java's RuntimeContext has this, PyFlink's does not.)"""
        return DistributedCache(self._context.cached_files)

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """One value per key. Raises Exception: the stream has no key."""
        state: ValueState[Any] = self._keyed(state_descriptor)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list per key. Raises Exception: the stream has no key."""
        state: ListState[Any] = self._keyed(state_descriptor)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """A dictionary per key. Raises Exception: the stream has no key."""
        state: MapState[Any, Any] = self._keyed(state_descriptor)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """State that a reduce function folds a key's values into. Exception without keys."""
        state: ReducingState[Any] = self._keyed(state_descriptor)
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """State that an aggregate function adds a key's values to. Exception without keys."""
        state: AggregatingState[Any, Any] = self._keyed(state_descriptor)
        return state

    def _keyed(self, descriptor: StateDescriptor) -> Any:
        if self._backend is None:
            raise Exception("This state is only accessible by functions executed on a KeyedStream.")
        return self._backend.state(descriptor)
