"""One Spark session for all tests, with the test profile of spark-conf; folders of state and cache."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.engine.machine.cache_folder import CACHE_DIR
from penstock.engine.machine.state_folder import STATE_DIR
from penstock.engine.spark.session import get_session
from penstock.engine.spark.spark_conf import spark_conf_dir


@pytest.fixture(scope="session", autouse=True)
def _state_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What outlives a command is not this user's; later runs find the archive of Spark's classes."""
    os.environ[STATE_DIR] = str(tmp_path_factory.mktemp("state"))
    os.environ[CACHE_DIR] = str(Path(__file__).parents[1] / "build" / "cache")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """local[2], 4 shuffle partitions, 2 GiB, Delta; started by the first test that asks for it."""
    os.environ["SPARK_CONF_DIR"] = str(spark_conf_dir() / "test")
    session = get_session(app_name="penstock tests")
    yield session
    session.stop()
