"""Topologies within Spark's own streams."""

import json
import os
import re
from contextlib import suppress
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from typer.testing import CliRunner

import penstock
from penstock.common import Row, Types
from penstock.connectors import DeltaSink, JsonLinesSink
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.engine.commands.main import app
from penstock.engine.machine.folders import STATE_DIR
from penstock.engine.run.commits import commit_run
from penstock.engine.run.streams import run_batch
from penstock.plans.errors import JobCompileError
from tests.engine.run.streams.batches_in_process import lines
from tests.engine.run.streams.test_batches_of_streams import (
    CLICKS,
    COUNT,
    COUNTS,
    FACTORS,
    WINDOWS,
    Count,
    Priced,
    counts_and_windows,
)

SCHEMA = "user string, amount int, at long"


class FailedCommit(Exception):
    pass


def test_a_query_that_fails_within_a_commit_goes_on(spark, tmp_path, monkeypatch):
    folder, files = tmp_path / "out", tmp_path / "in"
    files.mkdir()
    for number, rows in enumerate((CLICKS[:2], CLICKS[2:3], CLICKS[3:6], CLICKS[6:])):
        names = ("user", "amount", "at")
        text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
        (files / f"{number}.json").write_text(text)
        os.utime(files / f"{number}.json", (1_700_000_000 + number,) * 2)  # Spark reads the oldest first
    clicks = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(files))

    def run(build: Any, **settings: Any) -> None:
        function = penstock.foreach_batch(
            build,
            state=folder / "state",
            key="user",
            event_time="at",
            watermark="2 seconds",
            parallelism=2,
            **settings,
        )
        writer = clicks.writeStream.trigger(availableNow=True).foreachBatch(function)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    build = counts_and_windows(folder)
    commits: list[str] = []
    write = commit_run.write

    def fail_once(run_: Any, name: str, value: Any = True) -> bool:
        if name == "attempt-0":
            commits.append(name)
            if len(commits) == 3:
                raise FailedCommit
        return write(run_, name, value)

    with monkeypatch.context() as patched:
        patched.setattr(commit_run, "write", fail_once)
        patched.setattr(run_batch, "undo_run", lambda opened: None)
        with pytest.raises(StreamingQueryException, match="FailedCommit"):
            run(build)
    assert len(lines(folder / "counts")) == 3
    run(build)
    assert lines(folder / "counts") == COUNTS
    assert lines(folder / "windows") == WINDOWS
    assert run_batch.last_manifest(str(folder / "state"))["batch_id"] == 3  # type: ignore[index]

    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    with pytest.raises(StreamingQueryException, match="may read the same rows again"):
        run(build)


def test_keyed_state_of_one_batch_is_refused(spark, tmp_path):
    def streamed(clicks):
        return clicks.process(Count(), COUNT)

    clicks = spark.createDataFrame(CLICKS, SCHEMA)
    spark.sparkContext.setLocalProperty("sql.streaming.queryId", "q")
    try:
        with pytest.raises(JobCompileError, match="'KEYED PROCESS' has keyed state"):
            penstock.transform(clicks, streamed, key="user")
        env = StreamExecutionEnvironment.get_execution_environment()
        streamed(env.from_dataframe(clicks, key="user")).print()
        with pytest.raises(JobCompileError, match="state=PATH"):
            env.execute()
        penstock.transform(clicks, streamed, key="user", mode="BATCH")
        with pytest.raises(JobCompileError, match="'Co-Process-Broadcast' has broadcast state"):
            penstock.transform(
                clicks, lambda rows: rows.connect(rows.broadcast(FACTORS)).process(Priced(), COUNT)
            )
    finally:
        spark.sparkContext.setLocalProperty("sql.streaming.queryId", None)
    with pytest.raises(TypeError, match="foreach_batch"):
        penstock.transform(spark.readStream.format("rate").load(), streamed)


def test_rows_go_into_a_table_and_a_dataframe(spark, tmp_path):
    taken: list[tuple[int, list[Any]]] = []

    def build(clicks):
        named = Types.ROW_NAMED(["user", "count"], [Types.STRING(), Types.LONG()])
        counts = clicks.process(Count(), COUNT).map(lambda count: Row(*count), named)
        counts.sink_to(DeltaSink(str(tmp_path / "table"), named))
        return counts

    def into(df, batch_id):
        assert df.schema.simpleString() == "struct<user:string,count:bigint>"
        taken.append((batch_id, sorted(map(tuple, df.collect()))))

    function = penstock.foreach_batch(
        build, state=str(tmp_path / "state"), key="user", event_time="at", into=into, parallelism=2
    )
    for number, rows in enumerate((CLICKS[:3], CLICKS[3:5])):
        function(spark.createDataFrame(rows, SCHEMA), number)
    assert taken == [
        (0, [("ann", 1), ("ann", 2), ("bob", 1)]),
        (1, [("ann", 3), ("bob", 2)]),
    ]
    table = spark.read.format("delta").load(str(tmp_path / "table"))
    assert sorted(map(tuple, table.collect())) == sorted(taken[0][1] + taken[1][1])
    function(spark.createDataFrame(CLICKS[3:5], SCHEMA), 1)
    assert len(taken) == 2
    function(spark.createDataFrame([], SCHEMA), 2)
    function(spark.createDataFrame(CLICKS[:1], SCHEMA), 3)
    assert taken[2:] == [(2, []), (3, [("ann", 4)])]


def test_a_failed_batch_names_operator_and_record_and_leaves_the_state(spark, tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "own"))
    (tmp_path / "in").mkdir()

    def arrive(number: int, *rows: Any) -> None:
        lines_of_file = [json.dumps(dict(zip(("user", "amount", "at"), row, strict=True))) for row in rows]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(lines_of_file))
        os.utime(tmp_path / "in" / f"{number}.json", (1_700_000_000 + number,) * 2)

    class Positive(KeyedProcessFunction):
        def process_element(self, click, ctx):
            if click.amount < 0:
                raise ValueError(f"amount \x1b[31m{click.amount}")
            yield from self.count.process_element(click, ctx)

        def open(self, runtime_context):
            self.count = Count()
            self.count.open(runtime_context)

    def build(clicks):
        counted = clicks.process(Positive(), COUNT).name("positive").uid("positive")
        counted.sink_to(JsonLinesSink(str(tmp_path / "counts")))

    def run(function: Any) -> Any:
        clicks = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
        writer = clicks.writeStream.trigger(availableNow=True).foreachBatch(function)
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        with suppress(StreamingQueryException):
            query.awaitTermination()
        return query

    def listed() -> dict[str, str]:
        names, row = (
            line.split("\t") for line in CliRunner().invoke(app, ["list", "--streams"]).stdout.splitlines()
        )
        return dict(zip(names, row, strict=True))

    settings: dict[str, Any] = {"key": "user", "event_time": "at", "parallelism": 2, "name": "clicks"}
    function = penstock.foreach_batch(build, state=tmp_path / "state", **settings)
    arrive(0, *CLICKS[:2])
    arrive(1, CLICKS[2], ("eve", -1, 6000))
    query = run(function)
    message = str(query.exception())
    ours = message[message.index("JobExecutionError") :].partition("\n\n")[0]
    assert re.search(r"job 'clicks' failed in operator 'positive' of vertex '.*', subtask [12] of 2", ours)
    assert r"ValueError: amount \x1b[31m-1" in ours
    assert "record: Row(user='eve', amount=-1, at=6000)" in ours
    assert not re.search(r"\x1b|at (org|scala|java|py4j)\.", ours)
    assert lines(tmp_path / "counts") == [["ann", 1], ["bob", 1]]
    assert penstock.open_state(tmp_path / "state").version == 1
    row = listed()
    assert (row["job"], row["state"], row["batches"], row["rows"]) == ("clicks", "FAILED", "1", "2")
    assert (row["query"], row["watermark"]) == (query.id[:12], "1970-01-01T00:00:00.999Z")
    (first,) = function.recentProgress
    assert (first["batchId"], first["numInputRows"], first["id"]) == (0, 2, query.id)

    (tmp_path / "in" / "1.json").write_text("")
    arrive(2, CLICKS[2])
    function = penstock.foreach_batch(build, state=tmp_path / "state", **settings)
    assert run(function).exception() is None
    assert lines(tmp_path / "counts") == [["ann", 1], ["ann", 2], ["bob", 1]]
    progress: Any = function.lastProgress
    assert {"queryPlanning", "addBatch", "commitBatch", "triggerExecution"} == progress["durationMs"].keys()
    (operator,) = progress["stateOperators"]
    assert [operator[name] for name in ("operatorName", "uid")] == ["positive", "positive"]
    assert operator["customMetrics"]["stateBytes"] == progress["stateBytes"] > 0
    assert listed()["state"] == "RUNNING"
    batches = penstock.open_state(tmp_path / "state").batches()
    assert batches["batch_id"].to_pylist() == [0, 1, 2]
    assert batches["rows"].to_pylist() == [2, 0, 1]


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import penstock
from penstock.connectors import JsonLinesSink
from pyspark.sql import SparkSession
from tests.engine.run.streams.test_batches_of_streams import COUNT, Count

def build(clicks):
    counted = clicks.process(Count(), COUNT).uid({uid!r})
    {more}
    counted.sink_to(JsonLinesSink("counts"))

spark = SparkSession.builder.getOrCreate()
clicks = spark.readStream.schema({schema!r}).json({folder!r})
function = penstock.foreach_batch(build, state={state!r}, key="user", parallelism={parallelism})
writer = clicks.writeStream.option("checkpointLocation", {checkpoint!r})
query = writer.queryName("clicks").foreachBatch(function).trigger(availableNow=True).start()
query.awaitTermination()
print(query.lastProgress)
spark.streams.awaitAnyTermination()
"""


def test_diff_gives_the_answer_of_the_first_batch(spark, tmp_path):
    (tmp_path / "in").mkdir()

    def script(name: str, uid: str = "count", more: str = "", parallelism: int = 2) -> str:
        file = tmp_path / f"{name}.py"
        given = {"uid": uid, "more": more, "parallelism": parallelism, "schema": SCHEMA}
        folders = {name: str(tmp_path / name) for name in ("state", "checkpoint")}
        file.write_text(SCRIPT.format(tests=os.getcwd(), folder=str(tmp_path / "in"), **given, **folders))
        return str(file)

    def build(uid: str, most: int | None = None) -> Any:
        def built(clicks):
            counted = clicks.process(Count(), COUNT).uid(uid)
            if most is not None:
                counted.set_max_parallelism(most)
            counted.sink_to(JsonLinesSink(str(tmp_path / "counts")))

        return built

    def call(*arguments: str, exit_code: int = 0) -> str:
        called = CliRunner().invoke(app, list(arguments))
        assert called.exit_code == exit_code, called.output
        return called.stdout

    state = str(tmp_path / "state")
    old = script("old")
    penstock.foreach_batch(build("count"), state=state, key="user", parallelism=2)(
        spark.createDataFrame(CLICKS[:3], SCHEMA), 0
    )
    wider, other = script("wider", parallelism=3), script("other", uid="other")
    refused = script("refused", more="counted.set_max_parallelism(256)")
    texts = {name: call("diff", old, name) for name in (wider, other, refused)}
    assert "savepoints: 1 restored\n" in texts[wider]
    assert "savepoints: 1 restored only with --allow-non-restored-state" in texts[other]
    assert "savepoints: 1 refused" in texts[refused]
    assert "restored\nKEYED PROCESS" not in texts[wider]

    kept = call("state", "diff", state, wider, "--require", "restores")
    assert "kept, its key groups go from 2 to 3 subtasks" in kept
    gone = call("state", "diff", state, other, "--require", "restores", exit_code=6)
    assert "restored only with --allow-non-restored-state" in gone
    assert "begins empty" in gone
    assert "lost: no operator has the id" in gone
    wrong = call("state", "diff", state, refused, "--require", "allow-non-restored", exit_code=6)
    assert "max parallelism 128 to new program with max parallelism 256" in wrong

    assert not (tmp_path / "checkpoint").exists()
    for built, message in ((build("other"), "is not available in the new"), (build("count", 256), "256")):
        with pytest.raises(JobCompileError, match=message):
            penstock.foreach_batch(built, state=state, key="user", parallelism=2)(
                spark.createDataFrame(CLICKS[3:4], SCHEMA), 1
            )
