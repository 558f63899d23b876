"""Tables for passes, under the settings that planning runs with."""

from collections.abc import Iterator
from functools import partial

import pytest
from pyspark.sql import SparkSession

from engine.planning.planning_settings import planning_settings
from tests.passes.frames import Make, make_frame


@pytest.fixture(scope="module")
def make(spark: SparkSession) -> Iterator[Make]:
    """`make_frame` without its first argument."""
    with planning_settings(spark, 2):
        yield partial(make_frame, spark)
