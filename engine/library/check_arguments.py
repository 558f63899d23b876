"""Arguments of library calls: what is allowed is said of those that are wrong."""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from enum import StrEnum
from numbers import Integral, Real
from typing import Any, TypeVar

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.find_configuration import find_configuration
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.topology.rules import shorten

E = TypeVar("E", bound=StrEnum)


def member(argument: str, value: Any, allowed: type[E]) -> E:
    """A member of an enum, given as itself or as its value. Raises ConfigurationError."""
    if isinstance(value, str):
        with suppress(ValueError):
            return allowed(value)
    return allowed(one_of(argument, value, [str(allowed_member) for allowed_member in allowed]))


def one_of(argument: str, value: Any, allowed: Iterable[str]) -> str:
    """A string that is one of `allowed`. Raises ConfigurationError."""
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        close = get_close_matches(value, names, n=1) if isinstance(value, str) else []
        hint = f"did you mean {close[0]}?" if close else None
        raise ConfigurationError(f"{argument}: found {shorten(value)}, allowed {', '.join(names)}", hint)
    return str(value)


def whole_number(argument: str, value: Any, least: int | None = 1) -> int:
    """An int of at least that much, also one of NumPy. Raises ConfigurationError."""
    is_whole = isinstance(value, Integral)
    if not is_whole or isinstance(value, bool) or (least is not None and value < least):
        allowed = "a whole number" if least is None else f"a whole number from {least}"
        raise ConfigurationError(f"{argument}: found {shorten(value)}, allowed {allowed}")
    return int(value)


def share(argument: str, value: Any) -> float:
    """A number of 0 to 1. Raises ConfigurationError."""
    is_number = isinstance(value, Real)
    if not is_number or isinstance(value, bool) or not 0 <= value <= 1:
        raise ConfigurationError(f"{argument}: found {shorten(value)}, allowed 0 to 1")
    return float(value)


def require_session(spark: Any) -> None:
    """ConfigurationError unless this is a session of Spark, classic or Connect, that has not been stopped."""
    if type(spark).__name__ != "SparkSession" or not type(spark).__module__.startswith("pyspark."):
        raise ConfigurationError(f"spark: found {type(spark).__name__}, allowed a SparkSession")
    from penstock.plans.frames.spark_schemas import has_ended

    if has_ended(spark):
        raise ConfigurationError("spark: found a session that has been stopped, or has ended")


def text(argument: str, value: Any, example: str) -> str:
    """A string. Raises ConfigurationError."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument}: found {shorten(value)}, allowed a string such as {example!r}")
    return value


def path(argument: str, value: Any) -> str:
    """A path, as a string. Raises ConfigurationError."""
    from os import PathLike, fspath

    if not isinstance(value, str | PathLike) or not isinstance(fspath(value), str) or not fspath(value):
        raise ConfigurationError(
            f"{argument}: found {shorten(value)}, allowed a path: a string or pathlib.Path"
        )
    return fspath(value)


def strings(argument: str, values: Mapping[str, str] | None) -> dict[str, str]:
    """A map of strings. Raises ConfigurationError."""
    texts = dict(values or {})
    wrong = [key for key, value in texts.items() if not isinstance(key, str) or not isinstance(value, str)]
    if wrong:
        raise ConfigurationError(f"{argument}: {wrong[0]!r}: allowed strings only", 'write "true" or "10 s"')
    return texts


def seconds(argument: str, value: Any) -> float:
    """A number of seconds above 0. Raises ConfigurationError."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise ConfigurationError(f"{argument}: found {shorten(value)}, allowed seconds above 0")
    return float(value)


_OPTIONS = {
    "--planner": "planner",
    "--costs": "costs",
    "--suite": "suites",
    "--time-limit": "time_limit",
    "--depends": "depends",
    "--out": "out",
}


@contextmanager
def arguments_of_call() -> Iterator[None]:
    """Reword errors about a command's options as errors about arguments of the call."""
    try:
        yield
    except (ConfigurationError, InputError) as error:
        said = error.message
        for option, argument in _OPTIONS.items():
            said = said.replace(f"{option} ", f"{argument} ").replace(f"{option}:", f"{argument}:")
        raise type(error)(said, error.hint) from error


# The configuration of a library call.


Config = Mapping[str, str] | str | os.PathLike[str] | None
"""Options by key, or a directory of YAML files."""


def library_configuration(config: Config) -> EffectiveConfiguration:
    """The configuration that `config` gives.

    A map of options is over the files of PENSTOCK_CONF_DIR, as -D is in a command; a path is of a directory
    of YAML files, as --config-dir. Raises ConfigurationError with all that is wrong.
    """
    if config is None or isinstance(config, Mapping):
        return find_configuration(None, strings("config", config), "config")
    return find_configuration(path("config", config))


# The store that a library call writes to, looked at before it is written.


def require_store(store: str) -> None:
    """As engine.store.require_target; warns of what was repaired."""
    from penstock.engine.store.require_target import require_target

    for repaired in require_target(store):
        warnings.warn(repaired, stacklevel=3)
