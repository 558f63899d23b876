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
    """A length of time, to the nanosecond; the `of_…` functions make it.

    Args:
        nanoseconds: An int.

    Raises:
        TypeError: Not an int.
        OverflowError: 2**63 seconds or more.
    """

    def __init__(self, nanoseconds: int) -> None:
        _whole(nanoseconds)
        if not -_MAX_SECONDS - 1 <= nanoseconds // 10**9 <= _MAX_SECONDS:
            raise OverflowError(f"a Duration of {nanoseconds} ns does not fit 64 bits of seconds")
        self.nanoseconds = nanoseconds

    @staticmethod
    def of_days(days: int) -> Duration:
        """Make a length.

        Args:
            days: Days of 24 hours.

        Returns:
            Duration: The length.
        """
        return Duration(_whole(days) * 86_400 * 10**9)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Make a length.

        Args:
            hours: Hours.

        Returns:
            Duration: The length.
        """
        return Duration(_whole(hours) * 3_600 * 10**9)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Make a length.

        Args:
            millis: Milliseconds.

        Returns:
            Duration: The length.
        """
        return Duration(_whole(millis) * 10**6)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Make a length.

        Args:
            minutes: Minutes.

        Returns:
            Duration: The length.
        """
        return Duration(_whole(minutes) * 60 * 10**9)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Make a length.

        Args:
            nanos: Nanoseconds.

        Returns:
            Duration: The length.
        """
        return Duration(_whole(nanos))

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Make a length.

        Args:
            seconds: Seconds.

        Returns:
            Duration: The length.
        """
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
    """A point in time.

    Args:
        seconds: Seconds since the epoch.
        nanos: Nanoseconds of that second, 0 to 999,999,999.

    Examples:
        >>> from penstock.common import Instant
        >>> Instant(2, 500_000_000).to_epoch_milli()
        2500
    """

    def __init__(self, seconds: int, nanos: int) -> None:
        self.seconds = seconds
        self.nanos = nanos

    def to_epoch_milli(self) -> int:
        """Return milliseconds since the epoch, rounded down."""
        return self.seconds * 1000 + self.nanos // 10**6

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Make an instant.

        Args:
            epoch_milli: Milliseconds since the epoch.

        Returns:
            Instant: The instant.
        """
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
    """A length of time in whole milliseconds, for windows.

    Args:
        milliseconds: A whole number.

    Raises:
        TypeError: Not a number.
        ValueError: Parts of a millisecond.

    Examples:
        >>> from penstock.common import Time
        >>> Time.minutes(2).to_milliseconds()
        120000
    """

    def __init__(self, milliseconds: float) -> None:
        if _number(milliseconds) != int(milliseconds):
            raise ValueError(f"a Time must be whole milliseconds, got {milliseconds}")
        self._milliseconds = int(milliseconds)

    def to_milliseconds(self) -> int:
        """Return the length in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: float) -> Time:
        """Make a length.

        Args:
            milliseconds: Milliseconds.

        Returns:
            Time: The length.
        """
        return Time(_number(milliseconds))

    @staticmethod
    def seconds(seconds: float) -> Time:
        """Make a length.

        Args:
            seconds: Seconds.

        Returns:
            Time: The length.
        """
        return Time(_number(seconds) * 1000)

    @staticmethod
    def minutes(minutes: float) -> Time:
        """Make a length.

        Args:
            minutes: Minutes.

        Returns:
            Time: The length.
        """
        return Time(_number(minutes) * 60_000)

    @staticmethod
    def hours(hours: float) -> Time:
        """Make a length.

        Args:
            hours: Hours.

        Returns:
            Time: The length.
        """
        return Time(_number(hours) * 3_600_000)

    @staticmethod
    def days(days: float) -> Time:
        """Make a length.

        Args:
            days: Days of 24 hours.

        Returns:
            Time: The length.
        """
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
    """The timestamps of records, and the lag of watermarks.

    Examples:
        >>> from penstock.common import Duration, WatermarkStrategy
        >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    """

    #: Watermarks are the largest timestamp minus this minus 1; None: no watermarks.
    out_of_orderness_milliseconds: int | None = None
    timestamp_assigner: TimestampAssigner | None = None  #: None: records retain their timestamps
    idle_timeout_milliseconds: int | None = None
    alignment: WatermarkAlignment | None = None

    def with_timestamp_assigner(self, timestamp_assigner: TimestampAssigner) -> WatermarkStrategy:
        """Return this strategy with timestamps taken from records.

        Args:
            timestamp_assigner: Its `extract_timestamp(value, record_timestamp)` returns milliseconds.

        Returns:
            WatermarkStrategy: With the assigner.
        """
        self.timestamp_assigner = timestamp_assigner
        return self

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Return this strategy with a timeout for idle subtasks.

        After it, a subtask without records does not hold back the watermark.

        Args:
            idle_timeout: A Duration, above 0.

        Returns:
            WatermarkStrategy: With the timeout.

        Raises:
            ValueError: Not above 0.
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
        """Return this strategy with a limit for sources that run ahead of others.

        Args:
            watermark_group: Name of the group of sources.
            max_allowed_watermark_drift: A Duration, 0 or more.
            update_interval: A Duration, above 0; default a second.

        Returns:
            WatermarkStrategy: With the limit.

        Raises:
            ValueError: Out of range.
        """
        require_text(watermark_group, "watermark_group")
        drift = _milliseconds(max_allowed_watermark_drift, "max_allowed_watermark_drift")
        interval = 1000 if update_interval is None else _milliseconds(update_interval, "update_interval")
        if drift < 0 or interval <= 0:
            raise ValueError(f"drift and interval must be at least 0 and 1 ms, got {drift} and {interval} ms")
        return replace(self, alignment=WatermarkAlignment(watermark_group, drift, interval))

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Make a strategy for timestamps that never fall.

        Returns:
            WatermarkStrategy: Watermarks follow the largest timestamp.
        """
        return WatermarkStrategy(0)

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Make a strategy for records that are late by a limited time.

        Args:
            max_out_of_orderness: A Duration, 0 or more.

        Returns:
            WatermarkStrategy: Watermarks lag the largest timestamp by it.

        Raises:
            ValueError: Negative.
        """
        milliseconds = _milliseconds(max_out_of_orderness, "max_out_of_orderness")
        if milliseconds < 0:
            raise ValueError(f"max_out_of_orderness must not be negative, got {milliseconds} ms")
        return WatermarkStrategy(milliseconds)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Make a strategy without watermarks before the end of the input.

        Returns:
            WatermarkStrategy: Without watermarks.
        """
        return WatermarkStrategy(None)


class TimestampAssigner(ABC):
    """Extracts the event time of a record."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the event time of a record.

        Args:
            value: The record.
            record_timestamp: Its previous timestamp in milliseconds; -2^63 if it has none.

        Returns:
            int: Milliseconds since the epoch.
        """


class AssignerWithPeriodicWatermarksWrapper:
    """Refuses an assigner written in Java.

    Args:
        j_assigner_with_periodic_watermarks: Not read.

    Raises:
        NoJavaError: Always.
    """

    def __init__(self, j_assigner_with_periodic_watermarks: Any) -> None:
        no_java("AssignerWithPeriodicWatermarksWrapper")


def _milliseconds(duration: Duration, name: str) -> int:
    if not isinstance(duration, Duration):
        raise TypeError(f"{name} must be a Duration, got {duration!r}")
    return duration.milliseconds
