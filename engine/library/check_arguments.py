"""Validate arguments of library calls."""

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
    """Return a member of an enum, given as itself or as its value. Raises ConfigurationError."""
    if isinstance(value, str):
        with suppress(ValueError):
            return allowed(value)
    return allowed(one_of(argument, value, [str(allowed_member) for allowed_member in allowed]))


def one_of(argument: str, value: Any, allowed: Iterable[str]) -> str:
    """Return a string that is one of `allowed`. Raises ConfigurationError."""
    names = list(allowed)
    if not isinstance(value, str) or value not in names:
        close = get_close_matches(value, names, n=1) if isinstance(value, str) else []
        hint = f"did you mean {close[0]}?" if close else None
        raise ConfigurationError(f"{argument} must be one of {', '.join(names)}, got {shorten(value)}", hint)
    return str(value)


def whole_number(argument: str, value: Any, least: int | None = 1) -> int:
    """Return an int of at least `least`, NumPy's included. Raises ConfigurationError."""
    is_whole = isinstance(value, Integral)
    if not is_whole or isinstance(value, bool) or (least is not None and value < least):
        allowed = "a whole number" if least is None else f"a whole number from {least}"
        raise ConfigurationError(f"{argument} must be {allowed}, got {shorten(value)}")
    return int(value)


def share(argument: str, value: Any) -> float:
    """Return a number from 0 to 1. Raises ConfigurationError."""
    is_number = isinstance(value, Real)
    if not is_number or isinstance(value, bool) or not 0 <= value <= 1:
        raise ConfigurationError(f"{argument} must be 0 to 1, got {shorten(value)}")
    return float(value)


def require_session(spark: Any) -> None:
    """Raise ConfigurationError unless this is a running session of Spark, classic or Connect."""
    if type(spark).__name__ != "SparkSession" or not type(spark).__module__.startswith("pyspark."):
        raise ConfigurationError(f"spark must be a SparkSession, got {type(spark).__name__}")
    from penstock.plans.frames.spark_schemas import has_ended

    if has_ended(spark):
        raise ConfigurationError(
            "spark must be a running session, got one that has been stopped, or has ended"
        )


def text(argument: str, value: Any, example: str) -> str:
    """Return a string. Raises ConfigurationError."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{argument} must be a string such as {example!r}, got {shorten(value)}")
    return value


def path(argument: str, value: Any) -> str:
    """Return a path as a string. Raises ConfigurationError."""
    from os import PathLike, fspath

    if not isinstance(value, str | PathLike) or not isinstance(fspath(value), str) or not fspath(value):
        raise ConfigurationError(
            f"{argument} must be a path (a string or pathlib.Path), got {shorten(value)}"
        )
    return fspath(value)


def strings(argument: str, values: Mapping[str, str] | None) -> dict[str, str]:
    """Return a map of strings. Raises ConfigurationError."""
    texts = dict(values or {})
    wrong = [key for key, value in texts.items() if not isinstance(key, str) or not isinstance(value, str)]
    if wrong:
        raise ConfigurationError(
            f"{argument}: {wrong[0]!r} must map a string to a string", 'write "true" or "10 s"'
        )
    return texts


def seconds(argument: str, value: Any) -> float:
    """Return a number of seconds above 0. Raises ConfigurationError."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not value > 0:
        raise ConfigurationError(f"{argument} must be seconds above 0, got {shorten(value)}")
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
        message = error.message
        for option, argument in _OPTIONS.items():
            message = message.replace(f"{option} ", f"{argument} ").replace(f"{option}:", f"{argument}:")
        raise type(error)(message, error.hint) from error


# The configuration of a library call.


Config = Mapping[str, str] | str | os.PathLike[str] | None
"""Options by key, or a directory of YAML files."""


def library_configuration(config: Config) -> EffectiveConfiguration:
    """Return the configuration of `config`.

    A map of options wins over the files of PENSTOCK_CONF_DIR, like -D of a command; a path is a directory
    of YAML files, like --config-dir. Raises ConfigurationError with all problems.
    """
    if config is None or isinstance(config, Mapping):
        return find_configuration(None, strings("config", config), "config")
    if not isinstance(config, str | os.PathLike):
        raise ConfigurationError(f"config must be a mapping or directory, got {shorten(config)}")
    return find_configuration(path("config", config))


# Check the target store of a library call before work starts.


def require_store(store: str) -> None:
    """Check a target store by engine.store.write_plan.require_target, and warn about repairs."""
    from penstock.engine.store.write_plan import require_target

    for repaired in require_target(store):
        warnings.warn(repaired, stacklevel=3)
