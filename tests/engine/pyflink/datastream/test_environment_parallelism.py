"""The parallelism of an environment, and what it comes from."""

import pytest

from penstock.engine.machine.operating_system import cores
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.pyflink.datastream.environment_options import (
    default_local_parallelism,
    set_default_local_parallelism,
)
from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext, use_context
from penstock.operators.common.configuration import Configuration
from tests.engine.pyflink.datastream.helpers import environment


def test_parallelism_of_the_command_wins_over_its_options() -> None:
    with use_context(
        RunContext(settings=EnvironmentSettings(parallelism=7, config={"parallelism.default": "4"}))
    ):
        assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 7
    with use_context(RunContext(settings=EnvironmentSettings(config={"parallelism.default": "4"}))):
        assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 4


def test_parallelism_of_the_configuration_wins() -> None:
    configuration = Configuration()
    configuration.set_integer("parallelism.default", 5)
    with use_context(RunContext(settings=EnvironmentSettings(parallelism=7))):
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
    assert env.get_parallelism() == 5


def test_parallelism_may_be_the_default_again() -> None:
    with use_context(RunContext(settings=EnvironmentSettings(parallelism=7))):
        assert environment(parallelism=3).set_parallelism(-1).get_parallelism() == 7
    assert environment(parallelism=3).set_parallelism(-1).get_parallelism() == cores()
    with pytest.raises(ValueError, match="at least 1"):
        environment().set_parallelism(0)


def test_default_local_parallelism() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    before = env.get_default_local_parallelism()
    try:
        env.set_default_local_parallelism(11)
        assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 11
        assert env.get_parallelism() == before
        with pytest.raises(ValueError, match="at least 1"):
            env.set_default_local_parallelism(0)
    finally:
        set_default_local_parallelism(before)
    assert default_local_parallelism() == cores()
