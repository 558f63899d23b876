"""The join of two keyed streams whose records lie within an interval of event time of each other.

Source: org.apache.flink.streaming.api.operators.co.IntervalJoinOperator.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.records.user_function import close_function, has_method, method
from penstock.operators.state.state_table import StateTable
from penstock.operators.windows.assigner import no_timestamp
from penstock.operators.windows.join_functions import ProcessJoinFunction


class Buffer:
    """The records of one input that a key may still join with, by time."""

    def __init__(self, watermark: int) -> None:
        self.times: list[int] = []
        self.values: list[Any] = []
        self._watermark = watermark

    def add(self, time: int, value: Any) -> None:
        """Keep a record after those of the same time."""
        if not self.times or time >= self.times[-1]:
            self.times.append(time)
            self.values.append(value)
        else:
            place = bisect_right(self.times, time)
            self.times.insert(place, time)
            self.values.insert(place, value)

    def forget(self, watermark: int, kept_for: int) -> None:
        """Remove the records that the watermark has passed by that much, unless they came late."""
        if watermark == self._watermark:
            return
        self._watermark = watermark
        if self.times and self.times[0] <= watermark - kept_for:
            count = bisect_right(self.times, watermark - kept_for)
            del self.times[:count]
            del self.values[:count]

    def between(self, first: int, last: int) -> list[tuple[int, Any]]:
        """The records from `first` to `last`, both inclusive."""
        low, high = bisect_left(self.times, first), bisect_right(self.times, last)
        return list(zip(self.times[low:high], self.values[low:high], strict=True))


class _Side(NamedTuple):
    """The part of the operator for one of its inputs."""

    table: StateTable
    lower: int  #: what it joins with is at least this much later than its own records
    upper: int  #: and at most this much
    kept_for: int  #: its records stay until the watermark is this much past them
    late_tag: OutputTag | None


class IntervalJoinOperator(KeyedOperator):
    """Calls the function for each pair of a key with left + lower <= right <= left + upper, in milliseconds.

    Bounds that are not inclusive leave out their own moment. Results have the later of the two timestamps;
    those of one record come in the order of the other records' timestamps. Records below the watermark are
    late: they go to the side output with the id of their side's tag, or are dropped.

    `function` is a ProcessJoinFunction or a callable of left, right and context.
    Raises ValueError: the lower bound is above the upper one.
    """

    timers_have_namespaces = True

    def __init__(
        self,
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any],
        function: ProcessJoinFunction | Callable[[Any, Any, Any], Iterable[Any] | None],
        lower_bound_milliseconds: int,
        upper_bound_milliseconds: int,
        lower_bound_inclusive: bool = True,
        upper_bound_inclusive: bool = True,
        left_late_tag: str | None = None,
        right_late_tag: str | None = None,
    ) -> None:
        super().__init__(key_selector1, key_selector2)
        if lower_bound_milliseconds > upper_bound_milliseconds:
            bounds = f"{lower_bound_milliseconds} ms above {upper_bound_milliseconds} ms"
            raise ValueError(f"the lower bound must not be above the upper one: {bounds}")
        method(function, "process_element")
        self.function = function
        self.lower = lower_bound_milliseconds + (not lower_bound_inclusive)
        self.upper = upper_bound_milliseconds - (not upper_bound_inclusive)
        self.late_tags = (left_late_tag, right_late_tag)

    def open(self) -> None:
        """Make the two buffers, and open the function."""
        super().open()
        lower, upper = self.lower, self.upper
        left_tag, right_tag = (None if tag is None else OutputTag(tag) for tag in self.late_tags)
        table = self.backend.table
        self._sides = (
            _Side(table("left-buffer"), lower, upper, max(upper, 0), left_tag),
            _Side(table("right-buffer"), -upper, -lower, max(-lower, 0), right_tag),
        )
        self._join_context = _JoinContext()
        self._join = method(self.function, "process_element")
        if has_method(self.function, "open"):
            self.function.open(RuntimeContext(self.context, self.backend))

    def close(self) -> None:
        """Close the function and release everything."""
        try:
            close_function(self.function)
        finally:
            super().close()

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Join records of one input with what is kept of the other, and keep them."""
        if timestamps is None or None in timestamps:
            without = 0 if timestamps is None else timestamps.index(None)
            raise self.failed(no_timestamp(), values[without])
        value = None
        try:
            for value, time, key in zip(values, timestamps, keys, strict=False):
                self.backend.key = key
                self._add(number, value, time)  # type: ignore[arg-type] # None is not among them
        except BaseException as error:
            raise self.failed(error, value) from error

    def _add(self, number: int, value: Any, time: int) -> None:
        ours, other = self._sides[number - 1], self._sides[2 - number]
        results = self.results
        if time < self.watermark:
            if ours.late_tag is not None:
                results.add([(ours.late_tag, value)], time)
            return
        key = self.backend.key
        # In BATCH mode records come by time, so that what is earlier can be forgotten as if by a watermark.
        passed = time - 1 if self.context.batch else self.watermark
        candidates = other.table.entries.get(key)
        if candidates is not None:
            candidates.forget(passed, other.kept_for)
            for other_time, candidate in candidates.between(time + ours.lower, time + ours.upper):
                if number == 1:
                    self._emit(value, candidate, time, other_time)
                else:
                    self._emit(candidate, value, other_time, time)
        mine = ours.table.entries.get(key)
        if mine is None:
            mine = ours.table.entries[key] = Buffer(passed)
        else:
            mine.forget(passed, ours.kept_for)
        if not mine.times and not self.context.batch:
            self.register_event_time_timer(time + ours.kept_for, number)
        mine.add(time, value)

    def _emit(self, left: Any, right: Any, left_time: int, right_time: int) -> None:
        context = self._join_context
        context.left_timestamp, context.right_timestamp = left_time, right_time
        self.results.add(self._join(left, right, context), max(left_time, right_time))

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Forget what can no longer join of the current key and input `namespace`; look at the rest later."""
        side, key = self._sides[namespace - 1], self.backend.key
        buffer = side.table.entries.get(key)
        if buffer is None:
            return
        buffer.forget(self.watermark, side.kept_for)
        if buffer.times:
            self.register_event_time_timer(buffer.times[-1] + side.kept_for, namespace)
        else:
            del side.table.entries[key]


class _JoinContext(ProcessJoinFunction.Context):
    def __init__(self) -> None:
        self.left_timestamp = self.right_timestamp = 0

    def get_left_timestamp(self) -> int:
        return self.left_timestamp

    def get_right_timestamp(self) -> int:
        return self.right_timestamp

    def get_timestamp(self) -> int:
        return max(self.left_timestamp, self.right_timestamp)
