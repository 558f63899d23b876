"""Dates and times in CSV messages.

Source: org.apache.flink.formats.common.TimeFormats, java.sql.{Date,Time,Timestamp}.
"""

import datetime
import re
from collections.abc import Callable
from typing import Any

from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import (
    DateTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
    Types,
)
from penstock.operators.formats.java_text import java_timestamp

Parse = Callable[[str], Any]
Write = Callable[[Any], str]

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z?)")
_LOCAL = LocalTimeTypeInfo.TimeType


def time_kind(type_info: TypeInformation) -> object:
    """The key of a type of dates and times in TIME_PARSERS and TIME_TEXTS; of no meaning for other types."""
    if isinstance(type_info, LocalTimeTypeInfo):
        return type_info._time_type
    return "instant" if type_info == Types.INSTANT() else type(type_info)


def _moment(text: str, zone: str) -> tuple[datetime.datetime, int]:
    match = _MOMENT.fullmatch(text.strip())
    if match is None or match[3] != zone:
        raise ValueError(f"{text!r} is no moment like 2024-01-02 03:04:05.678{zone}")
    return datetime.datetime.fromisoformat(match[1]), int((match[2] or "0").ljust(9, "0"))


def _timestamp(text: str) -> datetime.datetime:
    moment, nanos = _moment(text, "")
    return moment.replace(microsecond=nanos // 1000)


def _instant(text: str) -> Instant:
    moment, nanos = _moment(text, "Z")
    return Instant(int(moment.replace(tzinfo=datetime.UTC).timestamp()), nanos)


def _fraction(nanos: int) -> str:
    return f".{nanos:09d}".rstrip("0") if nanos else ""


def _instant_text(value: Instant) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value.seconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}{_fraction(value.nanos)}Z"


#: What makes values from texts, by `time_kind`; they raise ValueError.
TIME_PARSERS: dict[object, Parse] = {
    DateTypeInfo: datetime.date.fromisoformat,
    TimeTypeInfo: datetime.time.fromisoformat,
    TimestampTypeInfo: _timestamp,
    _LOCAL.LOCAL_DATE: datetime.date.fromisoformat,
    _LOCAL.LOCAL_TIME: datetime.time.fromisoformat,
    _LOCAL.LOCAL_DATE_TIME: _timestamp,
    "instant": _instant,
}
#: What makes texts from values, by `time_kind`.
TIME_TEXTS: dict[object, Write] = {
    DateTypeInfo: str,
    TimeTypeInfo: lambda value: f"{value:%H:%M:%S}",
    TimestampTypeInfo: java_timestamp,
    _LOCAL.LOCAL_DATE: str,
    _LOCAL.LOCAL_TIME: str,
    _LOCAL.LOCAL_DATE_TIME: lambda value: f"{value:%Y-%m-%d %H:%M:%S}{_fraction(value.microsecond * 1000)}",
    "instant": _instant_text,
}
