"""Times as text by a pattern of Java's DateTimeFormatter.

Source: java.time.format.DateTimeFormatterBuilder.appendPattern and java.time.ZoneId.of, with English names.
"""

import datetime
import re
from collections.abc import Callable
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

Part = Callable[[datetime.datetime], str]

_TOKEN = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z'\[\]{}#]+)")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?")


class JavaDateFormat:
    """A pattern of the letters y u M L d D E a H h K k m s S z Z X x, and VV; quotes as in Java.

    ValueError for other letters or widths, and for unknown time zones; None is the machine's own zone.
    """

    def __init__(self, pattern: str, timezone_id: str | None = None) -> None:
        self.pattern, self.timezone_id = pattern, timezone_id
        _parts(pattern)
        _zone(timezone_id)

    def text(self, milliseconds: int) -> str:
        """The time that many milliseconds after the epoch."""
        moment = datetime.datetime.fromtimestamp(milliseconds // 1000, datetime.UTC)
        moment = moment.astimezone(_zone(self.timezone_id)).replace(microsecond=milliseconds % 1000 * 1000)
        return "".join(part(moment) for part in _parts(self.pattern))


def _zone(name: str | None) -> datetime.tzinfo | None:
    if name is None:
        return None
    if name in ("Z", "UTC", "GMT", "UT"):
        return datetime.UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        behind = datetime.timedelta(hours=int(hours), minutes=int(minutes or 0))
        return datetime.timezone(-behind if sign == "-" else behind, name)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"time zone {name!r} is unknown") from error


def _parts(pattern: str) -> list[Part]:
    parts: list[Part] = []
    place = 0
    while place < len(pattern):
        token = _TOKEN.match(pattern, place)
        if token is None:
            raise ValueError(f"pattern {pattern!r}: {pattern[place]!r} is not supported")
        quoted, letters, letter, plain = token.groups()
        if letters:
            parts.append(_part(letter, len(letters), pattern))
        else:
            parts.append(_literal(plain or (quoted or "").replace("''", "'") or "'"))
        place = token.end()
    return parts


def _literal(text: str) -> Part:
    return lambda moment: text


def _part(letter: str, width: int, pattern: str) -> Part:
    if letter in _NUMBERS and width <= (3 if letter == "D" else 2):
        number = _NUMBERS[letter]
        return lambda moment: f"{number(moment):0{width}d}"
    if letter in "yu":
        return lambda moment: f"{moment.year % 100:02d}" if width == 2 else f"{moment.year:0{width}d}"
    if letter == "S" and width <= 9:
        return lambda moment: f"{moment.microsecond:06d}000"[:width]
    named = {"M": "%b%B", "L": "%b%B", "E": "%a%A", "a": "%p"}.get(letter)
    if named is not None and (letter != "a" or width == 1):
        if width == 4:
            return lambda moment: moment.strftime(named[2:])
        cut = 1 if width == 5 else None
        if width <= 5 and (letter in "Ea" or width >= 3):
            return lambda moment: moment.strftime(named[:2])[:cut]
    if letter == "z" and width <= 3:
        return lambda moment: moment.tzname() or ""
    if letter == "V" and width == 2:
        return lambda moment: str(moment.tzinfo)
    if letter in "ZXx" and width <= 3:
        return lambda moment: _offset(moment, letter, width)
    raise ValueError(f"pattern {pattern!r}: {letter * width!r} is not supported")


def _offset(moment: datetime.datetime, letter: str, width: int) -> str:
    minutes = (moment.utcoffset() or datetime.timedelta()) // datetime.timedelta(minutes=1)
    if letter == "X" and not minutes:
        return "Z"
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    if letter == "Z":
        return f"{sign}{hours:02d}{rest:02d}"
    if width == 1:
        return f"{sign}{hours:02d}{f'{rest:02d}' if rest else ''}"
    return f"{sign}{hours:02d}{':' if width == 3 else ''}{rest:02d}"


_NUMBERS: dict[str, Callable[[datetime.datetime], int]] = {
    "M": lambda moment: moment.month,
    "L": lambda moment: moment.month,
    "d": lambda moment: moment.day,
    "D": lambda moment: moment.timetuple().tm_yday,
    "H": lambda moment: moment.hour,
    "k": lambda moment: moment.hour or 24,
    "h": lambda moment: moment.hour % 12 or 12,
    "K": lambda moment: moment.hour % 12,
    "m": lambda moment: moment.minute,
    "s": lambda moment: moment.second,
}
