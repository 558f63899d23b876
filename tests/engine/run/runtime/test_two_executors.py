"""All readers of a stream get the same records: on two executors, and without a cache.

Ids are made by a function that gives others each time it runs. A process of its own runs all cases on one
cluster, and prints for each the ids that its readers have got, by number, and how often the function ran.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.common import Types
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.engine.machine.stop_on_signals import process_tree
from penstock.engine.pyflink.common import Encoder
from penstock.operators.connectors.file_sink import FileSink
from penstock.operators.task.report import TaskSpec
from penstock.operators.task.run_task import run_task
from tests.engine.run.runtime.run_in_process import compiled_job
from tests.processes import command_line

ROWS = 100
PAIR = Types.TUPLE([Types.LONG(), Types.STRING()])
DEADLINE_SECONDS = 60.0


class Ids(MapFunction):
    """Numbers with an id each; if `slow`, the second subtask takes long enough for the other executor."""

    def __init__(self, folder: Path, *, slow: bool = False) -> None:
        self.folder, self.slow = folder, slow

    def open(self, runtime_context: Any) -> None:
        subtask = runtime_context.get_index_of_this_subtask()
        (self.folder / f"made-{subtask}-{uuid.uuid4().hex}").touch()
        if self.slow and subtask == 1:
            time.sleep(3)

    def map(self, value: Any) -> Any:
        return getattr(value, "id", value), uuid.uuid4().hex


class Waiting(MapFunction):
    """Gives what it gets, in a subtask that first waits for the executors to be killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, runtime_context: Any) -> None:
        (self.folder / "waits").touch()
        wait_for(self.folder, "killed", 1)

    def map(self, value: Any) -> Any:
        return value


class Ended(MapFunction):
    """Gives what it gets, and says when a subtask has ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def map(self, value: Any) -> Any:
        return value

    def close(self) -> None:
        (self.folder / f"ended-{uuid.uuid4().hex}").touch()


def wait_for(folder: Path, name: str, count: int) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while len(list(folder.glob(name))) < count and time.monotonic() < end:
        time.sleep(0.05)


def environment() -> Any:
    return StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)


def written(stream: Any, folder: Path) -> None:
    lines = stream.map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
    lines.sink_to(FileSink.for_row_format(str(folder), Encoder.simple_string_encoder()).build())


def ids_of_files(folder: Path) -> dict[str, str]:
    lines = [line for path in folder.glob("*/part-*") for line in path.read_text().splitlines()]
    assert len(lines) == ROWS, f"{folder}: {len(lines)} rows"
    return dict(line.split() for line in lines)


def slow_subtask(folder: Path) -> dict[str, Any]:
    """All readers come to a subtask that is not done yet."""
    env = environment()
    ids = env.from_collection(range(ROWS), Types.LONG()).rebalance().map(Ids(folder, slow=True), PAIR)
    written(ids, folder / "chained")
    for name in ("first", "second"):
        written(ids.key_by(lambda pair: pair[0]), folder / name)
    env.execute("slow")
    return {name: ids_of_files(folder / name) for name in ("chained", "first", "second")}


def killed(folder: Path) -> dict[str, Any]:
    """Both executors end when one reader has finished, and another one has not."""
    env = environment()
    ids = env.from_collection(range(ROWS), Types.LONG()).rebalance().map(Ids(folder), PAIR)
    # the id itself says which subtask gets a row: one that is made otherwise would be lost, or come twice
    written(ids.key_by(lambda pair: pair[1]).map(Ended(folder), PAIR), folder / "ended")
    written(ids.key_by(lambda pair: pair[1]).map(Waiting(folder), PAIR), folder / "waiting")
    killer = in_thread(lambda: kill_executors(folder, [("waits", 1), ("ended-*", 2)]))
    env.execute("killed")
    killer.join()
    return {name: ids_of_files(folder / name) for name in ("ended", "waiting")}


def frames(folder: Path) -> dict[str, Any]:
    """DataFrames of one run, while the session's cache is cleared, and after the executors have ended."""
    env = environment()
    first, second = two_streams(env, folder)
    results = env.to_dataframes(first=first, second=second)
    got: dict[str, Any] = {}
    for name in ("first", "second"):
        got[name] = {str(row.f0): row.f1 for row in results[name].collect()}
        SparkSession.active().catalog.clearCache()
    kill_executors(folder, [])
    try:
        got["after"] = results.first.count()
    except (Py4JJavaError, PySparkException) as error:
        got["after"] = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND" in str(error)
    return got


def two_streams(env: Any, folder: Path) -> tuple[Any, Any]:
    """Two streams of the same ids."""
    rows = SparkSession.active().range(0, ROWS, 1, 2)
    ids = env.from_dataframe(rows).map(Ids(folder), PAIR)
    return ids.key_by(lambda pair: pair[0]), ids.rebalance().filter(lambda pair: True)


def in_thread(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


def kill_executors(folder: Path, wanted: list[tuple[str, int]]) -> None:
    """Kill all executors once `folder` has that many files of each name."""
    for name, count in wanted:
        wait_for(folder, name, count)
    for pid in process_tree(os.getpid()):
        if any("CoarseGrainedExecutorBackend" in word for word in command_line(pid)):
            os.kill(pid, signal.SIGKILL)
    (folder / "killed").touch()


def main(folder: Path) -> None:
    quick = "-XX:TieredStopAtLevel=1"
    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": quick,
        "spark.executor.extraJavaOptions": quick,
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "200ms",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = SparkSession.builder.master("local-cluster[2,1,1024]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    for case in (slow_subtask, killed, frames):
        own = folder / case.__name__
        own.mkdir()
        began = time.monotonic()
        found = case(own)
        found["runs"] = len(list(own.glob("made-*")))
        print(json.dumps({case.__name__: found}), flush=True)
        print(f"{case.__name__}: {time.monotonic() - began:.1f} s", file=sys.stderr)
    spark.stop()


@pytest.mark.spark
def test_two_executors(tmp_path: Path) -> None:
    command = [sys.executable, "-m", __name__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    found: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        found |= json.loads(line)

    slow = found["slow_subtask"]
    assert slow["chained"] == slow["first"] == slow["second"]

    again = found["killed"]
    assert again["ended"] == again["waiting"]
    assert again["runs"] > 2, "nothing ran again"
    assert "it starts again" in done.stderr

    kept = found["frames"]
    assert kept["first"] == kept["second"]
    assert kept["after"] is True, "what was lost was made again"


def test_a_session_whose_cache_is_cleared(spark: SparkSession, tmp_path: Path) -> None:
    env = environment()
    first, second = two_streams(env, tmp_path)
    distinct = first.map(lambda pair: pair, PAIR).union(second).to_dataframe().select("f1").distinct()
    assert distinct.count() == ROWS
    spark.catalog.clearCache()
    assert distinct.count() == ROWS
    results = env.to_dataframes(first=first, second=second)
    assert results.first.count() == ROWS
    results.release()
    with pytest.raises(Py4JJavaError, match="CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"):
        results.second.count()


def test_a_partition_without_rows_is_no_subtask() -> None:
    """Two vertices that read a DataFrame of one partition get nothing for their second subtask."""
    stream = environment().from_collection(range(ROWS), Types.LONG()).rebalance().map(lambda value: value)
    compiled, settings = compiled_job(stream)
    reader = compiled.vertices[-1].chain
    assert reader.gates
    assert list(run_task(TaskSpec(chain=reader, settings=settings), iter(()))) == []


if __name__ == "__main__":
    main(Path(sys.argv[1]))
