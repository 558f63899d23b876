"""The contexts through which assigners, triggers and window functions access their operator.

Source: pyflink.fn_execution.datastream.window.window_operator.{Context,WindowContext,WindowAssignerContext,
PerWindowStateStore,MergingWindowStateStore}.
"""

from collections.abc import Iterable
from typing import Any, NoReturn

from penstock.operators.common.basic_types import TypeSerializer
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.functions.runtime_context import MetricGroup, RuntimeContext
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.state.interfaces import KeyedStateStore, StateDescriptor
from penstock.operators.state.keyed_state_backend import BackendStateStore
from penstock.operators.windows.trigger import Trigger, WindowAssigner
from penstock.operators.windows.window_functions import InternalWindowFunction

# Descriptors of windowed operations, and their names in a plan
#
# Source: pyflink.datastream.window.WindowOperationDescriptor.


class WindowOperationDescriptor:
    """The parts of a windowed operation.

    Args:
        assigner: A WindowAssigner.
        trigger: A Trigger.
        allowed_lateness: Milliseconds, 0 or more.
        late_data_output_tag: OutputTag of late records; None: they are dropped.
        window_state_descriptor: Describes the state of a window's contents.
        window_serializer: TypeSerializer of the windows.
        internal_window_function: An InternalWindowFunction.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        allowed_lateness: int,
        late_data_output_tag: OutputTag | None,
        window_state_descriptor: StateDescriptor,
        window_serializer: TypeSerializer[Any],
        internal_window_function: Any,
    ) -> None:
        self.assigner = assigner
        self.trigger = trigger
        self.allowed_lateness = allowed_lateness
        self.late_data_output_tag = late_data_output_tag
        self.window_state_descriptor = window_state_descriptor
        self.internal_window_function = internal_window_function
        self.window_serializer = window_serializer

    def generate_op_name(self) -> str:
        """Return the operator's name: the name of the assigner's class."""
        return type(self.assigner).__name__

    def generate_op_desc(self, windowed_stream_type: str, func_desc: str) -> str:
        """Return the operator's description in plans.

        Args:
            windowed_stream_type: "Window" or "AllWindow".
            func_desc: Name of the window function.

        Returns:
            str: Such as `Window(TumblingEventTimeWindows(5000, 0), EventTimeTrigger, CountRecords)`.
        """
        return f"{windowed_stream_type}({self.assigner}, {type(self.trigger).__name__}, {func_desc})"


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """The clock, and the state of the record's key."""

    def __init__(self, operator: KeyedOperator, runtime_context: RuntimeContext) -> None:
        self._operator, self._runtime_context = operator, runtime_context

    def get_current_processing_time(self) -> int:
        """Return the time in milliseconds since the epoch."""
        return self._operator.context.processing_time()

    def get_runtime_context(self) -> RuntimeContext:
        """Return the operator's runtime context, with the state of the record's key."""
        return self._runtime_context


class TriggerContext(Trigger.OnMergeContext):
    """Times, timers and state of the operator's current key and of `window`."""

    def __init__(self, operator: KeyedOperator, runtime_context: RuntimeContext) -> None:
        self._operator, self._runtime_context = operator, runtime_context
        self.window: Any = None
        self.merged_windows: Iterable[Any] = ()  #: in on_merge, the windows that become `window`

    def get_current_processing_time(self) -> int:
        """Return the time in milliseconds since the epoch."""
        return self._operator.context.processing_time()

    def get_metric_group(self) -> MetricGroup:
        return self._runtime_context.get_metrics_group()

    def get_current_watermark(self) -> int:
        """Return the watermark (milliseconds); the least 64-bit integer before the first one."""
        return self._operator.watermark

    def register_processing_time_timer(self, time: int) -> None:
        self._operator.register_processing_time_timer(time, self.window)

    def register_event_time_timer(self, time: int) -> None:
        self._operator.register_event_time_timer(time, self.window)

    def delete_processing_time_timer(self, time: int) -> None:
        self._operator.delete_processing_time_timer(time, self.window)

    def delete_event_time_timer(self, time: int) -> None:
        self._operator.delete_event_time_timer(time, self.window)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        backend = self._operator.backend
        state = backend.state(state_descriptor, namespaced=True)
        backend.namespace.set(self.window)
        return state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the merged windows' state into the new window. Raises Exception for value and map state."""
        state = self._operator.backend.state(state_descriptor, namespaced=True)
        if not hasattr(state, "merge_namespaces"):
            raise Exception(f"State '{state_descriptor.name}' cannot be merged: it is value or map state")
        if self.merged_windows:
            state.merge_namespaces(self.window, self.merged_windows)


class WindowContext(InternalWindowFunction.InternalWindowContext):
    """Times and state for the function of `window`."""

    def __init__(self, operator: KeyedOperator, runtime_context: RuntimeContext, merging: bool) -> None:
        self._operator, self._runtime_context = operator, runtime_context
        self._window_state = (
            _NoWindowState() if merging else BackendStateStore(operator.backend, namespaced=True)
        )
        self.window: Any = None

    def current_processing_time(self) -> int:
        """Return the time in milliseconds since the epoch."""
        return self._operator.context.processing_time()

    def current_watermark(self) -> int:
        """Return the watermark (milliseconds); the least 64-bit integer before the first one."""
        return self._operator.watermark

    def window_state(self) -> KeyedStateStore:
        """Return the state of the current key and window."""
        self._operator.backend.namespace.set(self.window)
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        """Return the state of the current key over all windows."""
        return self._runtime_context


class _NoWindowState(KeyedStateStore):
    """The missing state of windows that merge, because it would have to be merged as well."""

    def get_state(self, state_descriptor: Any) -> NoReturn:
        _refuse()

    def get_list_state(self, state_descriptor: Any) -> NoReturn:
        _refuse()

    def get_map_state(self, state_descriptor: Any) -> NoReturn:
        _refuse()

    def get_reducing_state(self, state_descriptor: Any) -> NoReturn:
        _refuse()

    def get_aggregating_state(self, state_descriptor: Any) -> NoReturn:
        _refuse()


def _refuse() -> NoReturn:
    raise Exception("Per-window state is not allowed when using merging windows.")
