"""Records whose calls are under way, and the watermarks between them, in the order they may leave.

Only the task's thread touches these queues.

Source: org.apache.flink.streaming.api.operators.async.queue.{OrderedStreamElementQueue,
UnorderedStreamElementQueue}.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol


class WaitingRecord:
    """A record whose call is under way, later its results or what went wrong."""

    __slots__ = ("complete", "error", "group", "results", "settled", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int | None) -> None:
        self.value, self.timestamp = value, timestamp
        self.results: Any = None
        self.error: BaseException | None = None
        self.settled = False  #: set in the event loop: its outcome is known
        self.complete = False  #: set in the task's thread: it may leave
        self.group: _Group | None = None


class WaitingRecords(Protocol):
    """A queue of records and watermarks."""

    size: int  #: records that have not left

    def add(self, record: WaitingRecord) -> None:
        """A record's call has begun."""

    def add_watermark(self, watermark: int) -> None:
        """A watermark came after the records so far."""

    def complete(self, record: WaitingRecord) -> None:
        """The record has its results."""

    def leave(self) -> Iterator[WaitingRecord | int]:
        """Take out the records and watermarks that may leave."""


class RecordsInOrder:
    """Everything leaves in the order it came."""

    def __init__(self) -> None:
        self._waiting: deque[WaitingRecord | int] = deque()
        self.size = 0

    def add(self, record: WaitingRecord) -> None:
        self._waiting.append(record)
        self.size += 1

    def add_watermark(self, watermark: int) -> None:
        self._waiting.append(watermark)

    def complete(self, record: WaitingRecord) -> None:
        record.complete = True

    def leave(self) -> Iterator[WaitingRecord | int]:
        """Take out what is complete, up to the first that is not."""
        waiting = self._waiting
        while waiting:
            first = waiting[0]
            if isinstance(first, WaitingRecord):
                if not first.complete:
                    return
                self.size -= 1
            yield waiting.popleft()


class _Group:
    """Records between two watermarks."""

    __slots__ = ("complete", "pending", "watermark")

    def __init__(self) -> None:
        self.pending = 0
        self.complete: deque[WaitingRecord] = deque()
        self.watermark: int | None = None  #: the one after the records


class RecordsAsTheyCome:
    """Records leave as soon as they are complete, but none passes a watermark."""

    def __init__(self) -> None:
        self._groups: deque[_Group] = deque([_Group()])
        self.size = 0

    def add(self, record: WaitingRecord) -> None:
        """Queue a record after the last watermark."""
        group = self._groups[-1]
        group.pending += 1
        record.group = group
        self.size += 1

    def add_watermark(self, watermark: int) -> None:
        """Close the last group."""
        self._groups[-1].watermark = watermark
        self._groups.append(_Group())

    def complete(self, record: WaitingRecord) -> None:
        """Let the record leave with its group."""
        assert record.group is not None
        record.group.pending -= 1
        record.group.complete.append(record)

    def leave(self) -> Iterator[WaitingRecord | int]:
        """Take out what is complete of the first group, and of the next ones if nothing is pending before."""
        while True:
            group = self._groups[0]
            while group.complete:
                self.size -= 1
                yield group.complete.popleft()
            if group.pending or group.watermark is None:
                return
            yield group.watermark
            self._groups.popleft()
