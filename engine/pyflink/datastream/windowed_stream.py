"""Streams in windows, by key or altogether.

Source: pyflink.datastream.data_stream.{WindowedStream,AllWindowedStream}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

from penstock.engine.pyflink.common.typeinfo import TypeInformation, Types
from penstock.engine.pyflink.datastream.functions import (
    AggregateFunction,
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.engine.pyflink.datastream.keyed_stream import KeyedOperations
from penstock.engine.pyflink.datastream.operator_settings import (
    as_output_type,
    check_function,
    check_function_object,
    check_methods,
)
from penstock.engine.pyflink.datastream.output_tag import OutputTag
from penstock.engine.pyflink.datastream.window import (
    MergingWindowAssigner,
    Trigger,
    WindowAssigner,
    WindowOperationDescriptor,
)
from penstock.engine.run.runtime.transformations import Call
from penstock.operators.chain.operator import MAX_WATERMARK
from penstock.operators.common.arguments import require_integer
from penstock.operators.common.declared_types import DeclaredType
from penstock.operators.windows.window_operator import WindowOperator
from penstock.operators.windows.windowed_function import WindowedFunction, aggregated, buffered, reduced

if TYPE_CHECKING:
    from penstock.engine.pyflink.datastream.data_stream import DataStream
    from penstock.engine.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment


class WindowedOperations:
    """A keyed stream cut into windows: settings of the windows, then what is done with their records."""

    _kind: ClassVar[str]  #: as descriptions begin
    _apply_function: ClassVar[type]
    _process_function: ClassVar[type]

    def __init__(self, keyed_stream: KeyedOperations, window_assigner: WindowAssigner[Any, Any]) -> None:
        self._keyed_stream = keyed_stream
        self._window_assigner = window_assigner
        self._allowed_lateness = 0
        self._late_data_output_tag: OutputTag | None = None
        self._window_trigger: Trigger[Any, Any] | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """The environment that the stream belongs to."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Type of the records."""
        return self._keyed_stream._transformation.output_type or Types.PICKLED_BYTE_ARRAY()

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Let `trigger` decide when windows are worked out, instead of the assigner's own."""
        self._window_trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Keep event-time windows for records that are up to that many milliseconds late.

        A negative number keeps them for good, as in PyFlink, which takes their end for an overflow.
        """
        milliseconds = require_integer(time_ms, "allowed lateness")
        self._allowed_lateness = milliseconds if milliseconds >= 0 else MAX_WATERMARK
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Put records that are too late into the side output of `output_tag`."""
        self._late_data_output_tag = output_tag
        return self

    def _reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: Any,
        output_type: DeclaredType | None,
    ) -> DataStream:
        check_function(reduce_function, ReduceFunction, "reduce's function")
        self._check(window_function)
        windowed = reduced(reduce_function, window_function, self.get_input_type())
        if window_function is None and output_type is None:
            output_type = self.get_input_type()
        return self._result(windowed, _names(reduce_function, window_function), output_type)

    def _aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: Any,
        accumulator_type: DeclaredType | None,
        output_type: DeclaredType | None,
    ) -> DataStream:
        check_function_object(aggregate_function, AggregateFunction, "aggregate's function")
        self._check(window_function)
        kept = as_output_type(accumulator_type) or Types.PICKLED_BYTE_ARRAY()
        windowed = aggregated(aggregate_function, window_function, kept)
        return self._result(windowed, _names(aggregate_function, window_function), output_type)

    def _buffer(
        self, window_function: Any, kind: type, role: str, output_type: DeclaredType | None
    ) -> DataStream:
        check_methods(window_function, kind, f"{role}'s function")
        windowed = buffered(window_function, self.get_input_type(), kind)
        return self._result(windowed, _names(window_function, None), output_type)

    def _check(self, window_function: Any) -> None:
        if window_function is not None:
            kinds = (self._apply_function, self._process_function)
            check_function_object(window_function, kinds, "window_function")

    def _result(
        self, windowed: WindowedFunction, functions: str, output_type: DeclaredType | None
    ) -> DataStream:
        assigner, stream = self._window_assigner, self._keyed_stream
        trigger = self._window_trigger or assigner.get_default_trigger(self.get_execution_environment())
        tag = self._late_data_output_tag
        described = WindowOperationDescriptor(
            assigner,
            trigger,
            self._allowed_lateness,
            tag,
            windowed.state_descriptor,
            assigner.get_window_serializer(),
            windowed.window_function,
        )
        operator = WindowOperator(
            assigner=assigner,
            trigger=trigger,
            key_selector=stream._key_selector,
            function=windowed,
            allowed_lateness_milliseconds=self._allowed_lateness,
            late_tag=None if tag is None else tag.tag_id,
        )
        name = described.generate_op_name()
        result = stream._keyed(name, operator, as_output_type(output_type), Call.WINDOW)
        return result.set_description(described.generate_op_desc(self._kind, functions))


class WindowedStream(WindowedOperations):
    """The windows of each key."""

    _kind = "Window"
    _apply_function = WindowFunction
    _process_function = ProcessWindowFunction

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: WindowFunction[Any, Any, Any, Any]
        | ProcessWindowFunction[Any, Any, Any, Any]
        | None = None,
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """The records of a window combined as they come; `window_function` gets a list of what is left."""
        return self._reduce(reduce_function, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: WindowFunction[Any, Any, Any, Any]
        | ProcessWindowFunction[Any, Any, Any, Any]
        | None = None,
        accumulator_type: DeclaredType | None = None,
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """The records of a window aggregated as they come; `window_function` gets a list of the result."""
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(
        self, window_function: WindowFunction[Any, Any, Any, Any], output_type: DeclaredType | None = None
    ) -> DataStream:
        """All records of a window at once."""
        return self._buffer(window_function, WindowFunction, "apply", output_type)

    def process(
        self,
        process_window_function: ProcessWindowFunction[Any, Any, Any, Any],
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """All records of a window at once, with a context."""
        return self._buffer(process_window_function, ProcessWindowFunction, "process", output_type)


class AllWindowedStream(WindowedOperations):
    """The windows of a stream without keys."""

    _kind = "AllWindow"
    _apply_function = AllWindowFunction
    _process_function = ProcessAllWindowFunction

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """As for keyed windows. TypeError where windows may merge and the trigger cannot: only here, as in
        PyFlink.
        """
        if isinstance(self._window_assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise TypeError(
                f"windows of {type(self._window_assigner).__name__} merge, which "
                f"{type(trigger).__name__} cannot"
            )
        return super().trigger(trigger)

    def reduce(
        self,
        reduce_function: Callable[[Any, Any], Any] | ReduceFunction,
        window_function: AllWindowFunction[Any, Any, Any]
        | ProcessAllWindowFunction[Any, Any, Any]
        | None = None,
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """The records of a window combined as they come; `window_function` gets a list of what is left."""
        return self._reduce(reduce_function, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: AllWindowFunction[Any, Any, Any]
        | ProcessAllWindowFunction[Any, Any, Any]
        | None = None,
        accumulator_type: DeclaredType | None = None,
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """The records of a window aggregated as they come; `window_function` gets a list of the result."""
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(
        self, window_function: AllWindowFunction[Any, Any, Any], output_type: DeclaredType | None = None
    ) -> DataStream:
        """All records of a window at once."""
        return self._buffer(window_function, AllWindowFunction, "apply", output_type)

    def process(
        self,
        process_window_function: ProcessAllWindowFunction[Any, Any, Any],
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """All records of a window at once, with a context."""
        return self._buffer(process_window_function, ProcessAllWindowFunction, "process", output_type)


def _names(function: Any, window_function: Any) -> str:
    functions = [function] if window_function is None else [function, window_function]
    return ", ".join(type(user_function).__name__ for user_function in functions)
