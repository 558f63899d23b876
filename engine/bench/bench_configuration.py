"""The configuration of measured planners: what the command says, in the processes that it starts too."""

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
from penstock.engine.planning.plan_options import plan_options
from penstock.plans.layers import Choices

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
    """As hand_on, for as long as the context: the environment is the caller's."""
    with environment_as_before(VARIABLE, OPTIONS):
        yield hand_on(config_dir, options)


def bench_configuration() -> EffectiveConfiguration:
    """What the command has handed on."""
    return find_configuration(None, json.loads(os.environ.get(OPTIONS, "{}")))


@cache
def bench_choices() -> Choices:
    """The cluster that measured planners plan for."""
    return plan_options(cluster=bench_configuration().cluster).choices
