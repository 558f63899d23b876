"""Flink's option values from strings, as Flink 2.3 parses them; every parser raises ValueError.

FlinkValueError is raised if Flink's message is not that it could not parse the value.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from penstock.operators.common.configuration import parse_integer
from penstock.operators.common.flink_yaml import as_option_text, load_yaml
from penstock.plans.topology.operator_rules import MAX_PARALLELISM

_JAVA_WHITESPACE = "".join(map(chr, range(33)))
_MAX_LONG = 2**63 - 1
_MAX_INT = 2**31 - 1
_LEADING_NUMBER = re.compile(r"([0-9]*)(.*)", re.DOTALL)
_NANOS = {
    "d": 86_400 * 10**9, "day": 86_400 * 10**9, "days": 86_400 * 10**9,
    "h": 3_600 * 10**9, "hour": 3_600 * 10**9, "hours": 3_600 * 10**9,
    "min": 60 * 10**9, "m": 60 * 10**9, "minute": 60 * 10**9, "minutes": 60 * 10**9,
    "s": 10**9, "sec": 10**9, "secs": 10**9, "second": 10**9, "seconds": 10**9,
    "": 10**6, "ms": 10**6, "milli": 10**6, "millis": 10**6, "millisecond": 10**6, "milliseconds": 10**6,
    "µs": 10**3, "micro": 10**3, "micros": 10**3, "microsecond": 10**3, "microseconds": 10**3,
    "ns": 1, "nano": 1, "nanos": 1, "nanosecond": 1, "nanoseconds": 1,
}  # fmt: skip
_BYTES = {
    "": 1, "b": 1, "bytes": 1,
    "k": 2**10, "kb": 2**10, "kibibytes": 2**10,
    "m": 2**20, "mb": 2**20, "mebibytes": 2**20,
    "g": 2**30, "gb": 2**30, "gibibytes": 2**30,
    "t": 2**40, "tb": 2**40, "tebibytes": 2**40,
}  # fmt: skip
_ISO_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<d>[-+]?\d+)D)?"
    r"(?:T(?:(?P<h>[-+]?\d+)H)?(?:(?P<m>[-+]?\d+)M)?(?:(?P<s>[-+]?\d+)(?:[.,](?P<f>\d{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


class FlinkValueError(ValueError):
    """A value that Flink can parse and then refuses: why, Flink's exception class and its message."""

    def __init__(self, reason: str, error: str, flink_message: str) -> None:
        super().__init__(reason)
        self.error = error
        self.flink_message = flink_message


def parse_duration(value: str) -> int:
    """Whole milliseconds of a Flink duration: "10 s", "100" (ms), "PT1M" (TimeUtils.parseDuration)."""
    trimmed = value.strip(_JAVA_WHITESPACE)
    number, unit = _LEADING_NUMBER.fullmatch(trimmed).groups()  # type: ignore[union-attr]
    nanos = int(number) * _lookup(_NANOS, unit, "time unit") if number else _iso_nanos(trimmed)
    if nanos // 10**9 > _MAX_LONG:
        raise ValueError("does not fit 64 bits of seconds")
    if nanos // 10**6 > _MAX_LONG:
        raise FlinkValueError("does not fit 64 bits of milliseconds", "ArithmeticException", "long overflow")
    return nanos // 10**6


def _iso_nanos(text: str) -> int:
    match = _ISO_DURATION.fullmatch(text)
    parts = match.groupdict() if match else {}
    if not any(parts.get(k) for k in "dhms") or text[-1] in "Tt":
        raise ValueError("neither starts with a number nor is an ISO-8601 duration")
    seconds = sum(int(parts[k] or 0) * n for k, n in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)))
    fraction = int((parts["f"] or "").ljust(9, "0"))
    nanos = seconds * 10**9 + (-fraction if (parts["s"] or "").startswith("-") else fraction)
    nanos = -nanos if parts["sign"] == "-" else nanos
    if nanos < 0:
        raise ValueError("is negative")
    return nanos


def parse_memory_size(value: str) -> int:
    """Bytes of a Flink memory size: "128 mb", "1024" (MemorySize.parse)."""
    number, unit = _LEADING_NUMBER.fullmatch(value.strip(_JAVA_WHITESPACE)).groups()  # type: ignore[union-attr]
    if not number:
        raise ValueError("does not start with a number")
    size = int(number) * _lookup(_BYTES, unit, "memory unit")
    if size > _MAX_LONG:
        raise ValueError("does not fit 64 bits of bytes")
    return size


def _lookup(units: dict[str, int], unit: str, what: str) -> int:
    label = unit.strip(_JAVA_WHITESPACE).lower()
    if label not in units:
        raise ValueError(f"has the unknown {what} {label!r}")
    return units[label]


def parse_boolean(value: str) -> bool:
    """True or false, in any case."""
    if value.upper() not in ("TRUE", "FALSE"):
        raise ValueError("is neither true nor false")
    return value.upper() == "TRUE"


def parse_int(value: str) -> int:
    """A 32-bit integer in decimal, in digits of any script (Integer.parseInt)."""
    number = parse_integer(value)
    if number is None or not -_MAX_INT - 1 <= number <= _MAX_INT:
        raise ValueError("is not a 32-bit integer")
    return number


def parse_max_parallelism(value: str) -> int:
    """A job's max parallelism; 0 and less mean not set (OperatorValidationUtils.validateMaxParallelism)."""
    number = parse_int(value)
    if number > MAX_PARALLELISM:
        message = f"Maximum parallelism must be between 1 and {MAX_PARALLELISM}. Found: {number}"
        raise FlinkValueError(f"is above {MAX_PARALLELISM}", "IllegalArgumentException", message)
    return number


def parse_long(value: str) -> int:
    """A 64-bit integer in decimal, in digits of any script (Long.parseLong)."""
    number = parse_integer(value)
    if number is None or not -_MAX_LONG - 1 <= number <= _MAX_LONG:
        raise ValueError("is not a 64-bit integer")
    return number


def parse_string(value: str) -> str:
    """The string itself."""
    return value


def enum_parser(values: Iterable[str]) -> Callable[[str], str]:
    """A parser of one of `values`, in any case; gives Flink's spelling."""
    by_upper = {v.upper(): str(v) for v in values}

    def parse(value: str) -> str:
        if value.upper() not in by_upper:
            raise ValueError("is not one of them")
        return by_upper[value.upper()]

    return parse


def split_escaped(value: str, delimiter: str) -> list[str]:
    """Parts between delimiters; a part in quotes may hold them, a doubled quote is a quote.

    Two adjacent delimiters have an empty part between them; one at the start or end adds no part.
    Flink: StructuredOptionsSplitter.splitEscaped.
    """
    parts: list[str] = []
    cursor, after_quoted, after_delimiter = 0, False, False
    while cursor < len(value):
        char = value[cursor]
        if char == delimiter:
            if after_delimiter:
                parts.append("")
            after_quoted, after_delimiter = False, True
            cursor += 1
        elif char.isspace():
            cursor += 1
        elif after_quoted:
            raise ValueError(f"Could not split string. Illegal quoting at position: {cursor - 1}")
        elif char in "'\"":
            end = re.compile(f"{char}((?:[^{char}]|{char}{char})*){char}").match(value, cursor)
            if end is None:
                raise ValueError("Could not split string. Quoting was not closed properly.")
            parts.append(end.group(1).replace(char * 2, char))
            cursor, after_quoted, after_delimiter = end.end(), True, False
        else:
            after_delimiter = False
            end_at = value.find(delimiter, cursor)
            end_at = len(value) if end_at < 0 else end_at
            parts.append(value[cursor:end_at].strip(_JAVA_WHITESPACE))
            cursor = end_at
    return parts


# Maps of strings as values of options.
#
# Source: ConfigurationUtils.convertToProperties.


_QUOTED = frozenset("'\",;: ")


def parse_map(text: str) -> dict[str, str]:
    """The entries of "a:1,b:2", or of a map in YAML. Raises ValueError for any other text."""
    if text.lstrip().startswith("{"):
        document = load_yaml(text)
        if isinstance(document, dict):
            return {as_option_text(name): as_option_text(value) for name, value in document.items()}
    pairs = [split_escaped(entry, ":") for entry in split_escaped(text, ",")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("is no list of key:value")
    entries = {pair[0]: pair[1] for pair in pairs}
    if len(entries) < len(pairs):
        raise ValueError("has a key twice")
    return entries


def map_text(values: Mapping[str, str]) -> str:
    """The text that `parse_map` reads back as `values`."""
    entries = (f"{_quoted(name)}:{_quoted(value)}" for name, value in values.items())
    return ",".join(map(_quoted, entries))


def _quoted(text: str) -> str:
    if text and not _QUOTED & set(text) and not text.startswith("{"):
        return text
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
