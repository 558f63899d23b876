"""The driver of `benchmarks.stream_kills`: it goes on with a query, and a process of it is killed at a point.

    python -m benchmarks.stream_to_kill FOLDER MASTER

The file `kill` in FOLDER names a point, how often it is passed before, and the process that is killed:
`driver`, `jvm`, `worker` (a Python worker) or `executor`. The process that comes to the point renames it to
`killed`, so that only one process is killed. Points of the driver are functions of the runner and of commits;
points of workers are functions of the state and of sinks. Prints "batch N" when a batch begins, and the rows
of a sink.
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from functools import wraps
from typing import Any

IN_DRIVER = {
    "begin": "before a batch reads the state",
    "make store": "before the folders of the state",
    "journal": "before the journal begins",
    "finish others": "before commits of killed drivers are finished",
    "publish rest": "while the commit of a killed driver is finished",
    "restore": "while the state is restored",
    "job": "before the job",
    "commit": "between the job and the commit",
    "decide": "before the decision",
    "decided": "after the decision",
    "rename": "before a file becomes visible",
    "delta": "before a transaction of Delta",
    "delta done": "after a transaction of Delta",
    "manifest": "after the sinks, before the manifest of the state",
    "manifest done": "after the manifest of the state",
    "forget": "before the journal is removed",
    "deliver": "before rows are printed",
    "print": "while rows are printed",
    "clean up": "before old versions are removed",
    "clean segments": "between old versions and their segments",
    "clean one": "before one of the old files is removed",
    "end": "after a batch, before Spark notes it",
    "step": "before a file is forced to the disk, linked, renamed or removed",
}
IN_WORKERS = {
    "open segment": "before a segment is mapped",
    "record": "while a record is processed",
    "stage": "before a file of a sink is opened",
    "staged": "after a file of a sink is closed",
    "write segment": "before a segment is written",
    "segment file": "with an unfinished file of a segment",
    "segment renamed": "after a segment has got its name",
    "merge": "before segments are merged",
    "merged": "after segments have been merged",
    "report": "before the report of the state",
    "reported": "after the report of the state",
}


_rename = os.rename  # which `step` replaces


class Point:
    """Kills a process once, at the point that the file `kill` of a folder names."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.passed: Counter[str] = Counter()

    def reached(self, name: str) -> None:
        """Kill the process if this is the point."""
        order = os.path.join(self.folder, "kill")
        try:
            with open(order) as file:
                wanted = json.load(file)
        except (FileNotFoundError, ValueError):
            return
        if wanted["point"] != name:
            return
        self.passed[wanted["id"]] += 1
        if self.passed[wanted["id"]] <= wanted["after"]:
            return
        try:
            _rename(order, os.path.join(self.folder, "killed"))
        except FileNotFoundError:
            return
        for pid in self._pids(wanted["target"], name):
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.2)

    def _pids(self, target: str, name: str) -> list[int]:
        if name in IN_DRIVER:
            return [os.getpid()] if target == "driver" else children(os.getpid(), "java")
        if target == "worker":
            return [os.getpid()]
        jvm = parent(parent(os.getpid()))  # of the process that forks workers
        return [parent(jvm)] if target == "driver" else [jvm]

    def before(self, owner: Any, attribute: str, name: str) -> None:
        """Let the calls of a function come to a point first."""
        call = getattr(owner, attribute)

        @wraps(call)
        def at_point(*args: Any, **kwargs: Any) -> Any:
            self.reached(name)
            return call(*args, **kwargs)

        setattr(owner, attribute, at_point)

    def after(self, owner: Any, attribute: str, name: str) -> None:
        """Let the calls of a function come to a point at their end."""
        call = getattr(owner, attribute)

        @wraps(call)
        def to_point(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            self.reached(name)
            return result

        setattr(owner, attribute, to_point)


def parent(pid: int) -> int:
    """Return the parent of a process."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def children(pid: int, command: str) -> list[int]:
    """Return the children of a process that run a command."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and parent(int(name)) == pid:
                with open(f"/proc/{name}/comm") as file:
                    found += [int(name)] if command in file.read() else []
        except OSError:
            continue
    return found


def watch_worker(folder: str) -> Point:
    """Let this worker come to the points of workers; segments are merged early."""
    from penstock.operators.connectors import staged_files
    from penstock.operators.state import state_segments, stored_state
    from penstock.operators.task import stream_batch

    known: Any = state_segments
    if not hasattr(known, "_point_of_kills"):
        point = known._point_of_kills = Point(folder)
        stored_state._MOST_SEGMENTS = 3
        point.before(state_segments.SegmentStore, "open", "open segment")
        point.before(state_segments.SegmentStore, "_put", "write segment")
        point.after(state_segments, "create_private_file", "segment file")
        point.before(state_segments, "force_folder", "segment renamed")
        point.before(stored_state.StoredState, "_merge", "merge")
        point.after(stored_state.StoredState, "_merge", "merged")
        point.before(stream_batch.StreamSubtask, "_report", "report")
        point.after(stream_batch.StreamSubtask, "_report", "reported")
        point.before(staged_files.StagedFiles, "open", "stage")
        point.after(staged_files.StagedFiles, "committable", "staged")
    return known._point_of_kills  # type: ignore[no-any-return]


def watch_driver(folder: str) -> Point:
    """Let this driver come to the points of drivers."""
    from penstock.engine.library import batches_of_stream
    from penstock.engine.run.commits import commit_run, journal
    from penstock.engine.run.streams import run_batch
    from penstock.operators.connectors import commit_delta, recover_sinks, staged_files, state_sink

    runner: Any = run_batch
    sink: Any = state_sink
    commits: Any = commit_run
    point = Point(folder)
    point.before(batches_of_stream, "last_manifest", "begin")
    point.before(sink, "make_store", "make store")
    point.before(runner, "begin_run", "journal")
    point.before(runner, "finish_other_runs", "finish others")
    point.before(recover_sinks, "commit_files", "publish rest")
    point.before(runner, "restored_batch", "restore")
    point.before(runner, "_run", "job")
    point.before(runner, "commit_run", "commit")
    point.before(commits, "_decide_to_publish", "decide")
    point.after(commits, "_decide_to_publish", "decided")
    point.before(staged_files, "move_file", "rename")
    point.before(commit_delta, "_commit", "delta")
    point.after(commit_delta, "_commit", "delta done")
    point.before(state_sink.StateSink, "commit", "manifest")
    point.after(state_sink.StateSink, "commit", "manifest done")
    point.before(journal, "forget", "forget")
    point.before(runner, "deliver", "deliver")
    point.before(sink, "read_manifest", "clean segments")

    class Removing:
        def __init__(self, system: Any) -> None:
            self.system = system

        def __getattr__(self, name: str) -> Any:
            if name == "delete_file":
                point.reached("clean one")
            return getattr(self.system, name)

    clean = runner.remove_old_versions

    def clean_with_points(*args: Any) -> None:
        point.reached("clean up")
        known = sink.filesystem_of
        sink.filesystem_of = lambda folder: (Removing(known(folder)[0]), known(folder)[1])
        try:
            clean(*args)
        finally:
            sink.filesystem_of = known

    runner.remove_old_versions = clean_with_points
    prepare = commits._prepared

    def begin(*args: Any) -> Any:
        commits._prepared = prepare
        for owner, attribute in ((os, "fsync"), (os, "link"), (os, "unlink"), (os, "rename")):
            point.before(owner, attribute, "step")
        return prepare(*args)

    commits._prepared = begin
    printing: Any = _Printing(sys.stdout, point)
    sys.stdout = printing
    return point


class _Printing:
    """Comes to a point before each printed row."""

    def __init__(self, stream: Any, point: Point) -> None:
        self._stream, self._point = stream, point

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self._point.reached("print")
            self._stream.write(line)
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def main(folder: str, master: str) -> None:
    """Go on with the query until it has read all files of the folder `input`."""
    from pyspark.sql import SparkSession

    import penstock
    from penstock.common import Row, Time, Types
    from penstock.connectors import DeltaSink, JsonLinesSink
    from penstock.datastream import KeyedProcessFunction, ValueStateDescriptor
    from penstock.datastream.functions import ProcessWindowFunction
    from penstock.datastream.window import TumblingEventTimeWindows

    os.chdir(folder)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # of executors, too
    point = watch_driver(folder)
    counts = Types.ROW_NAMED(["key", "count"], [Types.STRING(), Types.LONG()])
    windows = Types.ROW_NAMED(["key", "until", "count"], [Types.STRING(), Types.LONG(), Types.LONG()])

    class Count(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.point = watch_worker(folder)
            self.count = runtime_context.get_state(ValueStateDescriptor("counts", Types.LONG()))

        def process_element(self, record: Any, ctx: Any) -> Any:
            self.point.reached("record")
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            yield Row(record.key, count)

    class InWindow(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, records: Any) -> Any:
            yield Row(key, context.window().end, len(list(records)))

    def build(records: Any) -> None:
        counted = records.process(Count(), counts).uid("count")
        counted.sink_to(JsonLinesSink(f"{folder}/counts", counts))
        counted.sink_to(DeltaSink(f"{folder}/table", counts))
        counted.map(lambda row: f"row {row.key} {row['count']}", Types.STRING()).print()
        in_windows = records.window(TumblingEventTimeWindows.of(Time.milliseconds(500)))
        in_windows.process(InWindow(), windows).uid("windows").sink_to(
            JsonLinesSink(f"{folder}/windows", windows)
        )

    function = penstock.foreach_batch(
        build, state=f"{folder}/state", key="key", event_time="at", parallelism=2, keep=3
    )

    def run_batch(df: Any, number: int) -> None:
        print("batch", number, flush=True)
        function(df, number)
        point.reached("end")

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.shuffle.partitions": "2",
    }
    if not master.startswith("local"):  # slow tasks are repeated beside the first attempt
        settings |= {
            "spark.speculation": "true",
            "spark.speculation.interval": "50ms",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.5",
        }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    records = spark.readStream.schema("key string, at long").option("maxFilesPerTrigger", 1)
    writer = records.json(f"{folder}/input").writeStream.foreachBatch(run_batch)
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
