"""Spark's settings while jobs run."""

from types import SimpleNamespace
from typing import Any

from penstock.engine.run.runtime.run_settings import spark_settings_for_runs


class Settings(dict[str, str]):
    """Stands for the settings of a SparkSession."""

    set = dict.__setitem__
    unset = dict.__delitem__


def test_settings_of_runs_that_overlap_are_put_back():
    settings = Settings({"spark.sql.adaptive.enabled": "true"})
    spark: Any = SimpleNamespace(conf=settings, session_id="one")
    one, other = spark_settings_for_runs(spark), spark_settings_for_runs(spark)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert settings["spark.sql.adaptive.enabled"] == "false"
    other.__exit__(None, None, None)
    assert settings == {"spark.sql.adaptive.enabled": "true"}


def test_runs_of_two_sessions_have_settings_of_their_own():
    first, second = (Settings({"spark.sql.adaptive.enabled": "true"}) for _ in range(2))
    sessions: list[Any] = [
        SimpleNamespace(conf=settings, session_id=name) for name, settings in (("1", first), ("2", second))
    ]
    with spark_settings_for_runs(sessions[0]), spark_settings_for_runs(sessions[1]):
        assert first["spark.sql.adaptive.enabled"] == second["spark.sql.adaptive.enabled"] == "false"
    assert first["spark.sql.adaptive.enabled"] == second["spark.sql.adaptive.enabled"] == "true"
