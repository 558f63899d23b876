"""Topologies within Spark's own streams."""

import json
import os
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

import penstock
from penstock.common import Row, Types
from penstock.connectors import DeltaSink
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.run.commits import journal
from penstock.engine.run.runtime.errors import JobCompileError
from penstock.engine.run.streams import run_batch
from tests.engine.run.streams.batches_in_process import lines
from tests.engine.run.streams.test_batches_of_streams import (
    CLICKS,
    COUNT,
    COUNTS,
    WINDOWS,
    Count,
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
    write = journal.write

    def fail_once(run_: Any, name: str, value: Any = True) -> bool:
        if name == "attempt-0":
            commits.append(name)
            if len(commits) == 3:
                raise FailedCommit
        return write(run_, name, value)

    with monkeypatch.context() as patched:
        patched.setattr(journal, "write", fail_once)
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
