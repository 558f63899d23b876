"""Flink's options in a Configuration, read with their defaults and deprecated keys."""

from collections.abc import Mapping

from penstock.operators.common.configuration import Configuration
from penstock.plans.topology.flink_values import map_text, parse_duration, parse_map


def set_key(configuration: Configuration, key: str, *deprecated: str) -> str | None:
    """The first key of an option that is set: its own, then its deprecated ones."""
    return next(
        (candidate for candidate in (key, *deprecated) if configuration.contains_key(candidate)), None
    )


def get_duration(configuration: Configuration, default: int, key: str, *deprecated: str) -> int:
    """Milliseconds of a duration. ValueError for any other text."""
    used_key = set_key(configuration, key, *deprecated)
    if used_key is None:
        return default
    text = configuration.get_string(used_key, "") or ""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"option {used_key!r}: {text!r} {error}") from error


def set_duration(configuration: Configuration, milliseconds: int, key: str) -> None:
    """Set a duration. TypeError for what is no int."""
    if not isinstance(milliseconds, int) or isinstance(milliseconds, bool):
        raise TypeError(f"option {key!r}: milliseconds are an int, not {milliseconds!r}")
    configuration.set_string(key, f"{milliseconds} ms")


def get_map(configuration: Configuration, key: str) -> dict[str, str]:
    """A map of strings. ValueError for any other text."""
    text = configuration.get_string(key, "") or ""
    try:
        return parse_map(text)
    except ValueError as error:
        raise ValueError(f"option {key!r}: {text!r} {error}") from None


def set_map(configuration: Configuration, values: Mapping[str, str], key: str) -> None:
    """Set a map of strings."""
    configuration.set_string(key, map_text(values))
