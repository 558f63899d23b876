"""The windows of records, which are spans of time, numbered counts, and the global window.

Source: pyflink.datastream.window; org.apache.flink.streaming.api.windowing.windows.{TimeWindow,GlobalWindow}.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import lru_cache
from io import BytesIO
from struct import Struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.operators.chain.operator import MAX_WATERMARK
from penstock.operators.common.basic_types import TypeSerializer
from penstock.operators.state.state_segments import NamespaceForm, register_namespaces

if TYPE_CHECKING:
    from penstock.operators.windows.trigger import MergingWindowAssigner


def long_to_int_with_bit_mixing(x: int) -> int:
    """Mix the bits of an integer with SplitMix64's finaliser, without cutting it to 64 bits.

    Args:
        x: Any int.

    Returns:
        int: As PyFlink computes it, of any width.
    """
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> shift)) * factor
    return x ^ (x >> 31)


def mod_inverse(x: int) -> int:
    """Compute the inverse of an odd integer modulo 2**32, by Newton's method.

    Args:
        x: An odd int.

    Returns:
        int: Its lowest 32 bits are the inverse; higher bits remain, as in PyFlink.

    Examples:
        >>> from penstock.datastream.window import mod_inverse
        >>> 12345 * mod_inverse(12345) % 2**32
        1
    """
    inverse = x**3
    for _ in range(3):
        inverse *= 2 - x * inverse
    return inverse


class Window(ABC):
    """A finite group of records.

    Windows are keys of state: subclasses define `__eq__` and `__hash__`.
    """

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the last timestamp, in milliseconds, that belongs to the window."""


class TimeWindow(Window):
    """A span of time.

    Args:
        start: First millisecond since the epoch.
        end: Millisecond since the epoch after the last one.

    Args:
        start: Milliseconds since the epoch, inside.
        end: Milliseconds since the epoch, outside.

    Examples:
        >>> from penstock.datastream.window import TimeWindow
        >>> TimeWindow(0, 10).intersects(TimeWindow(10, 20)), TimeWindow(0, 10).max_timestamp()
        (True, 9)
    """

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: "TimeWindow") -> bool:
        """Tell whether two windows overlap or touch.

        Args:
            other: A TimeWindow.

        Returns:
            bool: Whether they do.
        """
        return self.start <= other.end and other.start <= self.end

    def cover(self, other: "TimeWindow") -> "TimeWindow":
        """Return the smallest window that holds both.

        Args:
            other: A TimeWindow.

        Returns:
            TimeWindow: From the earlier start to the later end.
        """
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the window that holds a timestamp.

        Args:
            timestamp: Milliseconds.
            offset: Milliseconds by which starts are shifted.
            window_size: Milliseconds, above 0.

        Returns:
            int: Milliseconds; timestamps before the epoch belong to the window that starts at or below them.
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(
        windows: Iterable["TimeWindow"], callback: "MergingWindowAssigner.MergeCallback[TimeWindow]"
    ) -> None:
        """Merge windows that overlap or touch.

        Args:
            windows: TimeWindows in any order; duplicates count once.
            callback: Its `merge(windows, cover)` is called for each group of two or more windows, in order of
                time, with the smallest window that covers the group.
        """
        cover: TimeWindow | None = None
        members: list[TimeWindow] = []
        for window in sorted(windows, key=_span):
            if cover is None or cover.end < window.start:
                if cover is not None and len(members) > 1:
                    callback.merge(in_set_order(members), cover)
                cover, members = window, [window]
            elif members[-1] != window:
                members.append(window)
                if window.end > cover.end:
                    cover = TimeWindow(cover.start, window.end)
        if cover is not None and len(members) > 1:
            callback.merge(in_set_order(members), cover)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __eq__(self, other: object) -> bool:
        return (
            self.__class__ == other.__class__
            and isinstance(other, TimeWindow)
            and self.end == other.end
            and self.start == other.start
        )

    def __lt__(self, other: "TimeWindow") -> bool:
        if not isinstance(other, TimeWindow):
            raise Exception(f"A TimeWindow can only be compared with a TimeWindow, not with {other!r}")
        return (self.start, self.end) < (other.start, other.end)

    def __le__(self, other: "TimeWindow") -> bool:
        return self == other or self < other

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


class CountWindow(Window):
    """A window of a number of records of a key.

    Args:
        id: Its number among the windows of the key, from 0.
    """

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id

    def max_timestamp(self) -> int:
        """Return the largest watermark: the window does not end by time."""
        return MAX_WATERMARK

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return self.__class__ == other.__class__ and isinstance(other, CountWindow) and self.id == other.id

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The only window of GlobalWindows, which holds all records of a key."""

    __slots__ = ()

    @staticmethod
    def get() -> "GlobalWindow":
        """Return a global window; all are equal."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        """Return the largest watermark: the window does not end by time."""
        return MAX_WATERMARK

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return self.__class__ == other.__class__

    def __repr__(self) -> str:
        return "GlobalWindow"


def _span(window: TimeWindow) -> tuple[int, int]:
    return window.start, window.end


def in_set_order(windows: list[TimeWindow]) -> list[TimeWindow]:
    """Return distinct windows in the order in which a set iterates over them under PyFlink's hash.

    That order is visible: the first of merged sessions is the one whose records come first.
    """
    if len(windows) == 2:
        # either of the two is the new window, which has no records yet
        return windows
    by_hash = {hash(window.start + mod_inverse((window.end << 1) + 1)): window for window in windows}
    if len(by_hash) < len(windows):
        return windows
    order: set[int] = set()
    for number in by_hash:
        order.add(number)
    return [by_hash[number] for number in order]


# The byte forms of windows, as in PyFlink: big-endian 64-bit integers, one byte for the global window
#
# Source:
# pyflink.fn_execution.coder_impl_slow.{TimeWindowCoderImpl,CountWindowCoderImpl,GlobalWindowCoderImpl}.


_LONG = Struct(">q")
_TWO_LONGS = Struct(">qq")


class TimeWindowSerializer(TypeSerializer[TimeWindow]):
    """Serializes a TimeWindow as 16 bytes: start and end as big-endian 64-bit integers.

    Raises struct.error for a bound beyond 64 bits, and at the end of the stream.
    """

    def serialize(self, element: TimeWindow, stream: BytesIO) -> None:
        stream.write(_TWO_LONGS.pack(element.start, element.end))

    def deserialize(self, stream: BytesIO) -> TimeWindow:
        return TimeWindow(*_TWO_LONGS.unpack(stream.read(16)))


class CountWindowSerializer(TypeSerializer[CountWindow]):
    """Serializes a CountWindow as 8 bytes: its id as a big-endian 64-bit integer.

    Raises struct.error for an id beyond 64 bits, and at the end of the stream.
    """

    def serialize(self, element: CountWindow, stream: BytesIO) -> None:
        stream.write(_LONG.pack(element.id))

    def deserialize(self, stream: BytesIO) -> CountWindow:
        return CountWindow(_LONG.unpack(stream.read(8))[0])


class GlobalWindowSerializer(TypeSerializer[GlobalWindow]):
    """Serializes a GlobalWindow as one byte, 0."""

    def serialize(self, element: GlobalWindow, stream: BytesIO) -> None:
        stream.write(b"\0")

    def deserialize(self, stream: BytesIO) -> GlobalWindow:
        stream.read(1)
        return GlobalWindow.get()


# Windows in files of state

_SPAN = pa.struct([pa.field("start", pa.int64()), pa.field("end", pa.int64())])


def _spans(windows: Sequence[TimeWindow]) -> pa.Array:
    starts = pa.array([window.start for window in windows], pa.int64())
    ends = pa.array([window.end for window in windows], pa.int64())
    return pa.StructArray.from_arrays([starts, ends], fields=list(_SPAN))


@lru_cache(maxsize=1 << 16, typed=True)
def shared_window(start: int, end: int) -> TimeWindow:
    """Return one object for equal windows, of which dictionaries need no comparison."""
    return TimeWindow(start, end)


def _time_windows(spans: pa.Array) -> list[Any]:
    return list(map(shared_window, spans.field(0).to_pylist(), spans.field(1).to_pylist()))


def _ids(windows: Sequence[CountWindow]) -> pa.Array:
    return pa.array([window.id for window in windows], pa.int64())


def _count_windows(ids: pa.Array) -> list[Any]:
    return list(map(CountWindow, ids.to_pylist()))


def _nothing(windows: Sequence[GlobalWindow]) -> pa.Array:
    return pa.array([True] * len(windows), pa.bool_())


def _global_windows(marks: pa.Array) -> list[Any]:
    return [GlobalWindow()] * len(marks)


register_namespaces(GlobalWindow, NamespaceForm(pa.bool_(), _nothing, _global_windows))
register_namespaces(TimeWindow, NamespaceForm(_SPAN, _spans, _time_windows))
register_namespaces(CountWindow, NamespaceForm(pa.int64(), _ids, _count_windows))
