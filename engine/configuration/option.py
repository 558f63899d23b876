"""What one option is: its key, how its text is read, its default, and what it is for."""

from collections.abc import Callable, Mapping
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

from penstock.plans.topology.flink_options import FlinkOption
from penstock.plans.topology.flink_values import parse_duration, parse_map

A_MEMORY_SIZE = "a memory size such as 128 mb"
A_DURATION = "a duration such as 100 ms, 10 s or PT1M"

_SIZES = ((2**40, "tb"), (2**30, "gb"), (2**20, "mb"), (2**10, "kb"))
_MAX_LONG = 2**63 - 1


class Reader(StrEnum):
    """Who reads an option."""

    JOBS = "planning, for every job that does not set it"
    CLUSTER = "planning, of the cluster"
    RUNS = "running"


class Option(NamedTuple):
    """One option. `parse` raises ValueError; `default` is parsed; `values` are the names of an enum.

    `is_map`: its value is a map, whose entries may also be set one by one, each under `key.NAME`.
    """

    key: str
    parse: Callable[[str], Any]
    default: Any
    allowed: str
    meaning: str
    reader: Reader
    deprecated: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    is_map: bool = False

    @property
    def field(self) -> str:
        """Its name as a field of the model."""
        return self.key.replace(".", "_").replace("-", "_").lower()


def flink_option(option: FlinkOption, meaning: str, reader: Reader) -> Option:
    """An option that planning defines."""
    return Option(
        option.key,
        option.parse,
        option.default,
        option.allowed,
        meaning,
        reader,
        option.deprecated,
        option.values,
        is_map=option.parse is parse_map,
    )


def option_text(option: Option, value: Any) -> str:
    """A parsed value as it is written in a file; "none" for None."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {entry}" for name, entry in value.items()) or "none"
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    return size_text(value) if option.allowed == A_MEMORY_SIZE else _other_text(option, value)


def _other_text(option: Option, value: Any) -> str:
    return f"{value} ms" if option.parse is parse_duration else str(value)


def size_text(size: int) -> str:
    """A memory size in the largest unit that divides it, as Flink reads it; the largest is "no limit"."""
    if size == _MAX_LONG:
        return "no limit"
    return next((f"{size // unit} {name}" for unit, name in _SIZES if size and size % unit == 0), f"{size} b")


# One key as it was set: its text, and where.


class Level(IntEnum):
    """Where a setting comes from; a higher one wins."""

    PROPERTIES = 1  #: spark-defaults.conf
    FILE = 2  #: a YAML file of the directory
    DEFINE = 3  #: -D key=value, or `config` of a library call
    ENVIRONMENT = 4  #: an environment variable


class Setting(NamedTuple):
    """A key (as it was written), its text, and where it is: "conf/a.yaml:3", "-D", "PENSTOCK_JARS".

    `is_list`: the text is a list in YAML.
    """

    key: str
    text: str
    level: Level
    place: str
    is_list: bool = False
