"""Spark's settings while jobs run."""

from types import SimpleNamespace
from typing import Any

from engine.runtime.run_settings import spark_settings_for_runs


class Settings(dict[str, str]):
    """Stands for the settings of a SparkSession."""

    set = dict.__setitem__
    unset = dict.__delitem__


def test_settings_of_runs_that_overlap_are_put_back():
    settings = Settings({"spark.sql.adaptive.enabled": "true"})
    spark: Any = SimpleNamespace(conf=settings)
    one, other = spark_settings_for_runs(spark), spark_settings_for_runs(spark)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert settings["spark.sql.adaptive.enabled"] == "false"
    other.__exit__(None, None, None)
    assert settings == {"spark.sql.adaptive.enabled": "true"}
