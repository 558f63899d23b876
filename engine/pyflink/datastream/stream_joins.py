"""Joins of two streams, as in the Java API; PyFlink lacks them.

Source: org.apache.flink.streaming.api.datastream.{CoGroupedStreams,JoinedStreams,KeyedStream.IntervalJoin}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self

from penstock.engine.pyflink.datastream.operator_settings import (
    as_output_type,
)
from penstock.operators.common.arguments import require_integer
from penstock.operators.common.declared_types import DeclaredType
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.time import Duration, Time
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.functions.functions import (
    KeySelector,
)
from penstock.operators.windows.interval_join import (
    CoGroupFunction,
    CoGroupOperator,
    FlatJoinFunction,
    IntervalJoinOperator,
    JoinFunction,
    ProcessJoinFunction,
    WindowJoinOperator,
)
from penstock.operators.windows.trigger import MergingWindowAssigner, Trigger, WindowAssigner

if TYPE_CHECKING:
    from penstock.engine.pyflink.datastream.data_stream import DataStream, KeyedStream

Selector = Callable[[Any], Any] | KeySelector


class WindowPairing:
    """Two streams by equal keys in the same windows: `where`, `equal_to`, `window`, then `apply`."""

    _operator: ClassVar[type]
    _verb: ClassVar[str]

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first, self._second = first, second
        self._selectors: list[Selector] = []
        self._key_type: TypeInformation | None = None
        self._assigner: WindowAssigner[Any, Any] | None = None
        self._trigger: Trigger[Any, Any] | None = None
        self._allowed_lateness = 0

    def where(self, key_selector: Selector, key_type: DeclaredType | None = None) -> Self:
        """Keys of the first stream."""
        self._selectors[:1] = [key_selector]
        self._key_type = key_type
        return self

    def equal_to(self, key_selector: Selector) -> Self:
        """Keys of the second stream, of the same type. ValueError before `where`."""
        if not self._selectors:
            raise ValueError("equal_to: call where() first, with the keys of the first stream")
        self._selectors[1:] = [key_selector]
        return self

    def window(self, assigner: WindowAssigner[Any, Any]) -> Self:
        """Put the records of both streams into windows; `assigner` sees TaggedUnion objects."""
        self._assigner = assigner
        return self

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Let `trigger` decide when windows are worked out, instead of the assigner's own."""
        self._trigger = trigger
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """Keep event-time windows for records that are up to that many milliseconds late.

        ValueError for a negative number, which Java's API refuses.
        """
        if require_integer(time_ms, "allowed lateness") < 0:
            raise ValueError(f"allowed lateness must be at least 0 ms, got {time_ms}")
        self._allowed_lateness = time_ms
        return self

    def _apply(self, function: Any, output_type: TypeInformation | None) -> DataStream:
        if len(self._selectors) != 2 or self._assigner is None:
            raise ValueError(f"{self._verb}: call where, equal_to and window before apply")
        assigner, env = self._assigner, self._first.get_execution_environment()
        trigger = self._trigger or assigner.get_default_trigger(env)
        if isinstance(assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise TypeError(
                f"windows of {type(assigner).__name__} merge, but {type(trigger).__name__} cannot merge"
            )
        first, second = (
            stream.key_by(selector, self._key_type)
            for stream, selector in zip((self._first, self._second), self._selectors, strict=True)
        )
        selectors = (first._key_selector, second._key_selector)
        types = (first._transformation.output_type, second._transformation.output_type)
        operator = self._operator(assigner, trigger, *selectors, function, self._allowed_lateness, types)
        result = first._connected_with(
            second, type(assigner).__name__, operator, as_output_type(output_type), key_selectors=selectors
        )
        names = f"{assigner}, {type(trigger).__name__}, {type(function).__name__}"
        return result.set_description(f"{self._verb}({names})")


class JoinedStreams(WindowPairing):
    """Pairs of records, one of each stream."""

    _operator = WindowJoinOperator
    _verb = "Join"

    def apply(
        self,
        function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any],
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """One result for each pair (JoinFunction or callable), or any number (FlatJoinFunction)."""
        return self._apply(function, output_type)


class CoGroupedStreams(WindowPairing):
    """The records of both streams of each key and window."""

    _operator = CoGroupOperator
    _verb = "CoGroup"

    def apply(
        self,
        function: CoGroupFunction | Callable[[list[Any], list[Any]], Any],
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """Any number of results for two lists of records, one of which may be empty."""
        return self._apply(function, output_type)


class KeyedIntervalJoin:
    """Two keyed streams to be joined by event time."""

    def __init__(self, left: KeyedStream, right: KeyedStream) -> None:
        self._left, self._right = left, right

    def between(self, lower_bound: Time | Duration, upper_bound: Time | Duration) -> IntervalJoined:
        """Pairs with left + lower <= right <= left + upper. ValueError where lower is above upper."""
        lower, upper = _milliseconds(lower_bound), _milliseconds(upper_bound)
        if lower > upper:
            raise ValueError(f"lower_bound must be at most upper_bound, {upper} ms; got {lower} ms")
        return IntervalJoined(self._left, self._right, lower, upper)


class IntervalJoined:
    """Two keyed streams and the interval between their records, in milliseconds."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower: int, upper: int) -> None:
        self._left, self._right = left, right
        self._lower, self._upper = lower, upper
        self._lower_inclusive = self._upper_inclusive = True
        self._left_late: OutputTag | None = None
        self._right_late: OutputTag | None = None

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Leave out the lower bound itself."""
        self._lower_inclusive = False
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Leave out the upper bound itself."""
        self._upper_inclusive = False
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Put late records of the first stream into this side output."""
        self._left_late = output_tag
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Put late records of the second stream into this side output."""
        self._right_late = output_tag
        return self

    def process(
        self,
        func: ProcessJoinFunction | Callable[[Any, Any, Any], Any],
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """Any number of results for each pair, by `process_element(left, right, ctx)` or such a callable."""
        selectors = (self._left._key_selector, self._right._key_selector)
        operator = IntervalJoinOperator(
            *selectors,
            func,
            lower_bound_milliseconds=self._lower,
            upper_bound_milliseconds=self._upper,
            lower_bound_inclusive=self._lower_inclusive,
            upper_bound_inclusive=self._upper_inclusive,
            left_late_tag=None if self._left_late is None else self._left_late.tag_id,
            right_late_tag=None if self._right_late is None else self._right_late.tag_id,
            types=(self._left._transformation.output_type, self._right._transformation.output_type),
        )
        return self._left._connected_with(
            self._right, "Interval Join", operator, as_output_type(output_type), key_selectors=selectors
        )


def _milliseconds(span: Time | Duration) -> int:
    return span.to_milliseconds() if isinstance(span, Time) else span.milliseconds
