"""An environment for jobs that run in this process."""

import pytest

from penstock.engine.pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment


@pytest.fixture
def env():
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(1)
    environment.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    return environment
