"""The base of keyed operators, with keys, state, timers, watermarks, and BATCH mode key after key.

A subclass implements `handle` for a list of records, and `on_event_time` and `on_processing_time` for timers.

Source: org.apache.flink.streaming.api.operators.{AbstractStreamOperator,InternalTimerServiceImpl},
org.apache.flink.streaming.api.operators.sorted.state.{BatchExecutionInternalTimeService,
BatchExecutionKeyedStateBackend}.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, ClassVar, NoReturn

from penstock.operators.chain.errors import NO_RECORD, DescribedError, describe_record, misfit
from penstock.operators.chain.operator import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    Operator,
    Results,
    Timestamps,
    Values,
)
from penstock.operators.common.serialized_keys import dictionary_key, dictionary_keys
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.records.key_selection import KEY_SELECTOR, keys_of_records, opened_functions
from penstock.operators.state.keyed_state_backend import KeyedStateBackend
from penstock.operators.state.stored_state import (
    EVENT_TIMERS,
    PROCESSING_TIMERS,
    OperatorRecord,
    StoredState,
)
from penstock.operators.state.timer_queue import TimerQueue

#: Number of results of timers, and of keys in BATCH mode, that are emitted together.
_RESULTS_AT_ONCE = 8192
#: Approximate memory of a timer. Timers get a quarter of the memory for state.
_BYTES_PER_TIMER = 200


class KeyedOperator(Operator):
    """An operator with a key selector per input, keyed state and timers.

    Attributes in a subtask: `backend` (state, current key), `results` (filled by the subclass, emitted by
    this class), `event_timers`, `processing_timers`, `watermark` (milliseconds).
    """

    keyed = True
    #: Whether timers belong to a key and a namespace (a window); otherwise a timer's entry is the key alone.
    timers_have_namespaces: ClassVar[bool] = False

    def __init__(self, *key_selectors: Callable[[Any], Any]) -> None:
        self.key_selectors = key_selectors

    def open(self) -> None:
        """Create the subtask's state and timers."""
        self.backend = KeyedStateBackend(self.context)
        self.results = Results(self.output)
        self.event_timers = TimerQueue()
        self.processing_timers = TimerQueue()
        self.watermark = MIN_WATERMARK
        for function in opened_functions(*self.key_selectors):
            function.open(RuntimeContext(self.context, self.backend))
        self._timers_in_memory = self.context.state_memory_bytes // _BYTES_PER_TIMER // 4
        stored = self.context.stored_state
        if stored is not None:
            namespaced = self.timers_have_namespaces
            self.event_timers.begin_with(stored.open_timers(EVENT_TIMERS, namespaced))
            self.processing_timers.begin_with(stored.open_timers(PROCESSING_TIMERS, namespaced))

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Handle records of input `number` (from 1).

        Set `backend.key` to the key of each record, and fill `results`.

        `keys`: one dictionary key per value, to be iterated over once.
        """
        raise NotImplementedError

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Handle a due event-time timer of `backend.key`: fill `results`."""
        raise NotImplementedError

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """Handle a due processing-time timer of `backend.key`: fill `results`."""
        raise NotImplementedError

    def on_end_of_key(self) -> None:
        """Fill `results` with final results of `backend.key`, after its records and timers. BATCH mode."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the first input."""
        self._process(1, values, timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the second input."""
        self._process(2, values, timestamps)

    def _process(self, number: int, values: Values, timestamps: Timestamps) -> None:
        if not values:
            return
        if self.context.batch:
            (self.backend.key,) = (key,) = self._dictionary_keys(number, values[:1])
            self.handle(number, values, timestamps, repeat(key, len(values)))
            self._flush_if_many()
            return
        keys = self._dictionary_keys(number, values)
        backend = self.backend
        if backend.cold:
            backend.load(set(keys))
        self.handle(number, values, timestamps, keys)
        self.results.flush()
        backend.relieve(len(values), keys)
        self.fire_processing_time()
        for timers in (self.event_timers, self.processing_timers):
            if timers.count > self._timers_in_memory:
                timers.spill(self._timers_in_memory // 2)

    def process_watermark(self, watermark: int) -> None:
        """Fire the timers that are due by `watermark` (milliseconds), then pass it on."""
        if not self.context.batch:
            self.watermark = watermark
            self._fire(self.event_timers.due(watermark, self._load_keys_of), self.on_event_time)
            self.fire_processing_time()
        self.results.flush()
        self.output.watermark(watermark)

    def fire_processing_time(self) -> None:
        """Fire the timers that are due by the clock."""
        first = self.processing_timers.next_time()
        if first is not None:
            now = self.context.processing_time()
            if first <= now:
                due = self.processing_timers.due(now, self._load_keys_of)
                self._fire(due, self.on_processing_time)
                self.results.flush()

    def end_key(self) -> None:
        """Fire all timers of the current key, emit final results, forget the key.

        As in Flink, timers that these register are ignored: a timer that always sets the next one would never
        end.
        """
        self.watermark = MAX_WATERMARK
        event, processing = self.event_timers, self.processing_timers
        if event.next_time() is not None or processing.next_time() is not None:
            event.accepting = processing.accepting = False
            self._fire(event.due_at_last(), self.on_event_time)
            self._fire(processing.due_at_last(), self.on_processing_time)
            event.accepting = processing.accepting = True
        self.on_end_of_key()
        self._flush_if_many()
        self.backend.commit()
        self.backend.clear()
        self.watermark = MIN_WATERMARK

    def finish(self) -> None:
        """Emit the remaining results."""
        self.results.flush()
        self.backend.commit()

    def written_state(self) -> OperatorRecord:
        """Write the state and the timers that last from batch to batch; call it after `finish`."""
        stored: StoredState = self.context.stored_state
        timers = [
            stored.written_timers(name, self.timers_have_namespaces, queue.all_timers())
            for name, queue in (
                (EVENT_TIMERS, self.event_timers),
                (PROCESSING_TIMERS, self.processing_timers),
            )
        ]
        tables = self.backend.written_tables()
        written = {(table.state, table.namespaced) for table in timers}
        others = [table for table in tables if (table.state, table.namespaced) not in written]
        return replace(
            stored.record,
            key_text=stored.key_form.text,
            tables={(stored.first, stored.last): [*timers, *others]},
        )

    def close(self) -> None:
        """Close key selectors; release state and timers."""
        for function in opened_functions(*self.key_selectors):
            function.close()
        if hasattr(self, "backend"):
            self.backend.close()
            self.event_timers.clear()
            self.processing_timers.clear()

    def register_event_time_timer(self, timestamp: int, namespace: Any) -> None:
        """Register a timer of the current key and `namespace`, unless it exists."""
        self.event_timers.add(timestamp, (self.backend.key, namespace))

    def register_processing_time_timer(self, timestamp: int, namespace: Any) -> None:
        """Register a timer of the current key and `namespace`, unless it exists."""
        self.processing_timers.add(timestamp, (self.backend.key, namespace))

    def postpone_event_time_timer(self, timestamp: int, namespace: Any) -> None:
        """Postpone the firing timer of the current key and `namespace` to a later time."""
        self.event_timers.postpone(timestamp, (self.backend.key, namespace))

    def delete_event_time_timer(self, timestamp: int, namespace: Any) -> None:
        """Delete a timer of the current key and `namespace`, if it exists."""
        self.event_timers.remove(timestamp, (self.backend.key, namespace))

    def delete_processing_time_timer(self, timestamp: int, namespace: Any) -> None:
        """Delete a timer of the current key and `namespace`, if it exists."""
        self.processing_timers.remove(timestamp, (self.backend.key, namespace))

    def _fire(self, due: Iterable[tuple[int, Any]], function: Callable[[int, Any], None]) -> None:
        backend, namespaced = self.backend, self.timers_have_namespaces
        for timestamp, entry in due:
            if namespaced:
                backend.key, namespace = entry
            else:
                backend.key, namespace = entry, None
            if backend.cold:
                backend.load((backend.key,))
            try:
                function(timestamp, namespace)
            except BaseException as error:
                timer = f"timer of key {describe_record(backend.current_key())} at {timestamp}"
                raise self.failed(error, DescribedError(timer)) from error
            self._flush_if_many()

    def _flush_if_many(self) -> None:
        """Emit results of several timers, or of many small keys in BATCH mode, together."""
        if self.results.count() >= _RESULTS_AT_ONCE:
            self.results.flush()

    def _load_keys_of(self, entries: list[Any]) -> None:
        keys = {entry[0] for entry in entries} if self.timers_have_namespaces else set(entries)
        self.backend.relieve(len(entries), keys)
        if self.backend.cold:
            self.backend.load(keys)

    def keys_of(self, number: int, values: Values) -> list[Any]:
        """Return the keys of records of input `number`, from 1, by its selector."""
        return keys_of_records(self.key_selectors[number - 1], values, self._key_failed)

    def _key_failed(self, error: BaseException, record: Any) -> NoReturn:
        raise self.failed(error, record, KEY_SELECTOR) from error

    def _dictionary_keys(self, number: int, values: Values) -> Sequence[Any]:
        keys = self.keys_of(number, values)
        try:
            return dictionary_keys(keys)
        except Exception as error:
            places = list(range(len(values)))
            failing = misfit(places, lambda part: dictionary_key(keys[part[0]]))
            record = values[failing] if failing in places else NO_RECORD
            raise self.failed(error, record, KEY_SELECTOR) from error
