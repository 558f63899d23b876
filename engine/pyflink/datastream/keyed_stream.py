"""Operations on keyed streams.

Source: pyflink.datastream.data_stream.KeyedStream; org.apache.flink.streaming.api.datastream.KeyedStream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow.compute as pc

from penstock.engine.pyflink.datastream.operator_settings import (
    as_output_type,
    check_function,
    check_function_object,
    check_methods,
)
from penstock.engine.pyflink.datastream.stream_settings import StreamSettings, schema_of_type
from penstock.engine.run.lowering.transformations import Call
from penstock.operators.chain.operator import MAX_WATERMARK
from penstock.operators.common.arguments import require_integer
from penstock.operators.common.declared_types import DeclaredType, declared_type
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.typeinfo import TypeInformation, Types
from penstock.operators.functions.functions import (
    AggregateFunction,
    AllWindowFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    ReduceFunction,
    WindowFunction,
)
from penstock.operators.process.keyed_process_operators import (
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
    KeyedProcessOperator,
    ReduceOperator,
)
from penstock.operators.records.aggregate_batches import (
    FUNCTIONS,
    Aggregation,
    Field,
    FieldAggregate,
    FinalAggregateOperator,
    PartialAggregateOperator,
    final_schema,
    partial_schema,
)
from penstock.operators.records.key_selection import ColumnKeys
from penstock.operators.windows.trigger import MergingWindowAssigner, Trigger, WindowAssigner
from penstock.operators.windows.window_contexts import WindowOperationDescriptor
from penstock.operators.windows.window_functions import WindowedFunction, buffered, reduced
from penstock.operators.windows.window_functions import aggregated as with_aggregation
from penstock.operators.windows.window_operator import WindowOperator

if TYPE_CHECKING:
    from penstock.engine.pyflink.datastream.data_stream import DataStream
    from penstock.engine.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment


class KeyedOperations(StreamSettings):
    """map, flat_map, filter, process, reduce, sum and its like."""

    _key_selector: Callable[[Any], Any]

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Transform each record into one result, with state by key.

        Args:
            func: A function of a record, or a MapFunction, which may use keyed state.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_function(func, MapFunction, "map's function")
        return self._keyed("Map", KeyedMapOperator(func, self._key_selector), as_output_type(output_type))

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Transform each record into any number of results, with state by key.

        Args:
            func: A function of a record that returns or yields results, or a FlatMapFunction, which may use
                keyed state.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        check_function(func, FlatMapFunction, "flat_map's function")
        operator = KeyedFlatMapOperator(func, self._key_selector)
        return self._keyed("FlatMap", operator, as_output_type(output_type))

    def filter(self, func: Callable[[Any], Any] | FilterFunction | pc.Expression) -> DataStream:
        """Keep the records for which a condition is true, with state by key.

        Args:
            func: A function of a record, or a FilterFunction, which may use keyed state.

        Returns:
            DataStream: The records that are kept, of the same type.

        Raises:
            TypeError: A pyarrow expression: filter by it before `key_by`.
        """
        if isinstance(func, pc.Expression):
            raise TypeError("an expression needs no keys: filter by it before key_by")
        check_function(func, FilterFunction, "filter's function")
        operator = KeyedFilterOperator(func, self._key_selector)
        return self._keyed("Filter", operator, self._transformation.output_type)

    def process(self, func: KeyedProcessFunction, output_type: DeclaredType | None = None) -> DataStream:
        """Transform each record into any number of results, with state and timers by key.

        Args:
            func: A KeyedProcessFunction.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results; `get_side_output` returns the others.

        Raises:
            TypeError: Not a KeyedProcessFunction.
        """
        check_function_object(func, KeyedProcessFunction, "process's function on a KeyedStream")
        operator = KeyedProcessOperator(func, self._key_selector)
        return self._keyed("KEYED PROCESS", operator, as_output_type(output_type))

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Combine the records of each key.

        Args:
            func: A function of two records, or a ReduceFunction.

        Returns:
            DataStream: Each update in STREAMING mode, the last one in BATCH mode.
        """
        check_function(func, ReduceFunction, "reduce's function")
        output_type = self._transformation.output_type
        return self._keyed("Reduce", ReduceOperator(func, self._key_selector, output_type), output_type)

    def sum(self, position_to_sum: Field = 0) -> DataStream:
        """Sum a field per key.

        Args:
            position_to_sum: Number or name of a field, or 0 for records without fields.

        Returns:
            DataStream: Records with the sum so far.
        """
        return self.reduce(FieldAggregate("sum", position_to_sum))

    def min(self, position_to_min: Field = 0) -> DataStream:
        """Find the least value of a field per key, in the first record of its key.

        Args:
            position_to_min: Number or name of a field.

        Returns:
            DataStream: Records with the least value so far.
        """
        return self.reduce(FieldAggregate("min", position_to_min))

    def max(self, position_to_max: Field = 0) -> DataStream:
        """Find the largest value of a field per key, in the first record of its key.

        Args:
            position_to_max: Number or name of a field.

        Returns:
            DataStream: Records with the largest value so far.
        """
        return self.reduce(FieldAggregate("max", position_to_max))

    def min_by(self, position_to_min_by: Field = 0) -> DataStream:
        """Find the record with the least value of a field per key.

        Args:
            position_to_min_by: Number or name of a field.

        Returns:
            DataStream: The record so far, the first of equals.
        """
        return self.reduce(FieldAggregate("min_by", position_to_min_by))

    def max_by(self, position_to_max_by: Field = 0) -> DataStream:
        """Find the record with the largest value of a field per key.

        Args:
            position_to_max_by: Number or name of a field.

        Returns:
            DataStream: The record so far, the first of equals.
        """
        return self.reduce(FieldAggregate("max_by", position_to_max_by))

    def aggregate(self, aggregations: Sequence[tuple[str, str]]) -> DataStream:
        """Aggregate columns per key, vectorised.

        Penstock's own: PyFlink lacks it.

        Not in PyFlink. Nulls do not count. Partial results are computed before the exchange.

        Args:
            aggregations: Pairs of a field and a function: sum, min, max, count or mean.

        Returns:
            DataStream: One row per key at the end of the input: the key's fields, then `<field>_<function>`
            for each pair.

        Raises:
            TypeError: The keys are not names of fields.
            ValueError: Another function.
        """
        return aggregated(self, self._key_selector, aggregations)

    def _keyed(
        self,
        name: str,
        operator: Any,
        output_type: TypeInformation | None,
        call: Call = Call.KEYED_PROCESS,
    ) -> DataStream:
        return self._append_operator(
            name, operator, output_type, key_selectors=(self._key_selector,), call=call
        )


# Keyed aggregation over columns: two operators and an exchange between them.


def aggregated(
    keyed: Any, select: Callable[[Any], Any], aggregations: Sequence[tuple[str, str]]
) -> DataStream:
    """Aggregate a KeyedStream by key. Raises the errors of KeyedStream.aggregate."""
    if not isinstance(select, ColumnKeys):
        raise TypeError("aggregate needs keys by name: call key_by with names of fields")
    origin: DataStream = keyed._origin_stream
    schema = schema_of_type(origin._transformation.output_type)
    wanted = [Aggregation(column, function) for column, function in aggregations]
    wrong = [
        f"{aggregation.function} of {aggregation.column}"
        for aggregation in wanted
        if aggregation.function not in FUNCTIONS
    ]
    wrong += [
        f"{aggregation.function} of {aggregation.column}"
        for aggregation in wanted
        if aggregation.column not in schema.names
    ]
    if wrong or not wanted:
        raise ValueError(
            f"aggregations must use functions {', '.join(FUNCTIONS)} and fields {', '.join(schema.names)}, "
            f"got {', '.join(wrong) or 'none'}"
        )
    keys = list(select.columns)
    partial = origin._append_operator(
        "Local Aggregate",
        PartialAggregateOperator(keys, wanted),
        declared_type(partial_schema(schema, keys, wanted)),
    )
    return partial.key_by(keys)._append_operator(
        "Aggregate", FinalAggregateOperator(keys, wanted), declared_type(final_schema(schema, keys, wanted))
    )


# Windows of streams, with or without keys.
#
# Source: pyflink.datastream.data_stream.{WindowedStream,AllWindowedStream}.


class WindowedOperations:
    """A keyed stream cut into windows: settings of the windows, and functions on their records."""

    _kind: ClassVar[str]  #: first word of descriptions
    _apply_function: ClassVar[type]
    _process_function: ClassVar[type]

    def __init__(self, keyed_stream: KeyedOperations, window_assigner: WindowAssigner[Any, Any]) -> None:
        self._keyed_stream = keyed_stream
        self._window_assigner = window_assigner
        self._allowed_lateness = 0
        self._late_data_output_tag: OutputTag | None = None
        self._window_trigger: Trigger[Any, Any] | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment of the stream."""
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Return the type of the records."""
        return self._keyed_stream._transformation.output_type or Types.PICKLED_BYTE_ARRAY()

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Set the trigger, in place of the assigner's.

        Args:
            trigger: A Trigger.

        Returns:
            WindowedStream: This stream.
        """
        self._window_trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Keep windows of event time for late records.

        Args:
            time_ms: Milliseconds, 0 or more; a negative number keeps windows for good, as in PyFlink.

        Returns:
            WindowedStream: This stream.
        """
        milliseconds = require_integer(time_ms, "allowed lateness")
        self._allowed_lateness = milliseconds if milliseconds >= 0 else MAX_WATERMARK
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Put records that are too late into a side output.

        Args:
            output_tag: The OutputTag; `get_side_output` of the result returns them.

        Returns:
            WindowedStream: This stream.
        """
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
        stored_type = as_output_type(accumulator_type) or Types.PICKLED_BYTE_ARRAY()
        windowed = with_aggregation(aggregate_function, window_function, stored_type)
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
    """The windows of each key of a keyed stream.

    Args:
        keyed_stream: The records.
        window_assigner: Assigns windows to records.
    """

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
        """Combine the records of each window as they come.

        Args:
            reduce_function: A function of two records, or a ReduceFunction.
            window_function: A WindowFunction or ProcessWindowFunction that gets a list of the combined
                record.
            output_type: Type of its results.

        Returns:
            DataStream: One record per window, or the results.
        """
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
        """Aggregate the records of each window as they come.

        Args:
            aggregate_function: An AggregateFunction.
            window_function: A WindowFunction or ProcessWindowFunction that gets a list of the result.
            accumulator_type: Type of accumulators; default: pickled Python objects.
            output_type: Type of the results.

        Returns:
            DataStream: One result per window, or the results of `window_function`.
        """
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    def apply(
        self, window_function: WindowFunction[Any, Any, Any, Any], output_type: DeclaredType | None = None
    ) -> DataStream:
        """Call a function with all records of each window.

        Args:
            window_function: A WindowFunction.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        return self._buffer(window_function, WindowFunction, "apply", output_type)

    def process(
        self,
        process_window_function: ProcessWindowFunction[Any, Any, Any, Any],
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """Call a function with all records of each window, with a context.

        Args:
            process_window_function: A ProcessWindowFunction.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
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
                f"windows of {type(self._window_assigner).__name__} merge, but "
                f"{type(trigger).__name__} cannot merge"
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
