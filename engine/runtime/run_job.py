"""Runs a job on Spark: plan, settle what earlier runs have left, compile, one Spark job, commit of its sinks.

Source: org.apache.flink.runtime.dispatcher.Dispatcher and jobmaster.JobMaster, for the order of things.
"""

import pickle
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.commits.acknowledge_runs import acknowledge_runs, run_is_published
from engine.commits.commit_run import NamedSink, begin_run, commit_run, undo_run
from engine.commits.earlier_runs import JobSink, NextRun, say, settle_earlier_runs
from engine.commits.journal import Run
from engine.output.redaction import redact, remember_secrets
from engine.runtime.compile_job import CompiledJob, Terminal, compile_job
from engine.runtime.describe_failure import describe_failure
from engine.runtime.errors import JobCancelledError
from engine.runtime.exchange_on_spark import JobFrames
from engine.runtime.job import Job
from engine.runtime.job_fingerprint import job_fingerprint
from engine.runtime.job_monitor import JobMonitor, now
from engine.runtime.job_result import JobResult
from engine.runtime.plan_job import plan_job
from engine.runtime.run_environment import cached_files_on_spark, run_session, show_run
from engine.runtime.run_settings import spark_settings_for_runs, task_settings
from engine.runtime.run_until_enough import run_until_enough
from engine.runtime.ship_python import ship_python
from engine.runtime.transformations import Transformation
from operators.connectors.recover_sinks import needs_commit, recovery_of
from operators.connectors.sink import CollectSink, Committable, PrintSink, Sink
from operators.exchange.blocks import decode
from operators.exchange.rows_and_batches import values_of_batch


@dataclass
class RunControl:
    """A run while it lasts: its id, its state, and whether it was asked to stop."""

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

    Where the driver of an earlier run of the same job over the same input was killed within its commit, that
    commit is finished, and this run commits nothing: it is not run, unless records are collected.

    Raises JobCompileError, JobExecutionError (which names operator, subtask and record where a user's
    function raised) and JobCancelledError; then nothing is committed. CommitError says what of the commit is
    done. However it ends, the run is handed to those who listen (`run_listeners`).
    """
    remember_secrets(job.config)
    acknowledge_runs()
    tables = plan_job(job)
    following = _next_run(job)
    control = control or RunControl()
    repeated = settle_earlier_runs(following)
    if repeated is not None and not any(isinstance(one.operator, CollectSink) for one in job.transformations):
        return _done_before(job, control, tables, repeated)
    compiled = compile_job(job.transformations, tables, batch=job.batch)
    result = JobResult(
        control.job_id,
        job.name,
        job.batch,
        "CREATED",
        None,
        now(),
        0,
        [],
        tables,
        compiled,
        job.plan_options.recorded,
    )
    spark = run_session(required_slots(tables))
    named = [NamedSink(one.transformation.name, one.sink) for one in compiled.terminals]
    opened = begin_run(control.job_id, job.name, following.fingerprint, named)
    try:
        with opened:
            with ExitStack() as stack:
                on_change = stack.enter_context(show_run(job.name, compiled))

                def run(limited: CompiledJob) -> list[tuple[int, int, int, pa.Buffer]]:
                    with JobMonitor(_parallelism(compiled), _driver_host(spark), on_change) as monitor:
                        try:
                            return _run(spark, job, control, limited, monitor)
                        finally:
                            result.attempts = [monitor.attempts[key] for key in sorted(monitor.attempts)]

                rows = run_until_enough(
                    compiled, job.batch, run, lambda rows: len(*_deliver(rows, compiled.terminals).values())
                )
            result.collected = _deliver(rows, compiled.terminals)
            if repeated is None:
                commit_run(opened, _committables(rows, compiled.terminals))
            else:
                undo_run(opened)
        result.state = "FINISHED"
    except BaseException as error:
        try:
            undo_run(opened)
        except Exception as left:
            say(f"job {job.name!r}: what it staged is not removed ({left}); `penstock recover` removes it")
        cancelled = isinstance(error, JobCancelledError | KeyboardInterrupt)
        result.state, result.failure = "CANCELED" if cancelled else "FAILED", redact(str(error))
        raise
    finally:
        control.state = result.state
        result.milliseconds = now() - result.started_at
        for listener in run_listeners:
            listener(result)
    if opened.sinks:
        run_is_published(repeated or opened.run)
    return result


#: Called with every run when it has ended: `penstock run` puts what shows and records runs here.
run_listeners: list[Callable[[JobResult], None]] = []


def required_slots(tables: Mapping[str, pa.Table]) -> int:
    """How many slots a job needs: those of all its slot sharing groups."""
    return sum(tables["required_slots"]["slots"].to_pylist())


def _parallelism(compiled: CompiledJob) -> dict[int, int]:
    return {vertex.chain.vertex: vertex.chain.parallelism for vertex in compiled.vertices}


def collect_job(job: Job, sink: Transformation) -> Iterator[Any]:
    """Run `job` and give the records that its `sink`, a CollectSink among its transformations, took."""
    return iter(run_job(job).collected[sink.created])


def _run(
    spark: SparkSession, job: Job, control: RunControl, compiled: CompiledJob, monitor: JobMonitor
) -> list[tuple[int, int, int, pa.Buffer]]:
    context = spark.sparkContext
    dependencies = ship_python(context, job)
    files = cached_files_on_spark(context, job.cached_files)
    settings = task_settings(job, control.job_id, monitor.address, files)
    context.setJobGroup(control.job_id, f"Penstock: {job.name}", interruptOnCancel=True)
    frames = None
    try:
        with spark_settings_for_runs(spark):
            frames = JobFrames(spark, compiled, settings, dependencies, source_dataframes(compiled))
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
    """Print and collect what came to the driver."""
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
    return collected


def _committables(
    rows: list[tuple[int, int, int, pa.Buffer]], terminals: tuple[Terminal, ...]
) -> list[list[Committable]]:
    """Of each sink that is committed, what its writers have for the commit."""
    return [
        [one for edge, _, _, payload in rows if edge == terminal.edge for one in pickle.loads(payload)]
        for terminal in terminals
        if needs_commit(terminal.sink)
    ]


def _next_run(job: Job) -> NextRun:
    """What earlier runs are compared with."""
    sinks = [
        JobSink(one.name, one.operator, one.output_type)
        for one in job.transformations
        if isinstance(one.operator, Sink)
    ]
    options = {
        recovery.folder: given
        for one in sinks
        if (given := getattr(one.sink, "storage_options", None)) and (recovery := recovery_of(one.sink))
    }
    committed = any(needs_commit(one.sink) for one in sinks)
    return NextRun(job.name, job_fingerprint(job) if committed else "", sinks, options)


def _done_before(job: Job, control: RunControl, tables: dict[str, pa.Table], repeated: Run) -> JobResult:
    """The result of a job that an earlier run has done: no vertex has run."""
    say(
        f"job {job.name!r} is not run again: its run {repeated.short_id} of "
        f"{datetime.fromtimestamp(repeated.started_at):%Y-%m-%d %H:%M:%S} is committed, and ended before it "
        "could say so; the next run is a new one"
    )
    control.state = "FINISHED"
    nothing = CompiledJob((), ())
    result = JobResult(
        control.job_id,
        job.name,
        job.batch,
        "FINISHED",
        None,
        now(),
        0,
        [],
        tables,
        nothing,
        job.plan_options.recorded,
    )
    for listener in run_listeners:
        listener(result)
    run_is_published(repeated)
    return result


def _values(payload: pa.Buffer, terminal: Terminal) -> list[Any]:
    type_info = terminal.transformation.output_type
    block = decode(payload, type_info)
    if block.values is not None:
        return block.values
    assert block.batch is not None
    return values_of_batch(block.batch, type_info)


def _driver_host(spark: SparkSession) -> str:
    return spark.sparkContext.getConf().get("spark.driver.host") or "127.0.0.1"
