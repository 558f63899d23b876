"""The join of two keyed streams whose records lie within an interval of event time of each other.

Source: org.apache.flink.streaming.api.operators.co.IntervalJoinOperator.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.pickles import is_pickled
from penstock.operators.common.typeinfo import TypeInformation, Types
from penstock.operators.functions.functions import Function, WindowFunction
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.records.map_records import close_function, has_method, method
from penstock.operators.state.interfaces import ListStateDescriptor
from penstock.operators.state.state_segments import PICKLES, EntryForm, Layout, list_of
from penstock.operators.state.state_table import StateTable
from penstock.operators.windows.trigger import Trigger, WindowAssigner, no_timestamp
from penstock.operators.windows.window_functions import WINDOW_STATE_NAME, buffered
from penstock.operators.windows.window_operator import WindowOperator

# Functions of window joins, coGroups and interval joins, with the Java API's names; PyFlink has none
#
# Source: org.apache.flink.api.common.functions.{JoinFunction,FlatJoinFunction,CoGroupFunction};
# org.apache.flink.streaming.api.functions.co.ProcessJoinFunction.


class JoinFunction(Function):
    """One result for each pair of records that join."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Return the result for a record of the first input and a record of the second."""


class FlatJoinFunction(Function):
    """Any number of results for each pair of records that join."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Return or yield the results for a record of the first input and a record of the second."""


class CoGroupFunction(Function):
    """Any number of results for the records of a key in a window on both sides.

    One side may be empty, not both.
    """

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None:
        """Return or yield the results for the records of the first and of the second input."""


class ProcessJoinFunction(Function):
    """Any number of results, perhaps for side outputs, for each pair of records that join."""

    class Context(ABC):
        """The times of the pair, in milliseconds since the epoch."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Return the timestamp of the first input's record."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Return the timestamp of the second input's record."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the timestamp of the results, the later of the two."""

    @abstractmethod
    def process_element(
        self, left: Any, right: Any, ctx: "ProcessJoinFunction.Context"
    ) -> Iterable[Any] | None:
        """Return or yield the results for a pair of records; `yield tag, value` for side outputs."""


# Two keyed streams in the same windows: coGroup, and the join that uses it
#
# As in the Java API, records of both inputs go through one window operator, wrapped in a TaggedUnion that
# names their input.
#
# Source: org.apache.flink.streaming.api.datastream.{CoGroupedStreams,JoinedStreams}.


class TaggedUnion:
    """A record of the first or the second input, in the form for assigners and triggers of joined streams."""

    __slots__ = ("_is_one", "_value")

    def __init__(self, is_one: bool, value: Any) -> None:
        self._is_one, self._value = is_one, value

    def is_one(self) -> bool:
        """Whether it is a record of the first input."""
        return self._is_one

    def is_two(self) -> bool:
        """Whether it is a record of the second input."""
        return not self._is_one

    def get_one(self) -> Any:
        """Return the first input's record; None for a record of the second."""
        return self._value if self._is_one else None

    def get_two(self) -> Any:
        """Return the second input's record; None for a record of the first."""
        return None if self._is_one else self._value

    def __repr__(self) -> str:
        return f"{self._value!r} of input {1 if self._is_one else 2}"


class _UnionsDescriptor(ListStateDescriptor):
    """The records of a window in the types of their inputs: which input each is of, then those of each."""

    def __init__(self, types: tuple[TypeInformation | None, TypeInformation | None]) -> None:
        super().__init__(WINDOW_STATE_NAME, Types.PICKLED_BYTE_ARRAY())
        if not any(map(is_pickled, types)):
            parts = Types.TUPLE([Types.LIST(Types.BOOLEAN()), *map(list_of, types)])
            self._stored_form = EntryForm("list of two inputs", parts, layout=Layout(_by_input, _unions))


def _by_input(records: list[TaggedUnion]) -> tuple[list[bool], list[Any], list[Any]]:
    ones = [record._value for record in records if record._is_one]
    twos = [record._value for record in records if not record._is_one]
    return [record._is_one for record in records], ones, twos


def _unions(value: tuple[list[bool], list[Any], list[Any]]) -> list[TaggedUnion]:
    flags, *sides = value
    ones, twos = map(iter, sides)
    return [TaggedUnion(is_one, next(ones if is_one else twos)) for is_one in flags]


class CoGroupOperator(WindowOperator):
    """Calls the function once per key and window, with the records of the first input and the second.

    `function` is a CoGroupFunction or a callable of two lists. One of the lists may be empty. `types` are
    those of the inputs' records.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any],
        function: CoGroupFunction | Callable[[list[Any], list[Any]], Iterable[Any] | None],
        allowed_lateness_milliseconds: int = 0,
        types: tuple[TypeInformation | None, TypeInformation | None] = (None, None),
    ) -> None:
        window_function = buffered(_CoGroupWindowFunction(function))
        window_function.state_descriptor = _UnionsDescriptor(types)
        super().__init__(assigner, trigger, key_selector1, window_function, allowed_lateness_milliseconds)
        self.key_selectors = (key_selector1, key_selector2)

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Put records of either input into the same windows."""
        is_one = number == 1
        super().handle(number, [TaggedUnion(is_one, value) for value in values], timestamps, keys)


class WindowJoinOperator(CoGroupOperator):
    """Calls the function for each pair of a key's records from the two inputs that share a window.

    `function` is a JoinFunction or a callable of two records (one result), or a FlatJoinFunction (any
    number). Results come in the order of the first input's records, then of the second's.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        key_selector1: Callable[[Any], Any],
        key_selector2: Callable[[Any], Any],
        function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any],
        allowed_lateness_milliseconds: int = 0,
        types: tuple[TypeInformation | None, TypeInformation | None] = (None, None),
    ) -> None:
        pairs = _JoinCoGroupFunction(function)
        super().__init__(
            assigner, trigger, key_selector1, key_selector2, pairs, allowed_lateness_milliseconds, types
        )


class _CoGroupWindowFunction(WindowFunction[Any, Any, Any, Any]):
    """A window function around a CoGroupFunction. Source: CoGroupedStreams.CoGroupWindowFunction."""

    def __init__(self, function: Any) -> None:
        self._function = function
        method(function, "co_group")

    def open(self, runtime_context: RuntimeContext) -> None:
        self._co_group = method(self._function, "co_group")
        if has_method(self._function, "open"):
            self._function.open(runtime_context)

    def close(self) -> None:
        if has_method(self._function, "close"):
            self._function.close()

    def apply(self, key: Any, window: Any, inputs: Iterable[TaggedUnion]) -> Iterable[Any]:
        ones: list[Any] = []
        twos: list[Any] = []
        for record in inputs:
            (ones if record._is_one else twos).append(record._value)
        results: Iterable[Any] = self._co_group(ones, twos)
        return results


class _JoinCoGroupFunction(CoGroupFunction):
    """Joins the pairs of a window. Source: JoinedStreams.{JoinCoGroupFunction,FlatJoinCoGroupFunction}."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._flat = isinstance(function, FlatJoinFunction)
        method(function, "join")

    def open(self, runtime_context: RuntimeContext) -> None:
        self._join = method(self._function, "join")
        if has_method(self._function, "open"):
            self._function.open(runtime_context)

    def close(self) -> None:
        if has_method(self._function, "close"):
            self._function.close()

    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        join = self._join
        if not self._flat:
            for left in first:
                for right in second:
                    yield join(left, right)
            return
        for left in first:
            for right in second:
                results = join(left, right)
                if results is not None:
                    yield from results


class Buffer:
    """The records of one input that a key may still join with, by time."""

    def __init__(self, watermark: int) -> None:
        self.times: list[int] = []
        self.values: list[Any] = []
        self._watermark = watermark

    def add(self, time: int, value: Any) -> None:
        """Insert a record after records of the same time."""
        if not self.times or time >= self.times[-1]:
            self.times.append(time)
            self.values.append(value)
        else:
            place = bisect_right(self.times, time)
            self.times.insert(place, time)
            self.values.insert(place, value)

    def remove_expired(self, watermark: int, retention: int) -> None:
        """Remove the records that lie at least `retention` below the watermark, if the watermark has risen.

        Late records that were added since then stay.
        """
        if watermark == self._watermark:
            return
        self._watermark = watermark
        if self.times and self.times[0] <= watermark - retention:
            count = bisect_right(self.times, watermark - retention)
            del self.times[:count]
            del self.values[:count]

    def between(self, first: int, last: int) -> list[tuple[int, Any]]:
        """Return the records from `first` to `last`, both inclusive."""
        low, high = bisect_left(self.times, first), bisect_right(self.times, last)
        return list(zip(self.times[low:high], self.values[low:high], strict=True))

    def parts(self) -> tuple[int, list[int], list[Any]]:
        """Return plain values that `from_parts` makes a buffer of."""
        return self._watermark, self.times, self.values

    @classmethod
    def from_parts(cls, parts: tuple[int, list[int], list[Any]]) -> Self:
        """Return the buffer with these `parts`."""
        buffer = cls(parts[0])
        buffer.times, buffer.values = list(parts[1]), list(parts[2])
        return buffer


def _buffer_form(type_info: TypeInformation | None) -> EntryForm:
    """Return the form of buffers in files, of records of this type."""
    if is_pickled(type_info):
        return PICKLES
    parts = Types.TUPLE([Types.LONG(), Types.LIST(Types.LONG()), list_of(type_info)])
    return EntryForm("buffer", parts, layout=Layout(Buffer.parts, Buffer.from_parts))


class _Side(NamedTuple):
    """The state and bounds of the operator for each input; times in milliseconds."""

    table: StateTable
    lower: int  #: the other input's records are at least this much later
    upper: int  #: and at most this much
    retention: int  #: its records stay until the watermark is this far above them
    late_tag: OutputTag | None


class IntervalJoinOperator(KeyedOperator):
    """Calls the function for each pair of a key with left + lower <= right <= left + upper, in milliseconds.

    Bounds that are not inclusive leave out their own moment. Results have the later of the two timestamps;
    results of one record come in the order of the other records' timestamps. Records below the watermark are
    late: they go to the side output with the id of their side's tag, or are dropped.

    `function` is a ProcessJoinFunction or a callable of left, right and context; `types` are those of the
    inputs' records.

    Raises ValueError if the lower bound is above the upper one.
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
        types: tuple[TypeInformation | None, TypeInformation | None] = (None, None),
    ) -> None:
        super().__init__(key_selector1, key_selector2)
        if lower_bound_milliseconds > upper_bound_milliseconds:
            bounds = f"{lower_bound_milliseconds} ms and {upper_bound_milliseconds} ms"
            raise ValueError(f"the lower bound must not be above the upper one, got {bounds}")
        method(function, "process_element")
        self.function = function
        self.lower = lower_bound_milliseconds + (not lower_bound_inclusive)
        self.upper = upper_bound_milliseconds - (not upper_bound_inclusive)
        self.late_tags = (left_late_tag, right_late_tag)
        self.types = types

    def open(self) -> None:
        """Create the two buffers; open the function."""
        super().open()
        lower, upper = self.lower, self.upper
        left_tag, right_tag = (None if tag is None else OutputTag(tag) for tag in self.late_tags)
        left, right = (
            self.backend.table(name, form=_buffer_form(type_info))
            for name, type_info in zip(("left-buffer", "right-buffer"), self.types, strict=True)
        )
        self._sides = (
            _Side(left, lower, upper, max(upper, 0), left_tag),
            _Side(right, -upper, -lower, max(-lower, 0), right_tag),
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
        """Join records of one input with the buffered records of the other, and buffer them."""
        if timestamps is None or None in timestamps:
            without = 0 if timestamps is None else timestamps.index(None)
            raise self.failed(no_timestamp(), values[without])
        value = None
        try:
            for value, time, key in zip(values, timestamps, keys, strict=False):
                self.backend.key = key
                self._add(number, value, time)  # type: ignore[arg-type] # None is excluded above
        except BaseException as error:
            raise self.failed(error, value) from error

    def _add(self, number: int, value: Any, time: int) -> None:
        side, other_side = self._sides[number - 1], self._sides[2 - number]
        results = self.results
        if time < self.watermark:
            if side.late_tag is not None:
                results.add([(side.late_tag, value)], time)
            return
        key = self.backend.key
        # in BATCH mode records come by time, so earlier ones can be removed as if by a watermark
        passed = time - 1 if self.context.batch else self.watermark
        candidates = other_side.table.entries.get(key)
        if candidates is not None:
            candidates.remove_expired(passed, other_side.retention)
            for other_time, candidate in candidates.between(time + side.lower, time + side.upper):
                if number == 1:
                    self._emit(value, candidate, time, other_time)
                else:
                    self._emit(candidate, value, other_time, time)
        buffer = side.table.entries.get(key)
        if buffer is None:
            buffer = side.table.entries[key] = Buffer(passed)
        else:
            buffer.remove_expired(passed, side.retention)
        if not buffer.times and not self.context.batch:
            self.register_event_time_timer(time + side.retention, number)
        buffer.add(time, value)

    def _emit(self, left: Any, right: Any, left_time: int, right_time: int) -> None:
        context = self._join_context
        context.left_timestamp, context.right_timestamp = left_time, right_time
        self.results.add(self._join(left, right, context), max(left_time, right_time))

    def on_event_time(self, timestamp: int, namespace: Any) -> None:
        """Remove records of the current key and input `namespace` that can no longer join.

        If some remain, set a timer for them.
        """
        side, key = self._sides[namespace - 1], self.backend.key
        buffer = side.table.entries.get(key)
        if buffer is None:
            return
        buffer.remove_expired(self.watermark, side.retention)
        if buffer.times:
            self.register_event_time_timer(buffer.times[-1] + side.retention, namespace)
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
