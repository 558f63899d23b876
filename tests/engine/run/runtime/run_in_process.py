"""Runs the subtasks of a job one after the other in this process, in Spark's place."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from penstock.engine.pyflink.datastream.data_stream import DataStream
from penstock.engine.run.lowering.plan_job import plan_to_run
from penstock.engine.run.lowering.transformations import Job
from penstock.engine.run.runtime import receive_results as collect_records
from penstock.engine.run.runtime import run_job
from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex, Terminal, compile_job
from penstock.engine.run.runtime.job_monitor import JobMonitor, RunControl
from penstock.engine.run.runtime.run_environment import task_settings
from penstock.engine.run.runtime.run_on_spark import Rows, records, run_until_enough
from penstock.operators.common.configuration import Configuration
from penstock.operators.exchange.channel_writer import EXCHANGE_SCHEMA, FIRST_OF_ALL
from penstock.operators.task.report import ResultsAddress, TaskSettings, TaskSpec
from penstock.operators.task.run_task import run_task
from penstock.plans.errors import JobCancelledError

#: Operators are not fused, and `execute_and_collect` runs other sinks, too.
NOT_FUSED = Configuration()
NOT_FUSED.set_boolean("python.operator-chaining.enabled", False)


def compiled_job(stream: DataStream, limit: int | None = None) -> tuple[CompiledJob, TaskSettings]:
    """What `stream.execute_and_collect(limit=limit)` would run."""
    environment = stream._environment
    environment.add_operator(stream._collect_sink(limit))
    job = environment._job_to_run(environment._take_registered(), "in process")
    compiled = compile_job(job.lowered.to_run, plan_to_run(job), batch=job.batch)
    return compiled, task_settings(job, "0" * 32, None, {})


def collected(stream: DataStream, limit: int | None = None) -> list[Any]:
    """The records of `stream` as they reach the driver; whatever a subtask raises."""
    compiled, settings = compiled_job(stream, limit)
    (terminal,) = compiled.terminals
    rows = run_until_enough(
        compiled,
        settings.batch,
        lambda limited: terminal_rows(limited, settings),
        lambda rows: len(_values_of(rows, terminal)),
    )
    return _values_of(rows, terminal)


def run_jobs_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all jobs of a test run here: what `execute` does otherwise stays the same."""
    monkeypatch.setattr(run_job, "run_session", lambda context, name, compiled, tables: None)
    monkeypatch.setattr("penstock.engine.spark.session.begin_session", lambda **settings: None)
    monkeypatch.setattr(run_job, "driver_host", lambda spark: "127.0.0.1")
    monkeypatch.setattr(collect_records, "driver_host", lambda spark: "127.0.0.1")
    monkeypatch.setattr(run_job, "run_on_spark", _run)


def _run(
    spark: None,
    job: Job,
    control: RunControl,
    compiled: CompiledJob,
    monitor: JobMonitor,
    address: ResultsAddress | None,
) -> Rows:
    settings = task_settings(job, control.job_id, monitor.address, {}, address)
    monitor.submitted(None if address is None else address.here)
    control.submitted.set()
    try:
        rows = terminal_rows(compiled, settings)
    except BaseException as error:
        monitor.ended(finished=False)
        if control.cancel_requested.is_set():
            raise JobCancelledError("cancelled") from error
        raise
    monitor.ended(finished=True)
    return rows


def terminal_rows(compiled: CompiledJob, settings: TaskSettings) -> Rows:
    """What the subtasks of all vertices have for the driver, in order."""
    rows: list[dict[str, Any]] = []
    for vertex in compiled.vertices:
        produced = []
        for subtask in range(vertex.chain.parallelism):
            for batch in run_task(sent(vertex, settings), inputs(vertex, subtask, rows)):
                produced += batch.to_pylist()
        rows += produced
    edges = {terminal.edge for terminal in compiled.terminals}
    found = [
        (row["edge"], row["channel"], row["sequence"], pa.py_buffer(row["payload"]))
        for row in rows
        if row["edge"] in edges
    ]
    return sorted(found, key=lambda row: row[:3])


def _values_of(rows: Rows, terminal: Terminal) -> list[Any]:
    return [value for row in rows for value in records(row[3], terminal.transformation.output_type)]


def sent(vertex: CompiledVertex, settings: TaskSettings) -> TaskSpec:
    """A subtask's own copy of what it is to run."""
    spec: TaskSpec = cloudpickle.loads(cloudpickle.dumps(TaskSpec(chain=vertex.chain, settings=settings)))
    return spec


def inputs(vertex: CompiledVertex, subtask: int, rows: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """What Spark gives a subtask: its number, or the rows that were written for it."""
    if not vertex.chain.gates:
        return iter([pa.RecordBatch.from_pydict({"id": [subtask]})])
    edges = {gate.edge for gate in vertex.chain.gates}
    mine = [row for row in rows if row["edge"] in edges and row["target"] == subtask]
    mine.sort(key=lambda row: (row["order"], row["edge"], row["channel"], row["sequence"]))
    greeting = {
        "edge": -1,
        "target": subtask,
        "order": FIRST_OF_ALL,
        "channel": -1,
        "sequence": -1,
        "payload": b"",
    }
    return iter(pa.Table.from_pylist([greeting, *mine], EXCHANGE_SCHEMA).to_batches(max_chunksize=1))
