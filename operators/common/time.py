"""Lengths of time and points in time. Source: pyflink.common.time, java.time.Duration."""

from __future__ import annotations

import datetime
import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from penstock.operators.common.arguments import describe_value, no_java, require_text

_MAX_SECONDS = 2**63 - 1


class Duration:
    """A length of time, to the nanosecond. Made by the `of_…` functions.

    TypeError for amounts that are no int, OverflowError for more than 2^63 seconds.
    """

    def __init__(self, nanoseconds: int) -> None:
        _whole(nanoseconds)
        if not -_MAX_SECONDS - 1 <= nanoseconds // 10**9 <= _MAX_SECONDS:
            raise OverflowError(f"a Duration of {nanoseconds} ns does not fit 64 bits of seconds")
        self.nanoseconds = nanoseconds

    @staticmethod
    def of_days(days: int) -> Duration:
        """Days of 24 hours."""
        return Duration(_whole(days) * 86_400 * 10**9)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Hours."""
        return Duration(_whole(hours) * 3_600 * 10**9)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Milliseconds."""
        return Duration(_whole(millis) * 10**6)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Minutes."""
        return Duration(_whole(minutes) * 60 * 10**9)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Nanoseconds."""
        return Duration(_whole(nanos))

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Seconds."""
        return Duration(_whole(seconds) * 10**9)

    @property
    def milliseconds(self) -> int:
        """Whole milliseconds, rounded down."""
        return self.nanoseconds // 10**6

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanoseconds == other.nanoseconds

    def __hash__(self) -> int:
        return hash(self.nanoseconds)


class Instant:
    """A point in time: `seconds` since the epoch and `nanos` (0 to 999,999,999) of that second."""

    def __init__(self, seconds: int, nanos: int) -> None:
        self.seconds = seconds
        self.nanos = nanos

    def to_epoch_milli(self) -> int:
        """Milliseconds since the epoch, rounded down."""
        return self.seconds * 1000 + self.nanos // 10**6

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """The instant that many milliseconds after the epoch."""
        return Instant(epoch_milli // 1000, epoch_milli % 1000 * 10**6)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Instant)
            and self.__class__ == other.__class__
            and self.seconds == other.seconds
            and self.nanos == other.nanos
        )

    def __hash__(self) -> int:
        return hash((self.seconds, self.nanos))

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NAIVE_EPOCH = datetime.datetime(1970, 1, 1)


def microseconds_since_epoch(moment: datetime.datetime) -> int:
    """Return microseconds from the epoch to `moment`, which is local if it has no time zone."""
    if moment.tzinfo is not None:
        return (moment - _EPOCH) // datetime.timedelta(microseconds=1)
    try:
        return int(moment.replace(microsecond=0).timestamp()) * 10**6 + moment.microsecond
    except ValueError:  # it reads the day before, which the first day lacks
        since = moment - _NAIVE_EPOCH
        offset = time.localtime(since // datetime.timedelta(seconds=1)).tm_gmtoff
        return (since - datetime.timedelta(seconds=offset)) // datetime.timedelta(microseconds=1)


class Time:
    """A length of time in milliseconds, as windows take it.

    TypeError for amounts that are not numbers, ValueError for parts of a millisecond.
    """

    def __init__(self, milliseconds: float) -> None:
        if _number(milliseconds) != int(milliseconds):
            raise ValueError(f"a Time must be whole milliseconds, got {milliseconds}")
        self._milliseconds = int(milliseconds)

    def to_milliseconds(self) -> int:
        """The length in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: float) -> Time:
        """Milliseconds."""
        return Time(_number(milliseconds))

    @staticmethod
    def seconds(seconds: float) -> Time:
        """Seconds."""
        return Time(_number(seconds) * 1000)

    @staticmethod
    def minutes(minutes: float) -> Time:
        """Minutes."""
        return Time(_number(minutes) * 60_000)

    @staticmethod
    def hours(hours: float) -> Time:
        """Hours."""
        return Time(_number(hours) * 3_600_000)

    @staticmethod
    def days(days: float) -> Time:
        """Days of 24 hours."""
        return Time(_number(days) * 86_400_000)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Time)
            and self.__class__ == other.__class__
            and self._milliseconds == other._milliseconds
        )

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"


def _number(amount: float) -> float:
    if not isinstance(amount, int | float) or isinstance(amount, bool) or not math.isfinite(amount):
        raise TypeError(f"a Time must be made of a number, got {describe_value(amount)}")
    return amount


def _whole(amount: int) -> int:
    if not isinstance(amount, int) or isinstance(amount, bool):
        raise TypeError(f"a Duration must be made of whole units, got {amount!r}")
    return amount


# Watermark strategies. Source: pyflink.common.watermark_strategy, o.a.f.api.common.eventtime


@dataclass(frozen=True)
class WatermarkAlignment:
    """The maximum lead of a source over its group; Flink pauses such a source, a bounded job need not."""

    group: str
    max_drift_milliseconds: int
    update_interval_milliseconds: int = 1000


@dataclass(eq=False)
class WatermarkStrategy:
    """Which timestamps records get and how far watermarks lag them. Made by its static methods."""

    #: Watermarks are the largest timestamp minus this minus 1; None: no watermarks.
    out_of_orderness_milliseconds: int | None = None
    timestamp_assigner: TimestampAssigner | None = None  #: None: records retain their timestamps
    idle_timeout_milliseconds: int | None = None
    alignment: WatermarkAlignment | None = None

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Let this strategy give records the timestamps that `timestamp_assigner` extracts."""
        self.timestamp_assigner = timestamp_assigner
        return self

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """This strategy; a subtask without records for `idle_timeout` does not hold back the watermark.

        ValueError unless it is positive.
        """
        milliseconds = _milliseconds(idle_timeout, "idle_timeout")
        if idle_timeout.nanoseconds <= 0:
            raise ValueError(f"idle_timeout must be positive, got {milliseconds} ms")
        return replace(self, idle_timeout_milliseconds=milliseconds)

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration,
        update_interval: Duration | None = None,
    ) -> WatermarkStrategy:
        """This strategy, and sources of the group do not run ahead of each other by more than the drift.

        ValueError for a negative drift or an interval (default: a second) that is not positive.
        """
        require_text(watermark_group, "watermark_group")
        drift = _milliseconds(max_allowed_watermark_drift, "max_allowed_watermark_drift")
        interval = 1000 if update_interval is None else _milliseconds(update_interval, "update_interval")
        if drift < 0 or interval <= 0:
            raise ValueError(f"drift and interval must be at least 0 and 1 ms, got {drift} and {interval} ms")
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift, interval))

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Timestamps never fall: watermarks follow the largest one."""
        return WatermarkStrategy(0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Records are at most that late: watermarks stay that far below the largest timestamp.

        ValueError if it is negative.
        """
        milliseconds = _milliseconds(max_out_of_orderness, "max_out_of_orderness")
        if milliseconds < 0:
            raise ValueError(f"max_out_of_orderness must not be negative, got {milliseconds} ms")
        return WatermarkStrategy(milliseconds)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No watermarks before the end of the input."""
        return WatermarkStrategy(None)


class TimestampAssigner(ABC):
    """Extracts the event time of a record."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the event time of `value` in milliseconds since the epoch.

        `record_timestamp` is its previous timestamp, -2^63 if none.
        """


class AssignerWithPeriodicWatermarksWrapper:
    """Wraps an assigner written in Java; NoJavaError, always."""

    def __init__(self, j_assigner_with_periodic_watermarks: Any) -> None:
        no_java("AssignerWithPeriodicWatermarksWrapper")


def _milliseconds(duration: Duration, name: str) -> int:
    if not isinstance(duration, Duration):
        raise TypeError(f"{name} must be a Duration, got {duration!r}")
    return duration.milliseconds
