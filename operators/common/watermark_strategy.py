"""The origin of event time. Source: pyflink.common.watermark_strategy, o.a.f.api.common.eventtime."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from penstock.operators.common.arguments import require_text
from penstock.operators.common.no_java import no_java
from penstock.operators.common.time import Duration


@dataclass(frozen=True)
class WatermarkAlignment:
    """How far a source may be ahead of its group: Flink pauses it, a bounded job here has no need to."""

    group: str
    max_drift_milliseconds: int
    update_interval_milliseconds: int = 1000


@dataclass(eq=False)
class WatermarkStrategy:
    """Which timestamps records get and how far watermarks lag them. Made by its static methods."""

    #: Watermarks are the largest timestamp minus this minus 1; None: no watermarks.
    out_of_orderness_milliseconds: int | None = None
    timestamp_assigner: TimestampAssigner | None = None  #: None: records keep the timestamp they have
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
            raise ValueError(f"idle_timeout of {milliseconds} ms: it has to be positive")
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
            raise ValueError(f"drift of {drift} ms, interval of {interval} ms: at least 0, at least 1")
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
            raise ValueError(f"max_out_of_orderness of {milliseconds} ms: it must not be negative")
        return WatermarkStrategy(milliseconds)

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """No watermarks before the end of the input."""
        return WatermarkStrategy(None)


class TimestampAssigner(ABC):
    """Says when a record happened."""

    @abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Event time of `value` in milliseconds since the epoch.

        `record_timestamp` is the timestamp it had, -2^63 if none.
        """


class AssignerWithPeriodicWatermarksWrapper:
    """Wraps an assigner written in Java; NoJavaError, always."""

    def __init__(self, j_assigner_with_periodic_watermarks: Any) -> None:
        no_java("AssignerWithPeriodicWatermarksWrapper")


def _milliseconds(duration: Duration, name: str) -> int:
    if not isinstance(duration, Duration):
        raise TypeError(f"{name} has to be a Duration, not {duration!r}")
    return duration.milliseconds
