"""Flink's options in a Configuration, read with their defaults and deprecated keys."""

from collections.abc import Mapping

from operators.common.configuration import Configuration
from plans.topology.flink_values import parse_duration, split_escaped

_QUOTED = frozenset("'\",;: ")


def set_key(configuration: Configuration, key: str, *deprecated: str) -> str | None:
    """Of the key and the deprecated keys of an option, the first that is set."""
    return next((one for one in (key, *deprecated) if configuration.contains_key(one)), None)


def get_duration(configuration: Configuration, default: int, key: str, *deprecated: str) -> int:
    """Milliseconds of a duration. ValueError for any other text."""
    found = set_key(configuration, key, *deprecated)
    if found is None:
        return default
    text = configuration.get_string(found, "") or ""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"option {found!r}: {text!r} {error}") from error


def set_duration(configuration: Configuration, milliseconds: int, key: str) -> None:
    """Set a duration. TypeError for what is no int."""
    if not isinstance(milliseconds, int) or isinstance(milliseconds, bool):
        raise TypeError(f"option {key!r}: milliseconds are an int, not {milliseconds!r}")
    configuration.set_string(key, f"{milliseconds} ms")


def get_map(configuration: Configuration, key: str) -> dict[str, str]:
    """A map of strings. ValueError for any other text."""
    text = configuration.get_string(key, "") or ""
    pairs = [split_escaped(entry, ":") for entry in split_escaped(text, ",")]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"option {key!r}: {text!r} is no list of key:value")
    return {pair[0]: pair[1] for pair in pairs}


def set_map(configuration: Configuration, values: Mapping[str, str], key: str) -> None:
    """Set a map of strings."""
    entries = (f"{_quoted(name)}:{_quoted(value)}" for name, value in values.items())
    configuration.set_string(key, ",".join(map(_quoted, entries)))


def _quoted(text: str) -> str:
    if text and not _QUOTED & set(text):
        return text
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
