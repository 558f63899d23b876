"""What options of `penstock bench` choose: planners, sizes, a time."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.find_configuration import (
    VARIABLE,
    configuration_directory,
    find_configuration,
)
from penstock.engine.machine.environment_as_before import environment_as_before
from penstock.engine.measure.bench.planners import PLANNERS, planner_named, why_missing
from penstock.engine.planning.plan_options import plan_options
from penstock.plans.errors import ConfigurationError
from penstock.plans.layers import Choices
from penstock.plans.topology.flink_values import parse_duration


def chosen_planners(names: list[str]) -> tuple[list[str], dict[str, str]]:
    """The planners that can run, and why the others cannot."""
    for name in names:
        if name not in PLANNERS:
            _require_own(name)
    wanted = [planner_named(name) for name in names or PLANNERS]
    reasons = {planner.name: why_missing(planner) for planner in wanted}
    missing = {name: reason for name, reason in reasons.items() if reason}
    chosen = [name for name, reason in reasons.items() if not reason]
    if not chosen:
        said = "; ".join(f"{name} is {reason}" for name, reason in missing.items())
        raise ConfigurationError(f"--planner: none of them can run here: {said}")
    return chosen, missing


def _require_own(name: str) -> None:
    """ConfigurationError unless this is a planner of the user's that can be loaded."""
    from penstock.engine.planning.find_custom_planners import find_custom_planners, names_custom_planner

    if not names_custom_planner(name):
        raise ConfigurationError(
            f"--planner {name}: allowed {', '.join(PLANNERS)}, or a planner of your own",
            "package.module:function, or an entry point of the group penstock.planners",
        )
    find_custom_planners(name)


def budget_seconds(budget: str) -> float:
    """The seconds in --budget. Raises ConfigurationError."""
    try:
        seconds = parse_duration(budget) / 1000
    except ValueError as error:
        raise ConfigurationError(f"--budget {budget!r}: {error}", "a time such as 90s or 10m") from None
    if seconds <= 0:
        raise ConfigurationError(f"--budget {budget!r}: allowed more than no time", "such as 90s or 10m")
    return seconds


def listed(values: list[str]) -> list[str]:
    """Values of an option that may be repeated and hold commas, each once; a file's name is taken whole."""
    parts = [part for value in values for part in ([value] if os.path.isfile(value) else value.split(","))]
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


def numbers_of_operators(text: str) -> list[int]:
    """The numbers of operators in --sizes. Raises ConfigurationError."""
    try:
        sizes = [int(part.replace("_", "")) for part in text.split(",") if part.strip()]
    except ValueError:
        sizes = []
    if not sizes or min(sizes) < 2:
        raise ConfigurationError(
            f"--sizes {text!r}: allowed numbers of operators, 2 or more, with commas between"
        )
    return sizes


# The configuration of measured planners: what the command says, in the processes that it starts too.


OPTIONS = "PENSTOCK_BENCH_OPTIONS"
"""The variable that hands -D on; unlike a command line, other users of the machine cannot read it."""


def hand_on(config_dir: str | None, options: Mapping[str, str]) -> EffectiveConfiguration:
    """The configuration of a directory with `options` above it, for child processes too.

    Raises ConfigurationError with all that is wrong.
    """
    if config_dir is not None:
        os.environ[VARIABLE] = str(configuration_directory(config_dir).path.resolve())
    os.environ[OPTIONS] = json.dumps(dict(options))
    return bench_configuration()


@contextmanager
def handed_on(config_dir: str | None, options: Mapping[str, str]) -> Iterator[EffectiveConfiguration]:
    """hand_on for the duration of the context: the environment is the caller's."""
    with environment_as_before(VARIABLE, OPTIONS):
        yield hand_on(config_dir, options)


def bench_configuration() -> EffectiveConfiguration:
    """The configuration that the command has handed on."""
    return find_configuration(None, json.loads(os.environ.get(OPTIONS, "{}")))


@cache
def bench_choices() -> Choices:
    """The cluster that measured planners plan for."""
    return plan_options(cluster=bench_configuration().cluster).choices
