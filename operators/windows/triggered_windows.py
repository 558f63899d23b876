"""Windows of any assigner with any trigger, with their contents in state and their times as timers.

Source: pyflink.fn_execution.datastream.window.window_operator.WindowOperator;
org.apache.flink.streaming.runtime.operators.windowing.WindowOperator.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK, Timestamps, Values, copies, frozen
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.state.interfaces import ListStateDescriptor, ReducingStateDescriptor
from penstock.operators.state.state_segments import PICKLES, EntryForm, Layout
from penstock.operators.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    MergingTimeAssigner,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.panes import starts_of_windows
from penstock.operators.windows.trigger import (
    MergingWindowAssigner,
    Trigger,
    TriggerResult,
    WindowAssigner,
    require_trigger_result,
)
from penstock.operators.windows.triggers import CountTrigger, EventTimeTrigger, ProcessingTimeTrigger
from penstock.operators.windows.window import CountWindow, TimeWindow, shared_window
from penstock.operators.windows.window_contexts import AssignerContext, TriggerContext, WindowContext
from penstock.operators.windows.window_functions import WindowedFunction

# The window function of a windowed operation, for every way to store windows
#
# Source: pyflink.fn_execution.datastream.window.window_operator.WindowOperator;
# org.apache.flink.streaming.runtime.operators.windowing.WindowOperator.


#: The metric of records that were too late for all their windows and have no side output.
LATE_RECORDS_DROPPED = "numLateRecordsDropped"


class WindowFunctionOperator(KeyedOperator):
    """Settings of a windowed operation, and its window function in a subtask.

    Raises ValueError if the allowed lateness is negative.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        key_selector: Callable[[Any], Any],
        function: WindowedFunction,
        allowed_lateness_milliseconds: int,
        late_tag: str | None,
    ) -> None:
        if allowed_lateness_milliseconds < 0:
            raise ValueError(
                f"the allowed lateness must not be negative, got {allowed_lateness_milliseconds} ms"
            )
        super().__init__(key_selector)
        self.assigner = assigner
        self.trigger = trigger
        self.function = function
        self.allowed_lateness = allowed_lateness_milliseconds
        self.late_tag = late_tag

    def open(self) -> None:
        """Create the contexts of the window function; open it."""
        super().open()
        self.runtime_context = RuntimeContext(self.context, self.backend)
        self._window_function = self.function.window_function
        merging = isinstance(self.assigner, MergingWindowAssigner)
        self._window_context = WindowContext(self, self.runtime_context, merging)
        self._late_tag = None if self.late_tag is None else OutputTag(self.late_tag)
        self._late_records = self.runtime_context.get_metrics_group().counter(LATE_RECORDS_DROPPED)
        self._window_function.open(self.runtime_context)

    def close(self) -> None:
        """Close the window function; release state."""
        try:
            self.function.window_function.close()
        finally:
            super().close()

    def emit(self, window: Any, contents: Any, fired_at: int | None = None) -> None:
        """Run the window function for the current key.

        `fired_at` replaces the end of a window that has none.
        """
        context = self._window_context
        context.window = window
        timestamp = window.max_timestamp()
        self.results.add(
            self._window_function.process(self.backend.current_key(), window, context, contents),
            timestamp if timestamp < MAX_WATERMARK else fired_at,
        )

    def clear_function(self, window: Any) -> None:
        """Call the window function to clear its state of the current key and window."""
        self._window_context.window = window
        self._window_function.clear(window, self._window_context)

    def late(self, value: Any, timestamp: int | None) -> None:
        """Handle a record that is too late for all its windows."""
        if self._late_tag is not None:
            self.results.add([(self._late_tag, value)], timestamp)
        else:
            self._late_records.inc()


# The open windows of a key, and the state window of each, under which its contents are stored
#
# When windows merge, the result takes over the state of either, so that most merges move no data.
#
# Source: pyflink.fn_execution.datastream.window.merging_window_set;
# org.apache.flink.streaming.runtime.operators.windowing.MergingWindowSet.


#: Called with the merged window, the windows that it covers, its state window, and the state windows whose
#: state must be moved there.
MergeFunction = Callable[[Any, Iterable[Any], Any, list[Any]], None]


class MergingWindowSet:
    """The open windows of one key, over `mapping` from each window to its state window.

    The mapping is changed in place.
    """

    __slots__ = ("_assigner", "mapping")

    def __init__(self, assigner: MergingWindowAssigner[Any, Any], mapping: dict[Any, Any]) -> None:
        self._assigner = assigner
        self.mapping = mapping

    def state_window(self, window: Any) -> Any:
        """Return the state window of `window`; None if it is not open."""
        return self.mapping.get(window)

    def retire_window(self, window: Any) -> None:
        """Remove an open window. Raises Exception if it is not open."""
        if window not in self.mapping:
            raise Exception(f"Window {window} is not in the set of open windows.")
        del self.mapping[window]

    def add_window(self, new_window: Any, merge_function: MergeFunction) -> Any:
        """Open a window, merge as required, and return the window that now contains `new_window`.

        `merge_function` is called for each merge that changes windows that were open before.
        """
        mapping = self.mapping
        merges = _Merges()
        self._assigner.merge_windows([*mapping, new_window], merges)
        result_window, merged_new_window = new_window, False
        for merge_result, merged_windows in merges.results.items():
            if new_window in merged_windows:
                merged_new_window = True
                merged_windows.remove(new_window)
                result_window = merge_result
            if not merged_windows:
                # a user's assigner may "merge" a window only with itself
                mapping[merge_result] = merge_result
                continue
            state_window = mapping[next(iter(merged_windows))]
            state_windows = [mapping.pop(window) for window in merged_windows if window in mapping]
            mapping[merge_result] = state_window
            state_windows.remove(state_window)
            if len(merged_windows) == 1 and merge_result in merged_windows:
                # the new window lay inside an open one, which does not change
                continue
            merge_function(merge_result, merged_windows, state_window, state_windows)
        if not merged_new_window and new_window not in mapping:
            mapping[new_window] = new_window
        return result_window


class _Merges(MergingWindowAssigner.MergeCallback[Any]):
    def __init__(self) -> None:
        self.results: dict[Any, Any] = {}

    def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
        self.results[merge_result] = (
            to_be_merged if isinstance(to_be_merged, (set, list)) else list(to_be_merged)
        )


# The part of a window operator that holds windows, in general and in faster special cases


class WindowProcessor:
    """Holds the open windows of `operator`, and calls it to run its window function on them."""

    def __init__(self, operator: WindowFunctionOperator) -> None:
        self.operator = operator

    def handle(self, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Put records into their windows. Raises UserFunctionError."""
        raise NotImplementedError

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Handle a due event-time timer of the backend's key."""

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """Handle a due processing-time timer of the backend's key."""

    def advance(self, watermark: int) -> None:
        """Fire windows without timers that are complete by `watermark` (milliseconds)."""

    def end_key(self) -> None:
        """Fire all windows of the only key that have no timer, and forget the key. BATCH mode."""

    def close(self) -> None:
        """Release memory and disk other than the backend's."""


_SPANS = Types.TUPLE([Types.LONG()] * 4)


def _span_pairs(mapping: dict[TimeWindow, TimeWindow]) -> list[tuple[int, int, int, int]]:
    return [(window.start, window.end, state.start, state.end) for window, state in mapping.items()]


def _time_window_pairs(spans: list[tuple[int, int, int, int]]) -> dict[TimeWindow, TimeWindow]:
    return {TimeWindow(*span[:2]): TimeWindow(*span[2:]) for span in spans}


_MERGED_TIMES = EntryForm(
    "merged windows", Types.LIST(_SPANS), layout=Layout(_span_pairs, _time_window_pairs)
)


def _has_time_windows(assigner: WindowAssigner[Any, Any]) -> bool:
    """Whether it is one of Flink's assigners, whose windows that merge are of time."""
    bundled = type(assigner).__module__ == MergingTimeAssigner.__module__
    return bundled and isinstance(assigner, MergingTimeAssigner)


class RegularWindows(NamedTuple):
    """Event-time windows of `size` milliseconds, one every `slide` milliseconds from `offset` on."""

    size: int
    slide: int
    offset: int


def regular_windows(assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any]) -> RegularWindows | None:
    """Return the windows that tumble or slide in event time with their default trigger; None for others.

    Returns None for subclasses of assigners and triggers, which may behave differently.
    """
    if type(trigger) is not EventTimeTrigger:
        return None
    if type(assigner) is TumblingEventTimeWindows:
        return RegularWindows(assigner._size, assigner._size, assigner._offset)
    if type(assigner) is SlidingEventTimeWindows:
        return RegularWindows(assigner._size, assigner._slide, assigner._offset)
    return None


#: Number of window objects that are stored for reuse.
_KNOWN_WINDOWS = 4096


class TriggeredWindows(WindowProcessor):
    """Calls the assigner and the trigger for each record, unless their results are known.

    They are known of tumbling and sliding event-time windows with their default trigger; `by_trigger` calls
    them nevertheless.
    """

    def __init__(self, operator: WindowFunctionOperator, *, by_trigger: bool = False) -> None:
        super().__init__(operator)
        self._assigner, self._trigger = operator.assigner, operator.trigger
        self._merging_assigner = self._assigner if isinstance(self._assigner, MergingWindowAssigner) else None
        self._event_time = self._assigner.is_event_time()
        self._lateness = operator.allowed_lateness
        descriptor = operator.function.state_descriptor
        self._backend = operator.backend
        self._state = self._backend.state(descriptor, namespaced=True)
        self._stores_lists = isinstance(descriptor, ListStateDescriptor)
        self._reduces = isinstance(descriptor, ReducingStateDescriptor)
        if self._merging_assigner is not None:
            form = _MERGED_TIMES if _has_time_windows(self._assigner) else PICKLES
            self._open_windows_by_key = self._backend.table("merging-window-set", form=form)
        self._assigner_context = AssignerContext(operator, operator.runtime_context)
        self._trigger_context = TriggerContext(operator, operator.runtime_context)
        self._fires_once = _fires_once(self._assigner, self._trigger)
        self._sets_cleanup_timer = not _trigger_cleans_up(self._assigner, self._trigger, self._lateness)
        self._set_timer = (
            operator.register_event_time_timer
            if self._event_time
            else operator.register_processing_time_timer
        )
        self._delete_timer = (
            operator.delete_event_time_timer if self._event_time else operator.delete_processing_time_timer
        )
        self._known_windows: dict[int, CountWindow] = {}
        self._regular = None if by_trigger else regular_windows(self._assigner, self._trigger)

    def handle(self, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Put records into their windows."""
        regular = self._regular
        if (
            regular is not None
            and timestamps is not None
            and not {None, MIN_WATERMARK}.intersection(timestamps)
        ):
            self._handle_by_time(values, timestamps, keys, regular)
            return
        backend = self._backend
        add = self._add if self._merging_assigner is None else self._add_merging
        stamps: Iterable[int | None] = repeat(None) if timestamps is None else timestamps
        value = None
        try:
            for value, stamp, key in zip(values, stamps, keys, strict=False):
                backend.key = key
                timestamp = MIN_WATERMARK if stamp is None else stamp
                windows = self._assigner.assign_windows(value, timestamp, self._assigner_context)
                if not add(value, timestamp, windows) and self._is_late(timestamp):
                    self.operator.late(value, stamp)
        except BaseException as error:
            raise self.operator.failed(error, value) from error

    def _handle_by_time(
        self, values: Values, timestamps: Sequence[Any], keys: Iterable[Any], regular: RegularWindows
    ) -> None:
        """Put records into windows whose trigger fires at their ends.

        Windows are looked up once for successive records with the same ones, and the timers of a key in a
        window are registered with its first record here.
        """
        backend, scope, add = self._backend, self._backend.namespace, self._state.add
        set_timer, watermark = self.operator.event_timers.add, self.operator.watermark
        timed: set[Any] = set()
        low = high = 0
        opened: list[TimeWindow] = []
        value, copies_records = None, False
        try:
            for value, timestamp, key in zip(values, timestamps, keys, strict=False):
                backend.key = key
                if not low <= timestamp < high:
                    low, high, starts = starts_of_windows(timestamp, *regular)
                    windows = [shared_window(start, start + regular.size) for start in starts]
                    opened = [window for window in windows if not self._is_late(window.end - 1)]
                    # reducing may change the first record in place, which the other windows hold as well
                    copies_records = self._reduces and len(windows) > 1
                for window in opened:
                    place = scope.key = (key, window)
                    if backend.spilled:
                        backend.load_namespaced(place)
                    add(frozen(value) if copies_records else value)
                    end = window.end - 1
                    if end <= watermark:
                        self._act(TriggerResult.FIRE, window, window, timestamp)
                    if place not in timed:
                        timed.add(place)
                        if end > watermark:
                            set_timer(end, place)
                        if self._sets_cleanup_timer and (over := self._cleanup_time(window)) < MAX_WATERMARK:
                            set_timer(over, place)
                if not opened and self._is_late(timestamp):
                    self.operator.late(value, timestamp)
        except BaseException as error:
            raise self.operator.failed(error, value) from error

    def _add(self, value: Any, timestamp: int, windows: Iterable[Any]) -> bool:
        """Add a record to the windows that are open; return whether there is one."""
        used = False
        # reducing may change the first record in place, which the other windows hold as well
        copies = self._reduces and not (type(windows) is list and len(windows) == 1)
        for window in windows:
            if self._is_late(window.max_timestamp()):
                continue
            used = True
            reused = self._reused(window)
            self._add_to(reused, reused, frozen(value) if copies else value, timestamp)
        return used

    def _reused(self, window: Any) -> Any:
        """Return one object for equal windows of the bundled kinds, which makes dictionaries faster."""
        if type(window) is TimeWindow:
            return shared_window(window.start, window.end)
        if type(window) is CountWindow:
            reused = self._known_windows
            if len(reused) > _KNOWN_WINDOWS:
                reused.clear()
            return reused.setdefault(window.id, window)
        return window

    def _add_merging(self, value: Any, timestamp: int, windows: Iterable[Any]) -> bool:
        """Add a record to the open windows into which its own merge; return whether there is one."""
        used = False
        open_windows = self._open_windows()
        for window in windows:
            actual = open_windows.add_window(window, self._merge)
            if self._is_late(actual.max_timestamp()):
                open_windows.retire_window(actual)
                continue
            used = True
            self._add_to(actual, open_windows.state_window(actual), value, timestamp)
        self._store(open_windows)
        return used

    def _add_to(self, window: Any, state_window: Any, value: Any, timestamp: int) -> None:
        self._backend.namespace.set(state_window)
        self._state.add(value)
        context = self._trigger_context
        context.window = window
        result = self._trigger.on_element(value, timestamp, window, context)
        if result is not TriggerResult.CONTINUE:
            result = require_trigger_result(result, self._trigger, "on_element")
            self._act(result, window, state_window, None if timestamp == MIN_WATERMARK else timestamp)
        if self._sets_cleanup_timer:
            cleanup_time = self._cleanup_time(window)
            if cleanup_time < MAX_WATERMARK:
                self._set_timer(cleanup_time, window)

    def _act(self, result: TriggerResult, window: Any, state_window: Any, fired_at: int | None) -> None:
        """Carry out the trigger's result; `fired_at` is the time of the event that caused it."""
        if result.is_fire():
            self._backend.namespace.set(state_window)
            contents = self._state.get()
            if contents is not None and not (self._stores_lists and not contents):
                # changes by a window function must not show in other windows, nor if this one fires again
                shared = self._stores_lists and not self._fires_once
                self.operator.emit(window, copies(contents) if shared else contents, fired_at)
        if result.is_purge() or self._fires_once:
            self._backend.namespace.set(state_window)
            self._state.clear()

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Call the trigger, and clean up if it is time."""
        self._on_timer(timestamp, namespace, self._trigger.on_event_time, self._event_time, timestamp)

    def on_processing_time(self, timestamp: int, namespace: Any) -> None:
        """Call the trigger, and clean up if it is time."""
        self._on_timer(timestamp, namespace, self._trigger.on_processing_time, not self._event_time, None)

    def _on_timer(
        self,
        timestamp: int,
        window: Any,
        call_trigger: Callable[[int, Any, Any], TriggerResult],
        may_clean_up: bool,
        fired_at: int | None,
    ) -> None:
        open_windows, state_window = None, window
        if self._merging_assigner is not None:
            open_windows = self._open_windows()
            state_window = open_windows.state_window(window)
            if state_window is None:
                # the window has merged into another, and its trigger has left a timer
                return
        context = self._trigger_context
        context.window = window
        result = call_trigger(timestamp, window, context)
        if result is not TriggerResult.CONTINUE:
            result = require_trigger_result(result, self._trigger, call_trigger.__name__)
            self._act(result, window, state_window, fired_at)
        if may_clean_up and timestamp == self._cleanup_time(window):
            self._clear(window, state_window, open_windows)

    def _clear(self, window: Any, state_window: Any, open_windows: MergingWindowSet | None) -> None:
        self._backend.namespace.set(state_window)
        self._state.clear()
        self._trigger_context.window = window
        self._trigger.clear(window, self._trigger_context)
        self.operator.clear_function(window)
        if open_windows is not None:
            open_windows.retire_window(window)
            self._store(open_windows)

    def _open_windows(self) -> MergingWindowSet:
        assert self._merging_assigner is not None
        mapping = self._open_windows_by_key.entries.get(self._backend.key)
        return MergingWindowSet(self._merging_assigner, {} if mapping is None else mapping)

    def _store(self, open_windows: MergingWindowSet) -> None:
        entries = self._open_windows_by_key.entries
        if open_windows.mapping:
            entries[self._backend.key] = open_windows.mapping
        else:
            entries.pop(self._backend.key, None)

    def _merge(
        self, result: Any, merged_windows: Iterable[Any], state_window: Any, state_windows: list[Any]
    ) -> None:
        """Merge several windows of the current key. Raises Exception if the result has already ended."""
        if self._event_time:
            if result.max_timestamp() + self._lateness <= self.operator.watermark:
                raise Exception(
                    f"merging has made an event-time window end before the watermark "
                    f"{self.operator.watermark}: {result}"
                )
        elif result.max_timestamp() <= (now := self.operator.context.processing_time()):
            raise Exception(f"merging has made a processing-time window end before the time {now}: {result}")
        context = self._trigger_context
        context.window, context.merged_windows = result, merged_windows
        self._trigger.on_merge(result, context)
        for window in merged_windows:
            context.window = window
            self._trigger.clear(window, context)
            self._delete_timer(self._cleanup_time(window), window)
        if state_windows:
            self._state.merge_namespaces(state_window, state_windows)

    def _cleanup_time(self, window: Any) -> int:
        last: int = window.max_timestamp()
        return min(last + self._lateness, MAX_WATERMARK) if self._event_time else last

    def _is_late(self, timestamp: int) -> bool:
        """Whether a window that ends at `timestamp`, or a record with it, is too late."""
        return self._event_time and min(timestamp + self._lateness, MAX_WATERMARK) <= self.operator.watermark


def _fires_once(assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any]) -> bool:
    """Whether a window gets no record after it has fired, so that its contents may be deleted.

    In PyFlink the contents of count windows are never deleted.
    """
    if type(assigner) is CountTumblingWindowAssigner or type(assigner) is CountSlidingWindowAssigner:
        return type(trigger) is CountTrigger and trigger._window_size == assigner._window_size
    return False


def _trigger_cleans_up(assigner: WindowAssigner[Any, Any], trigger: Trigger[Any, Any], lateness: int) -> bool:
    """Whether the trigger's own timer is always set for the end of the window."""
    if assigner.is_event_time():
        return type(trigger) is EventTimeTrigger and lateness == 0
    return type(trigger) is ProcessingTimeTrigger
