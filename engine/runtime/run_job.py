"""Runs a job on Spark: plan, settle what earlier runs have left, compile, one Spark job, commit of its sinks.

Source: org.apache.flink.runtime.dispatcher.Dispatcher and jobmaster.JobMaster, for the order of things.
"""

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from engine.commits.acknowledge_runs import acknowledge_runs, published_jobs, run_is_published
from engine.commits.commit_run import NamedSink, OpenRun, begin_run, commit_run, undo_run
from engine.commits.earlier_runs import JobSink, NextRun, say, settle_earlier_runs
from engine.commits.journal import Run
from engine.output.redaction import redact, remember_secrets
from engine.runtime.compile_job import CompiledJob, compile_job
from engine.runtime.deliver_rows import Rows, committables, deliver, terminal_rows
from engine.runtime.describe_failure import describe_failure
from engine.runtime.errors import JobCancelledError
from engine.runtime.exchange_on_spark import JobFrames
from engine.runtime.job import Job
from engine.runtime.job_fingerprint import job_fingerprint
from engine.runtime.job_monitor import Attempt, JobMonitor, now
from engine.runtime.job_result import JobResult
from engine.runtime.keep_vertices import KeptVertices, finished_vertices
from engine.runtime.plan_job import plan_job
from engine.runtime.recover_jobs import RecoveredJob, recovered_job
from engine.runtime.restart_backoff import Backoff, restart_backoff
from engine.runtime.results_to_driver import ResultsToDriver
from engine.runtime.run_environment import cached_files_on_spark, run_session, show_run
from engine.runtime.run_settings import spark_settings_for_runs, task_settings
from engine.runtime.run_until_enough import run_until_enough
from engine.runtime.ship_python import ship_python
from engine.runtime.start_again import start_again_after_failures
from engine.runtime.transformations import Transformation
from operators.connectors.recover_sinks import needs_commit, recovery_of
from operators.connectors.sink import CollectSink, Sink
from operators.task.task_spec import ResultsAddress


@dataclass
class RunControl:
    """A run while it lasts: its id, its state, and whether it was asked to stop."""

    job_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    cancel_requested: threading.Event = field(default_factory=threading.Event)
    submitted: threading.Event = field(default_factory=threading.Event)  #: it is with Spark's scheduler
    state: str = "CREATED"  #: JobStatus
    monitor: JobMonitor | None = None  #: while Spark runs it
    recovered: RecoveredJob | None = None  #: what is kept of it
    on_end: "list[Callable[[JobResult], None]]" = field(default_factory=list)

    def cancel(self) -> None:
        """Stop the run; it ends as CANCELED."""
        self.cancel_requested.set()
        context = SparkContext._active_spark_context
        if context is not None:
            # jobs of the run that Spark does not know yet are not to start either
            context._jsc.sc().cancelJobGroupAndFutureJobs(self.job_id)


@dataclass
class BegunRun:
    """A run whose job is planned and compiled, before Spark runs it."""

    job: Job
    control: RunControl
    spark: SparkSession
    compiled: CompiledJob
    opened: OpenRun
    repeated: Run | None  #: an earlier run that has committed what this one would
    result: JobResult
    backoff: Backoff


def run_job(job: Job, control: RunControl | None = None) -> JobResult:
    """Run `job` to its end, and commit its sinks.

    Where the driver of an earlier run of the same job over the same input was killed within its commit, that
    commit is finished, and this run commits nothing: it is not run, unless records are collected.

    Raises JobCompileError, JobExecutionError (which names operator, subtask and record where a user's
    function raised) and JobCancelledError; then nothing is committed. CommitError says what of the commit is
    done. However it ends, the run is handed to those who listen (`run_listeners`).
    """
    begun = begin_job(job, control or RunControl())
    if isinstance(begun, JobResult):
        return begun
    with show_run(job.name, begun.compiled) as on_change:
        return end_job(begun, on_change=on_change)


def begin_job(job: Job, control: RunControl) -> BegunRun | JobResult:
    """Plan and compile `job`, start Spark, and open the run; the result of a job that is not run again.

    Raises JobCompileError. What is begun is to be handed to `end_job`.
    """
    remember_secrets(job.config)
    acknowledge_runs()
    backoff = restart_backoff(job.config)
    tables = plan_job(job)
    following = _next_run(job)
    repeated = settle_earlier_runs(following)
    recovered = control.recovered = recovered_job(job, tables, control.job_id)
    collects = any(isinstance(one.operator, CollectSink) for one in job.transformations)
    if repeated is not None and not collects:
        result = _done_before(job, control, tables, _committed_before(repeated))
        run_is_published(repeated)
        return result
    if recovered is not None and recovered.done_before and not collects:
        published_jobs[job.name] += any(needs_commit(one.sink) for one in following.sinks)
        return _done_before(job, control, tables, "the run that is resumed has finished it")
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
    for submitted in submit_listeners:
        submitted(result, control)
    try:
        spark = run_session(required_slots(tables))
        named = [NamedSink(one.transformation.name, one.sink) for one in compiled.terminals]
        opened = begin_run(control.job_id, job.name, following.fingerprint, named)
    except BaseException as error:
        _ended(control, result, error)
        raise
    return BegunRun(job, control, spark, compiled, opened, repeated, result, backoff)


def end_job(
    begun: BegunRun,
    *,
    results: ResultsToDriver | None = None,
    address: ResultsAddress | None = None,
    on_change: Callable[[JobMonitor], None] = lambda monitor: None,
) -> JobResult:
    """Run what is begun to its end, as `run_job` says.

    With `results`, its records are not collected, but sent to `address` while the job runs.
    """
    job, control, compiled, result = begun.job, begun.control, begun.compiled, begun.result
    try:
        with begun.opened:

            def start(limited: CompiledJob, earlier: list[Attempt]) -> Rows:
                parallelism = _parallelism(limited, compiled, control)
                with JobMonitor(parallelism, driver_host(begun.spark), on_change, earlier) as monitor:
                    control.monitor = monitor
                    try:
                        return _run(begun.spark, job, control, limited, monitor, address)
                    finally:
                        result.attempts = [monitor.attempts[key] for key in sorted(monitor.attempts)]

            def run(limited: CompiledJob) -> Rows:
                return start_again_after_failures(
                    begun.backoff, control, job.name, begun.spark, lambda earlier: start(limited, earlier)
                )

            if results is not None:
                rows = start(results.compiled, [])  # records that are read already cannot be taken back
            else:
                rows = run_until_enough(
                    compiled, job.batch, run, lambda rows: len(*deliver(rows, compiled.terminals).values())
                )
            result.collected = deliver(rows, compiled.terminals)
            if begun.repeated is None and not _is_done(control):
                commit_run(begun.opened, committables(rows, compiled.terminals))
            else:
                undo_run(begun.opened)
    except BaseException as error:
        try:
            undo_run(begun.opened)
        except Exception as left:
            say(f"job {job.name!r}: what it staged is not removed ({left}); `penstock recover` removes it")
        _ended(control, result, error)
        raise
    else:
        _ended(control, result)
    finally:
        for listener in run_listeners:
            listener(result)
    if control.recovered is not None:
        control.recovered.finished()
    if begun.opened.sinks:
        run_is_published(begun.repeated or begun.opened.run)
    return result


def _ended(control: RunControl, result: JobResult, error: BaseException | None = None) -> None:
    """Say how the run has ended: in its result, to those who query it, and in the list of jobs."""
    cancelled = isinstance(error, JobCancelledError | KeyboardInterrupt)
    result.state = "FINISHED" if error is None else "CANCELED" if cancelled else "FAILED"
    result.failure = None if error is None else redact(str(error))
    result.milliseconds = now() - result.started_at
    control.state = result.state
    for listener in control.on_end:
        listener(result)


#: Called with every run when it is planned and compiled, before Spark starts.
submit_listeners: list[Callable[[JobResult, RunControl], None]] = []

#: Called with every run when it has ended: `penstock run` puts what shows and records runs here.
run_listeners: list[Callable[[JobResult], None]] = []


def required_slots(tables: Mapping[str, pa.Table]) -> int:
    """How many slots a job needs: those of all its slot sharing groups."""
    return sum(tables["required_slots"]["slots"].to_pylist())


def _parallelism(limited: CompiledJob, compiled: CompiledJob, control: RunControl) -> dict[int, int]:
    """Of each vertex that runs: all but those of `limited` whose results are kept."""
    recovered = control.recovered
    kept = frozenset[int]() if recovered is None else finished_vertices(recovered.kept, limited)
    return {
        vertex.chain.vertex: vertex.chain.parallelism
        for vertex in compiled.vertices
        if vertex.chain.vertex not in kept
    }


def collect_job(job: Job, sink: Transformation) -> Iterator[Any]:
    """Run `job` and give the records that its `sink`, a CollectSink among its transformations, took."""
    return iter(run_job(job).collected[sink.created])


def _run(
    spark: SparkSession,
    job: Job,
    control: RunControl,
    compiled: CompiledJob,
    monitor: JobMonitor,
    address: ResultsAddress | None,
) -> Rows:
    context = spark.sparkContext
    dependencies = ship_python(context, job)
    files = cached_files_on_spark(context, job.cached_files)
    settings = task_settings(job, control.job_id, monitor.address, files, address)
    settings = replace(settings, first_attempts=monitor.first_attempts)
    context.setJobGroup(control.job_id, f"Penstock: {job.name}", interruptOnCancel=True)
    frames = None
    try:
        with spark_settings_for_runs(spark):

            def submit() -> None:
                monitor.submitted(None if address is None else address.here)
                control.state = "RUNNING"
                control.submitted.set()

            recovered = control.recovered
            kept = None if recovered is None else KeptVertices(spark, recovered.kept, compiled, submit)
            frames = JobFrames(
                spark, compiled, settings, dependencies, source_dataframes(compiled), kept=kept
            )
            if kept is None:
                submit()
            if control.cancel_requested.is_set():
                raise KeyboardInterrupt
            table = frames.terminal().toArrow()
        monitor.ended(finished=True)
        if address is not None and address.here is not None and _only_to_driver(compiled, address):
            monitor.count_here(address.here, address.vertices)
        return terminal_rows(table)
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


def _only_to_driver(compiled: CompiledJob, address: ResultsAddress) -> bool:
    writers = [one.chain for one in compiled.vertices if one.chain.vertex in address.vertices]
    return all(output.to_driver for chain in writers for output in chain.outputs)


def source_dataframes(compiled: CompiledJob) -> Mapping[int, DataFrame]:
    """Of each vertex that reads a DataFrame, that DataFrame."""
    return {
        vertex.chain.vertex: one.operator.dataframe()
        for vertex in compiled.vertices
        for one in vertex.chain.operators
        if one.source and getattr(one.operator, "reads_dataframe", False)
    }


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


def _is_done(control: RunControl) -> bool:
    return control.recovered is not None and control.recovered.done_before


def _committed_before(repeated: Run) -> str:
    return (
        f"its run {repeated.short_id} of {datetime.fromtimestamp(repeated.started_at):%Y-%m-%d %H:%M:%S} is "
        "committed, and ended before it could say so; the next run is a new one"
    )


def _done_before(job: Job, control: RunControl, tables: dict[str, pa.Table], why: str) -> JobResult:
    """The result of a job that an earlier run has done: no vertex has run."""
    say(f"job {job.name!r} is not run again: {why}")
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
    for submitted in submit_listeners:
        submitted(result, control)
    _ended(control, result)
    for listener in run_listeners:
        listener(result)
    if control.recovered is not None:
        control.recovered.finished()
    return result


def driver_host(spark: SparkSession) -> str:
    """Where workers reach this process."""
    return spark.sparkContext.getConf().get("spark.driver.host") or "127.0.0.1"
