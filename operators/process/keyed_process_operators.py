"""Process functions on keyed streams, one or two of them.

Source: org.apache.flink.streaming.api.operators.{KeyedProcessOperator,co.KeyedCoProcessOperator}.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

from penstock.operators.chain.errors import NO_RECORD
from penstock.operators.chain.operator import MAX_WATERMARK, UNCHANGING, PieceSize, Timestamps, Values, frozen
from penstock.operators.common.basic_types import TypeInformation
from penstock.operators.functions.functions import TimeDomain
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.process.process_operators import (
    KeyedContext,
    KeyedReadOnlyBroadcastContext,
    ReadOnlyBroadcastContext,
    UnkeyedOperator,
    UnkeyedTimerService,
    WritableBroadcastContext,
    call_function,
)
from penstock.operators.records.map_records import close_function, current, has_method, method, span
from penstock.operators.state.broadcast_states import BroadcastStates
from penstock.operators.state.interfaces import MapStateDescriptor
from penstock.operators.state.state_segments import EntryForm
from penstock.operators.state.stored_state import OperatorRecord, StoredState
from penstock.operators.state.value_check import record_check


class KeyedFunctionOperator(KeyedOperator):
    """A keyed operator around one function."""

    def __init__(self, function: Any, *key_selectors: Callable[[Any], Any]) -> None:
        super().__init__(*key_selectors)
        self.function = function

    def open(self) -> None:
        """Create state and timers; open the function."""
        super().open()
        if has_method(self.function, "open"):
            self.function.open(RuntimeContext(self.context, self.backend))

    def close(self) -> None:
        """Close the function; release state and timers."""
        try:
            close_function(self.function)
        finally:
            super().close()

    def handle_with(
        self,
        function: Callable[[Any, Any], Iterable[Any] | None],
        context: Any,
        values: Values,
        timestamps: Timestamps,
        keys: Iterable[Any],
    ) -> None:
        """Call `function` with each value and `context`, which has the value's timestamp and key."""
        call_function(
            function,
            values,
            timestamps,
            keys,
            context=context,
            backend=self.backend,
            results=self.results,
            operator=self,
        )


class TimedFunctionOperator(KeyedFunctionOperator):
    """A keyed operator whose function has `on_timer`. Subclasses set `_timer_context` in `open`."""

    _timer_context: Any

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Call `on_timer`; its results get the timer's timestamp."""
        context = self._timer_context
        context.stamp, context.domain = timestamp, TimeDomain.EVENT_TIME
        self.results.add(self.function.on_timer(timestamp, context), timestamp)

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """Call `on_timer`; its results have no timestamp."""
        context = self._timer_context
        context.stamp, context.domain = timestamp, TimeDomain.PROCESSING_TIME
        self.results.add(self.function.on_timer(timestamp, context), None)


class KeyedProcessOperator(TimedFunctionOperator):
    """Runs a KeyedProcessFunction."""

    def __init__(self, function: Any, key_selector: Callable[[Any], Any]) -> None:
        super().__init__(function, key_selector)

    def open(self) -> None:
        """Create the context; open the function."""
        super().open()
        self._timer_context = self._context = KeyedContext(self)

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        self.handle_with(self.function.process_element, self._context, values, timestamps, keys)


class KeyedCoProcessOperator(TimedFunctionOperator):
    """Runs a KeyedCoProcessFunction."""

    def __init__(
        self,
        function: Any,
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any],
    ) -> None:
        super().__init__(function, key_selector1, key_selector2)

    def open(self) -> None:
        """Create the context; open the function."""
        super().open()
        self._timer_context = self._context = KeyedContext(self)

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Call `process_element1` or `process_element2`."""
        function = self.function.process_element1 if number == 1 else self.function.process_element2
        self.handle_with(function, self._context, values, timestamps, keys)


# Reduce on a keyed stream: emits every update in STREAMING mode, the final value in BATCH mode
#
# Source: org.apache.flink.streaming.api.operators.{StreamGroupedReduceOperator,BatchGroupedReduceOperator};
# pyflink.datastream.data_stream.KeyedStream.reduce.


class ReduceOperator(KeyedFunctionOperator):
    """Runs a ReduceFunction or a callable of two values."""

    def __init__(
        self, function: Any, key_selector: Callable[[Any], Any], output_type: TypeInformation | None = None
    ) -> None:
        super().__init__(function, key_selector)
        self._output_type = output_type

    def open(self) -> None:
        """Create the state; open the function."""
        super().open()
        self._reduce = method(self.function, "reduce")
        self._piece = PieceSize()
        self._table = self.backend.table("_reduce_state", form=EntryForm("reducing", self._output_type))
        self._table.check = record_check(self._output_type)

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Reduce each key's value with its records."""
        if self.context.batch:
            self._handle_one_key(values)
        else:
            self._handle(values, timestamps, keys)
        if self._table.check is not None:
            self._table.written.update(keys)

    def _handle(self, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        function, entries, unchanging = self._reduce, self._table.entries, UNCHANGING
        backend = self.backend
        updates: Values = []
        value: Any = NO_RECORD
        done = 0
        piece = self._piece
        limit = piece.limit
        try:
            for value, key in zip(values, keys, strict=True):
                backend.key = key
                before = entries.get(key)
                after = value if before is None else function(before, value)
                entries[key] = after
                kind = type(after)
                if kind in unchanging or (kind is tuple and unchanging.issuperset(map(type, after))):
                    updates.append(after)
                else:
                    # the function may change its argument next time
                    updates.append(frozen(after))
                if len(updates) >= limit:
                    if piece.is_full(updates):
                        self.output.collect(updates, span(timestamps, done, len(updates)))
                        done += len(updates)
                        updates = []
                    limit = piece.limit
        except BaseException as error:
            raise self.failed(error, value) from error
        piece.begin()
        if updates:
            self.output.collect(updates, span(timestamps, done, len(updates)))

    def _handle_one_key(self, values: Values) -> None:
        entries, key = self._table.entries, self.backend.key
        rest = iter(values)
        before = entries.get(key)
        try:
            if before is None:
                before = next(rest)
            entries[key] = reduce(self._reduce, rest, before)
        except BaseException as error:
            raise self.failed(error, current(values, rest)) from error

    def on_end_of_key(self) -> None:
        """Emit the final value; its timestamp is the maximum, like the timestamp of PyFlink's timer."""
        value = self._table.entries.get(self.backend.key)
        if value is not None:
            self.results.add((value,), MAX_WATERMARK)


# Map, flat map and filter functions on keyed streams, where rich functions may use keyed state
#
# Source: pyflink.datastream.data_stream.{KeyedStream,ConnectedStreams}, which run them as process functions.


class _OneInput(KeyedFunctionOperator):
    def __init__(self, function: Any, key_selector: Callable[[Any], Any]) -> None:
        super().__init__(function, key_selector)


class _TwoInputs(KeyedFunctionOperator):
    def __init__(
        self,
        function: Any,
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any],
    ) -> None:
        super().__init__(function, key_selector1, key_selector2)


class _NoContext:
    """A placeholder context on which `handle_with` sets a timestamp."""

    stamp: int | None = None


_NO_CONTEXT = _NoContext()


class KeyedMapOperator(_OneInput):
    """One result per record."""

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        function = method(self.function, "map")
        self.handle_with(lambda value, _: (function(value),), _NO_CONTEXT, values, timestamps, keys)


class KeyedFlatMapOperator(_OneInput):
    """Any number of results per record."""

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        function = method(self.function, "flat_map")
        self.handle_with(lambda value, _: function(value), _NO_CONTEXT, values, timestamps, keys)


class KeyedFilterOperator(_OneInput):
    """Passes on the records for which the function is true."""

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Emit the records for which the function is true."""
        function = method(self.function, "filter")
        self.handle_with(
            lambda value, _: (value,) if function(value) else None, _NO_CONTEXT, values, timestamps, keys
        )


class KeyedCoMapOperator(_TwoInputs):
    """At most one result per record of either stream, since None is not a result, as in PyFlink."""

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        function = self.function.map1 if number == 1 else self.function.map2
        self.handle_with(
            lambda value, _: None if (result := function(value)) is None else (result,),
            _NO_CONTEXT,
            values,
            timestamps,
            keys,
        )


class KeyedCoFlatMapOperator(_TwoInputs):
    """Any number of results per record of either stream."""

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        function = self.function.flat_map1 if number == 1 else self.function.flat_map2
        self.handle_with(lambda value, _: function(value), _NO_CONTEXT, values, timestamps, keys)


# Functions on a stream and a broadcast stream (the second input), without and with keys
#
# Source: org.apache.flink.streaming.api.operators.co.{CoBroadcastWithNonKeyedOperator,
# CoBroadcastWithKeyedOperator}.


def _with_broadcast(record: OperatorRecord, states: BroadcastStates) -> OperatorRecord:
    """Return the record of an operator with its broadcast states as they are now."""
    ((groups, tables),) = record.tables.items()
    written = states.written_tables()
    places = {(table.state, table.namespaced) for table in written}
    kept = [table for table in tables if (table.state, table.namespaced) not in places]
    return replace(record, tables={groups: [*kept, *written]})


class BroadcastProcessOperator(UnkeyedOperator):
    """Runs a BroadcastProcessFunction."""

    def __init__(self, function: Any, descriptors: Sequence[MapStateDescriptor]) -> None:
        super().__init__(function)
        self.descriptors = descriptors

    def open(self) -> None:
        """Create state and contexts; open the function."""
        super().open()
        states, times = BroadcastStates(self.context.stored_state), UnkeyedTimerService(self)
        self._states = states
        self._writable = WritableBroadcastContext(times, states)
        self._read_only = ReadOnlyBroadcastContext(times, states)

    def written_state(self) -> OperatorRecord:
        """Write the state that lasts from batch to batch; call it after `finish`."""
        stored: StoredState = self.context.stored_state
        return _with_broadcast(
            replace(
                stored.record,
                key_text=stored.key_form.text,
                tables={(stored.first, stored.last): stored.unread_tables(())},
            ),
            self._states,
        )

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records that are not broadcast."""
        self.handle_with(self.function.process_element, self._read_only, values, timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle broadcast records."""
        self.handle_with(self.function.process_broadcast_element, self._writable, values, timestamps)


class KeyedBroadcastProcessOperator(TimedFunctionOperator):
    """Runs a KeyedBroadcastProcessFunction."""

    def __init__(
        self,
        function: Any,
        key_selector: Callable[[Any], Any],
        descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        super().__init__(function, key_selector)
        self.descriptors = descriptors

    def open(self) -> None:
        """Create state and contexts; open the function."""
        super().open()
        states = self._states = BroadcastStates(self.context.stored_state)
        self._writable = WritableBroadcastContext(UnkeyedTimerService(self), states)
        self._timer_context = self._read_only = KeyedReadOnlyBroadcastContext(self, states)

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        self.handle_with(self.function.process_element, self._read_only, values, timestamps, keys)

    def written_state(self) -> OperatorRecord:
        """Write state and timers that last from batch to batch; call it after `finish`."""
        return _with_broadcast(super().written_state(), self._states)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle broadcast records, which have no key."""
        self.handle_with(
            self.function.process_broadcast_element, self._writable, values, timestamps, [None] * len(values)
        )
        self.results.flush()
        if not self.context.batch:
            self.fire_processing_time()
