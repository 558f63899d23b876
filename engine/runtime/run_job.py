"""Runs a job on Spark: plan, compile, one Spark job, commit of its sinks.

Source: org.apache.flink.runtime.dispatcher.Dispatcher and jobmaster.JobMaster, for the order of things.
"""

import pickle
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.datastream.job import Job
from engine.datastream.transformations import Transformation
from engine.redaction import redact, remember_secrets
from engine.runtime.compile_job import CompiledJob, Terminal, compile_job
from engine.runtime.describe_failure import describe_failure
from engine.runtime.errors import JobCancelledError
from engine.runtime.exchange_on_spark import JobFrames
from engine.runtime.job_monitor import COUNTS, Attempt, JobMonitor, now
from engine.runtime.plan_job import plan_job
from engine.runtime.run_environment import cached_files_on_spark, run_session, ship_python, show_run
from engine.runtime.run_settings import spark_settings_for_runs, task_settings
from operators.connectors.sink import CollectSink, PrintSink
from operators.exchange.blocks import decode
from operators.exchange.rows_and_batches import values_of_batch


@dataclass
class JobResult:
    """What a job that finished leaves behind."""

    job_id: str
    name: str
    batch: bool
    state: str  #: JobStatus: FINISHED, FAILED or CANCELED
    failure: str | None
    started_at: int  #: milliseconds since the epoch
    milliseconds: int
    attempts: list[Attempt]
    tables: dict[str, pa.Table]  #: the plan that ran
    compiled: CompiledJob
    collected: dict[int, list[Any]] = field(default_factory=dict)  #: by `Transformation.created`


@dataclass
class RunControl:
    """A run as others see it while it lasts: its id, whether it was asked to stop, where it stands."""

    job_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    cancel_requested: threading.Event = field(default_factory=threading.Event)
    state: str = "CREATED"  #: JobStatus

    def cancel(self) -> None:
        """Stop the run; it ends as CANCELED."""
        self.cancel_requested.set()
        context = SparkContext._active_spark_context
        if context is not None:
            context.cancelJobGroup(self.job_id)


def run_job(job: Job, control: RunControl | None = None) -> JobResult:
    """Run `job` to its end, and commit its sinks.

    Raises JobCompileError, JobExecutionError (which names operator, subtask and record where a user's
    function raised) and JobCancelledError; then nothing is committed. However it ends, the run is handed to
    those who listen (`run_listeners`).
    """
    remember_secrets(job.config)
    tables = plan_job(job)
    compiled = compile_job(job.transformations, tables, batch=job.batch)
    control = control or RunControl()
    result = JobResult(control.job_id, job.name, job.batch, "CREATED", None, now(), 0, [], tables, compiled)
    spark = run_session(required_slots(tables))
    try:
        with ExitStack() as stack:
            on_change = stack.enter_context(show_run(job.name, compiled))
            monitor = stack.enter_context(JobMonitor(_parallelism(compiled), _driver_host(spark), on_change))
            try:
                rows = _run(spark, job, control, compiled, monitor)
            finally:
                result.attempts = [monitor.attempts[key] for key in sorted(monitor.attempts)]
        result.collected = _deliver(rows, compiled.terminals)
        result.state = "FINISHED"
    except BaseException as error:
        for terminal in compiled.terminals:
            terminal.sink.abort()
        cancelled = isinstance(error, JobCancelledError | KeyboardInterrupt)
        result.state, result.failure = "CANCELED" if cancelled else "FAILED", redact(str(error))
        raise
    finally:
        control.state = result.state
        result.milliseconds = now() - result.started_at
        for listener in run_listeners:
            listener(result)
    return result


#: Called with every run when it has ended: `penstock run` puts what shows and records runs here.
run_listeners: list[Callable[[JobResult], None]] = []


def required_slots(tables: Mapping[str, pa.Table]) -> int:
    """How many slots a job needs: those of all its slot sharing groups."""
    return sum(tables["required_slots"]["slots"].to_pylist())


def summaries(result: JobResult) -> list[tuple[str, dict[str, int]]]:
    """Of each vertex, in topological order: its name; subtasks, attempts, records and bytes in and out."""
    found = []
    for vertex in result.compiled.vertices:
        mine = [one for one in result.attempts if one.vertex == vertex.chain.vertex]
        last = {one.subtask: one for one in mine}  # attempts are in order
        counts = {name: sum(getattr(one, name) for one in last.values()) for name in COUNTS}
        found.append((vertex.chain.name, {"subtasks": len(last), "attempts": len(mine), **counts}))
    return found


def _parallelism(compiled: CompiledJob) -> dict[int, int]:
    return {vertex.chain.vertex: vertex.chain.parallelism for vertex in compiled.vertices}


def collect_job(job: Job, sink: Transformation) -> Iterator[Any]:
    """Run `job` and give the records that its `sink`, a CollectSink among its transformations, took."""
    return iter(run_job(job).collected[sink.created])


def _run(
    spark: SparkSession, job: Job, control: RunControl, compiled: CompiledJob, monitor: JobMonitor
) -> list[tuple[int, int, int, pa.Buffer]]:
    context = spark.sparkContext
    ship_python(context, job)
    files = cached_files_on_spark(context, job.cached_files)
    settings = task_settings(job, control.job_id, monitor.address, files)
    context.setJobGroup(control.job_id, f"Penstock: {job.name}", interruptOnCancel=True)
    frames = None
    try:
        with spark_settings_for_runs(spark):
            frames = JobFrames(spark, compiled, settings, source_dataframes(compiled))
            monitor.submitted()
            control.state = "RUNNING"
            if control.cancel_requested.is_set():
                raise KeyboardInterrupt
            table = frames.terminal().toArrow()
        monitor.ended(finished=True)
        return sorted(_terminal_rows(table), key=lambda row: row[:3])
    except KeyboardInterrupt as error:
        monitor.cancelling()
        context.cancelJobGroup(control.job_id)
        monitor.ended(finished=False)
        raise JobCancelledError(f"job {job.name!r} was cancelled; nothing of it is committed") from error
    except (PySparkException, Py4JError) as error:
        # on Ctrl-C PySpark's own handler cancels all jobs, which may get here before KeyboardInterrupt does
        cancelled = control.cancel_requested.is_set() or "SPARK_JOB_CANCELLED" in str(error)
        if cancelled:
            monitor.cancelling()
            monitor.ended(finished=False)
            raise JobCancelledError(f"job {job.name!r} was cancelled; nothing of it is committed") from None
        failure = describe_failure(job.name, compiled, monitor, error)
        monitor.ended(finished=False)
        raise failure from None
    finally:
        if frames is not None:
            frames.release()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def source_dataframes(compiled: CompiledJob) -> Mapping[int, DataFrame]:
    """Of each vertex that reads a DataFrame, that DataFrame."""
    return {
        vertex.chain.vertex: one.operator.dataframe()
        for vertex in compiled.vertices
        for one in vertex.chain.operators
        if one.source and getattr(one.operator, "reads_dataframe", False)
    }


def _terminal_rows(table: pa.Table) -> Iterator[tuple[int, int, int, pa.Buffer]]:
    for batch in table.to_batches():
        keys = zip(*(batch.column(name).to_pylist() for name in ("edge", "channel", "sequence")), strict=True)
        payloads = batch.column("payload")
        for row, (edge, channel, sequence) in enumerate(keys):
            yield edge, channel, sequence, payloads[row].as_buffer()


def _deliver(
    rows: list[tuple[int, int, int, pa.Buffer]], terminals: tuple[Terminal, ...]
) -> dict[int, list[Any]]:
    """Print, collect and commit what came to the driver."""
    collected: dict[int, list[Any]] = {}
    for terminal in terminals:
        mine = [payload for edge, _, _, payload in rows if edge == terminal.edge]
        if isinstance(terminal.sink, CollectSink):
            values: list[Any] = []
            for payload in mine:
                values.extend(_values(payload, terminal))
            collected[terminal.transformation.created] = values
        elif isinstance(terminal.sink, PrintSink):
            stream = sys.stderr if terminal.sink.to_stderr else sys.stdout
            for payload in mine:
                stream.writelines(line + "\n" for line in pickle.loads(payload))
            stream.flush()
        else:
            terminal.sink.commit([one for payload in mine for one in pickle.loads(payload)])
    return collected


def _values(payload: pa.Buffer, terminal: Terminal) -> list[Any]:
    type_info = terminal.transformation.output_type
    block = decode(payload, type_info)
    if block.values is not None:
        return block.values
    assert block.batch is not None
    return values_of_batch(block.batch, type_info)


def _driver_host(spark: SparkSession) -> str:
    return spark.sparkContext.getConf().get("spark.driver.host") or "127.0.0.1"
