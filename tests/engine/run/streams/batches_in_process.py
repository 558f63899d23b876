"""Runs batches of a stream in this process, in Spark's place."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.common import Types
from penstock.engine.library.batches_of_stream import run_stream_batch
from penstock.engine.pyflink.datastream import StreamExecutionEnvironment
from penstock.engine.pyflink.datastream.stream_settings import schema_of_type
from penstock.engine.run.commits import journal
from penstock.engine.run.commits.commit_run import NamedSink, begin_run, commit_run
from penstock.engine.run.lowering.plan_job import plan_to_run
from penstock.engine.run.lowering.transformations import Call, Job
from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex, compile_job
from penstock.engine.run.runtime.job_monitor import RunControl
from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext, use_context
from penstock.engine.run.runtime.run_environment import task_settings
from penstock.engine.run.runtime.run_on_spark import Rows, committables
from penstock.engine.run.streams import run_batch as runner
from penstock.engine.run.streams.restore_state import Manifest
from penstock.engine.run.streams.run_batch import Batch, StateOptions
from penstock.operators.connectors.dataframe_source import DataFrameSource, EventTime
from penstock.operators.task.report import TaskSettings
from penstock.operators.task.run_task import reads_dataframe, run_task
from tests.engine.run.runtime.run_in_process import inputs, sent

CLICK = Types.ROW_NAMED(["user", "amount", "at"], [Types.STRING(), Types.LONG(), Types.LONG()])


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have batches run here."""
    monkeypatch.setattr(runner, "run_session", lambda context, name, compiled, tables: None)
    monkeypatch.setattr(runner, "driver_host", lambda spark: "127.0.0.1")
    monkeypatch.setattr(runner, "run_on_spark", _run)


def _run(
    spark: None,
    job: Job,
    control: Any,
    compiled: CompiledJob,
    monitor: Any,
    address: None,
    stream: Any,
    read: Any,
) -> Rows:
    settings = replace(task_settings(job, control.job_id, None, {}), stream=stream)
    rows: list[dict[str, Any]] = []
    for vertex in compiled.vertices:
        produced = []
        for subtask in range(vertex.chain.parallelism):
            for batch in run_task(sent(vertex, settings), _inputs(vertex, subtask, rows, settings)):
                produced += batch.to_pylist()
        rows += produced
    terminal = [row for row in rows if row["edge"] < 0]
    return sorted(
        ((row["edge"], row["channel"], row["sequence"], pa.py_buffer(row["payload"])) for row in terminal),
        key=lambda row: row[:3],
    )


def _inputs(
    vertex: CompiledVertex, subtask: int, rows: list[dict[str, Any]], settings: TaskSettings
) -> Iterator[pa.RecordBatch]:
    source = next((spec.operator for spec in vertex.chain.operators if reads_dataframe(spec)), None)
    if source is None:
        return inputs(vertex, subtask, rows)
    table: pa.Table = source.dataframe()
    if source.event_time is not None:
        table = table.sort_by("at")
    size = -(-len(table) // vertex.chain.parallelism)
    part = table.slice(subtask * size, size)
    if vertex.chain.outputs:
        part = part.append_column("subtask", pa.array([subtask] * len(part), pa.int32()))
    return iter(part.to_batches(max_chunksize=3))


class Stream:
    """A stream whose batches are lists of tuples of `type_info`."""

    def __init__(self, folder: Path, build: Callable[[Any], Any], **settings: Any) -> None:
        self.folder, self.build = folder, build
        self.key: Any = settings.pop("key", "user")
        self.event_time = settings.pop("event_time", True)
        self.lag = settings.pop("lag", 0)
        self.type_info = settings.pop("type_info", CLICK)
        self.parallelism = settings.pop("parallelism", 2)
        self.query = settings.pop("query", None)
        self.config = settings.pop("config", {})
        self.plans = settings.pop("plans", None)
        self.options = StateOptions(
            folder=str(settings.pop("state", folder / "state")),
            keep=settings.pop("keep", 10),
            new_query=settings.pop("new_query", False),
            allow_non_restored_state=settings.pop("allow_non_restored_state", False),
        )
        assert not settings

    def batch(self, rows: Sequence[Any], number: int) -> Manifest | None:
        """Run one batch."""
        schema = schema_of_type(self.type_info)
        columns = [[row[at] for row in rows] for at in range(len(schema))]
        table = pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
        time = EventTime(2, "at", self.lag) if self.event_time else None

        def source(env: Any) -> Any:
            reader = DataFrameSource(table, self.type_info, schema, time)
            stream: Any = env._source("source", "DataFrame", reader, self.type_info, Call.SOURCE)
            return (
                stream
                if self.key is None
                else stream.key_by(lambda row, key=self.key: row[key], Types.STRING())
            )

        batch = Batch(batch_id=number, query=self.query)
        with use_context(RunContext(settings=EnvironmentSettings(config=self.config))):
            return run_stream_batch(
                batch, source, self.build, self.options, parallelism=self.parallelism, plans=self.plans
            )

    def batches(self, *batches: Sequence[Any], first: int = 0) -> None:
        """Run several batches."""
        for number, rows in enumerate(batches, first):
            self.batch(rows, number)


def lines(folder: Path) -> list[Any]:
    """The JSON lines of all visible files of a folder, sorted."""
    found = [json.loads(line) for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted(found, key=json.dumps)


def bounded_rows(
    build: Callable[[Any], Any], rows: Sequence[Any], parallelism: int = 2, lag: int = 0
) -> None:
    """Run the same job once over all rows, as a bounded job, into its sinks."""
    schema = schema_of_type(CLICK)
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    reader = DataFrameSource(table, CLICK, schema, EventTime(2, "at", 0))
    stream: Any = env._source("source", "DataFrame", reader, CLICK, Call.SOURCE)
    build(stream.key_by(lambda row: row.user, Types.STRING()))
    job = env._registered_job_to_run(None)
    compiled = compile_job(job.lowered.to_run, plan_to_run(job), batch=False)
    named = [NamedSink(terminal.name, terminal.sink) for terminal in compiled.terminals]
    control = RunControl()
    with begin_run(control.job_id, job.name, "", named) as opened:
        found = _run(None, job, control, compiled, None, None, None, None)
        commit_run(opened, committables(found, compiled.terminals))
    journal.forget(opened.run)
