"""`import penstock` for users of Spark: their frames, their session, with Delta or without."""

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import penstock
from penstock.engine.library import session_topologies
from penstock.engine.library.given_topologies import SparkFrames
from penstock.engine.library.session_topologies import few_rows, read_frames
from penstock.plans.frames.spark_schemas import spark_schema
from tests.engine.library.test_penstock import EVERY_KEY, GIVEN, TWO, rows
from tests.plans.topology.builders import simple

COMPARED = ("topologies", "rejected", "stream_edges")


def collected(plan):
    """Rows of some of the DataFrames, as `compared` gives them of Arrow tables."""
    tables = {name: plan.tables[name] for name in COMPARED}
    return {name: sorted(frame.toArrow().to_pylist(), key=repr) for name, frame in tables.items()}


def compared(plan):
    """Rows of some of the Arrow tables."""
    return {name: rows(plan)[name] for name in COMPARED}


def without_fingerprint(tables):
    for row in tables["topologies"]:
        del row["fingerprint"]
    return tables


def test_frames_and_other_forms_on_spark_give_the_same_rows(spark):
    three = [*GIVEN, simple("wrong", parallelism=-5)]
    expected = without_fingerprint(compared(penstock.plan(three)))
    lines = spark.createDataFrame([(json.dumps(one),) for one in three], "value string")
    schema = "name string, parallelism bigint, max_parallelism smallint, chaining boolean, "
    schema += "config map<string,string>, transformations array<struct<id bigint, kind string, name string, "
    schema += "inputs array<bigint>, managed_memory map<string,bigint>, uid string, parallelism int>>"
    of_rows = lines.select(F.from_json("value", schema).alias("t")).select("t.*")
    for given in (of_rows, json.dumps(three, indent=2)):
        found = penstock.plan(given, spark=spark, until="stream_graph")
        assert (found.inputs, found.planned, found.rejected) == (3, 2, 1)
        assert without_fingerprint(collected(found)) == expected
        found.release()


def test_two_frames_with_integers_of_any_width(spark):
    frames = tuple(spark.createDataFrame(pl.DataFrame(frame).to_arrow()) for frame in TWO)
    topologies = frames[0].withColumn("config", F.expr("map('a.b', 'c')"))
    expected = penstock.plan([{**one, "config": {"a.b": "c"}} for one in GIVEN])
    weights = F.expr("if(managed_memory.OPERATOR is null, null, map('OPERATOR', managed_memory.OPERATOR))")
    for of_ids in ("smallint", "bigint"):
        cast = frames[1].withColumns({"id": F.col("id").cast(of_ids), "managed_memory": weights})
        found = penstock.plan((topologies, cast), planner="columnar", until="stream_graph")
        edges = sorted(found.tables["stream_edges"].toArrow().to_pylist(), key=repr)
        assert edges == rows(expected)["stream_edges"]
    found = penstock.plan((topologies.where("name = 'a'"), cast), planner="process", until="topology")
    (rejected,) = found.tables["rejected"].select("name", "error", "message").collect()
    assert rejected[:2] == ("every", "NoTopology")
    assert "found transformations of topology every; allowed: a name in topologies" in rejected["message"]
    too_large = frames[1].withColumns({"id": F.lit(2**40), "managed_memory": weights})
    with pytest.raises(penstock.SchemaError, match=r"column id: integers exceed the type int"):
        penstock.plan((topologies, too_large))


def test_a_script_is_run_and_its_jobs_show_themselves_shortly(spark, tmp_path, capfd):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "from pyflink.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1, 2]).map(lambda n: n * 10).print()\n"
        "env.execute(sys.argv[1])\n"
    )
    (result,) = penstock.run(script, ["<b>\x1b"], parallelism=1, to=tmp_path / "store")
    assert capfd.readouterr().out.split() == ["10", "20"]
    assert repr(result).startswith("<penstock job <b>\\x1b: FINISHED in")
    assert len(repr(result)) < 200
    assert "<b>" not in result._repr_html_()
    assert len(penstock.open_store(tmp_path / "store").versions) == 1
    for wrong, said in (({"parallelism": 0}, "whole number"), ({"config": {"a": 1}}, "must map a string")):
        with pytest.raises(penstock.ConfigurationError, match=said):
            penstock.run(script, **wrong)
    with pytest.raises(penstock.InputError, match="no such script"):
        penstock.run(tmp_path / "other.py")


def test_what_is_said_of_frames_that_are_not_topologies(spark):
    mixed = [spark.range(1), pl.DataFrame({"a": [1]})]
    for given, said in ((spark.range(1), "got id"), (mixed, "frames of one library")):
        with pytest.raises(penstock.InputError, match=said):
            penstock.plan(given)
    schema = "name string, transformations array<struct<id int, kind string>>, team string"
    team = spark.createDataFrame([("a", [(1, "source")], "t")], schema)
    with pytest.raises(penstock.SchemaError, match="got 'team'"):
        penstock.plan(team)
    wrong_columns: list[Any] = ["team", ["name"], [1]]
    for wrong in wrong_columns:
        with pytest.raises(penstock.ConfigurationError, match="ignore"):
            penstock.plan(team, ignore=wrong)
    with pytest.raises(penstock.InputError, match="column 'cost' is missing"):
        penstock.plan(team, ignore=["cost"])
    with pytest.raises(penstock.ConfigurationError, match="plans in this process"):
        penstock.plan(EVERY_KEY, spark=spark, planner="flink")


def test_names_of_columns_and_fields_are_found_as_spark_finds_them(spark):
    schema = "NAME string, Transformations array<struct<ID int, Kind string, inputs array<int>>>, "
    schema += "Team string, topology string"
    row = ("a", [(1, "source", []), (2, "sink", [1])], "t", "own")
    given = spark.createDataFrame([row], schema)
    planned = penstock.plan(given, ignore=["team", "TOPOLOGY"])
    assert planned.nodes("stream_graph").select("topology", "Team").distinct().collect() == [("a", "t")]
    assert planned.ignored.collect() == [("a", "t", "own")]
    with pytest.raises(penstock.ConfigurationError, match="planned from"):
        penstock.plan(given, ignore=["Name"])
    other = given.drop("Team", "topology").withColumn(
        "transformations",
        F.expr("transform(transformations, t -> named_struct('id', t.id, 'kind', t.kind, 'team', 'x'))"),
    )
    with pytest.raises(penstock.SchemaError, match="names, got 'team'"):
        penstock.plan(other)
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(penstock.InputError, match="got NAME"):
            penstock.plan(given)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_more_rows_than_spark_may_collect_are_not_planned_here(monkeypatch):
    """Spark's workers plan them, and over Spark Connect, or with custom planners, nobody does."""

    def refused():
        raise PySparkException(
            "Job aborted: Total size of serialized results of 1 tasks (80.0 MiB) is bigger "
            "than spark.driver.maxResultSize (64.0 MiB)"
        )

    monkeypatch.setattr(session_topologies, "interpreted", lambda spark: nullcontext())
    frames = [
        SimpleNamespace(
            columns=spark_schema(table).names, schema=spark_schema(table), toArrow=refused, sparkSession=None
        )
        for table in ("topologies", "transformations")
    ]
    for frame in frames:
        frame.limit = lambda rows, frame=frame: frame
    assert few_rows(SparkFrames(frames)) is None
    with pytest.raises(penstock.NotEnoughMemoryError, match=r"more than spark\.driver\.maxResultSize"):
        read_frames(SparkFrames(frames))
