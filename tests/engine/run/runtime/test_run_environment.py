"""Spark's settings while jobs run."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.run.runtime.run_environment import spark_settings_for_runs


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


def _batch_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"rows": pa.array([batch.num_rows], pa.int64())})


def test_batches_of_a_dataframe_have_many_rows_unless_the_rows_are_large(spark):
    def sizes(rows):
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        counted = env.from_dataframe(rows).map_batches(_batch_rows, pa.schema([pa.field("rows", pa.int64())]))
        return sorted(row.rows for row in counted.execute_and_collect())

    assert sizes(spark.range(0, 20_000, 1, 1)) == [10_000, 10_000]
    large = sizes(spark.range(0, 80, 1, 1).selectExpr("repeat('x', 1048576) as text"))
    assert sum(large) == 80
    assert 30 <= max(large) <= 36
