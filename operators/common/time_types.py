"""Types of dates and times of day. Source: pyflink.common.typeinfo."""

from __future__ import annotations

import calendar
import datetime
import time
from enum import Enum
from typing import Any

from penstock.operators.common.basic_types import TypeInformation


class SqlTimeTypeInfo(TypeInformation):
    """Makes the types of java.sql."""

    @staticmethod
    def DATE() -> DateTypeInfo:
        """datetime.date."""
        return DateTypeInfo()

    @staticmethod
    def TIME() -> TimeTypeInfo:
        """datetime.time, to the millisecond."""
        return TimeTypeInfo()

    @staticmethod
    def TIMESTAMP() -> TimestampTypeInfo:
        """datetime.datetime without time zone, to the millisecond."""
        return TimestampTypeInfo()


class DateTypeInfo(TypeInformation):
    """datetime.date."""

    EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, d: datetime.date | None) -> int | None:
        return None if d is None else d.toordinal() - self.EPOCH_ORDINAL

    def from_internal_type(self, v: int | None) -> datetime.date | None:
        return None if v is None else datetime.date.fromordinal(v + self.EPOCH_ORDINAL)

    def _identity(self) -> tuple[Any, ...]:
        return (DateTypeInfo,)

    def __repr__(self) -> str:
        return "DateTypeInfo"


class TimeTypeInfo(TypeInformation):
    """datetime.time, to the millisecond."""

    #: Microseconds that local time is ahead of UTC at the epoch.
    EPOCH_ORDINAL = calendar.timegm(time.localtime(0)) * 10**6

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, t: datetime.time | None) -> int | None:
        """Microseconds since midnight in UTC; a time without time zone is local."""
        if t is None:
            return None
        offset = self.EPOCH_ORDINAL
        if t.tzinfo is not None:
            offset = (t.utcoffset() or datetime.timedelta()) // datetime.timedelta(microseconds=1)
        return ((t.hour * 60 + t.minute) * 60 + t.second) * 10**6 + t.microsecond - offset

    def from_internal_type(self, t: int | None) -> datetime.time | None:
        """The inverse, in local time."""
        if t is None:
            return None
        seconds, microseconds = divmod(t + self.EPOCH_ORDINAL, 10**6)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        return datetime.time(hour, minute, second, microseconds)

    def _identity(self) -> tuple[Any, ...]:
        return (TimeTypeInfo,)

    def __repr__(self) -> str:
        return "TimeTypeInfo"


class TimestampTypeInfo(TypeInformation):
    """datetime.datetime without time zone, to the millisecond."""

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, dt: datetime.datetime | None) -> int | None:
        """Microseconds since the epoch; without time zone, of local time."""
        if dt is None:
            return None
        seconds = calendar.timegm(dt.utctimetuple()) if dt.tzinfo else time.mktime(dt.timetuple())
        return int(seconds) * 10**6 + dt.microsecond

    def from_internal_type(self, ts: int | None) -> datetime.datetime | None:
        """The inverse, in local time."""
        if ts is None:
            return None
        return datetime.datetime.fromtimestamp(ts // 10**6).replace(microsecond=ts % 10**6)

    def _identity(self) -> tuple[Any, ...]:
        return (TimestampTypeInfo,)

    def __repr__(self) -> str:
        return "TimestampTypeInfo"


class LocalTimeTypeInfo(TypeInformation):
    """The types of java.time without time zone, to the microsecond."""

    class TimeType(Enum):
        """datetime.date, datetime.time, datetime.datetime."""

        LOCAL_DATE = 0
        LOCAL_TIME = 1
        LOCAL_DATE_TIME = 2

    def __init__(self, time_type: TimeType) -> None:
        self._time_type = time_type

    def _identity(self) -> tuple[Any, ...]:
        return (LocalTimeTypeInfo, self._time_type)

    def __repr__(self) -> str:
        return f"LocalTimeTypeInfo<{self._time_type.name}>"
