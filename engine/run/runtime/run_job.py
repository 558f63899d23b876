"""Runs a job on Spark: plan, settle what earlier runs have left, compile, one Spark job, commit of its sinks.

Source: org.apache.flink.runtime.dispatcher.Dispatcher and jobmaster.JobMaster, for the order of things.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.engine.output.redaction import remember_secrets
from penstock.engine.run.commits.acknowledge_runs import acknowledge_runs, published_jobs, run_is_published
from penstock.engine.run.commits.commit_run import NamedSink, OpenRun, begin_run, commit_run, undo_run
from penstock.engine.run.commits.earlier_runs import JobSink, NextRun, say, settle_earlier_runs
from penstock.engine.run.commits.journal import JournalRun
from penstock.engine.run.runtime.compile_job import CompiledJob, compile_job
from penstock.engine.run.runtime.deliver_rows import ResultsToDriver, Rows, committables, deliver
from penstock.engine.run.runtime.job import Job
from penstock.engine.run.runtime.job_fingerprint import job_fingerprint
from penstock.engine.run.runtime.job_monitor import Attempt, JobMonitor, now
from penstock.engine.run.runtime.job_result import JobResult
from penstock.engine.run.runtime.keep_vertices import finished_vertices
from penstock.engine.run.runtime.recover_jobs import recovered_job
from penstock.engine.run.runtime.run_control import RunControl, ended, run_listeners, submit_listeners
from penstock.engine.run.runtime.run_environment import run_session, show_run
from penstock.engine.run.runtime.run_on_spark import run_on_spark, source_dataframes
from penstock.engine.run.runtime.run_settings import plan_to_run
from penstock.engine.run.runtime.run_until_enough import (
    Backoff,
    restart_backoff,
    run_until_enough,
    start_again_after_failures,
)
from penstock.engine.run.runtime.slots_of_run import slots_of_run
from penstock.engine.run.runtime.spark_application import driver_host
from penstock.engine.run.runtime.transformations import Transformation
from penstock.operators.connectors.recover_sinks import needs_commit, recovery_of
from penstock.operators.connectors.sink import CollectSink, Sink
from penstock.operators.task.task_spec import ResultsAddress


@dataclass
class BegunRun:
    """A run whose job is planned and compiled, before Spark runs it."""

    job: Job
    control: RunControl
    spark: SparkSession
    compiled: CompiledJob
    opened: OpenRun
    repeated: JournalRun | None  #: an earlier run that has committed what this one would
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
    tables = plan_to_run(job)
    following = next_run(job)
    repeated = settle_earlier_runs(following)
    recovered = control.recovered = recovered_job(job, tables, control.job_id)
    collects = any(isinstance(transformation.operator, CollectSink) for transformation in job.transformations)
    if repeated is not None and not collects:
        result = job_done_before(job, control, tables, committed_before(repeated))
        run_is_published(repeated)
        return result
    if recovered is not None and recovered.done_before and not collects:
        published_jobs[job.name] += any(needs_commit(sink.sink) for sink in following.sinks)
        return job_done_before(job, control, tables, "the run that is resumed has finished it")
    compiled = compile_job(job.lowered.to_run, tables, batch=job.batch)
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
        spark = control.spark = run_session(required_slots(tables), source_dataframes(job.name, compiled))
        named = [NamedSink(terminal.transformation.name, terminal.sink) for terminal in compiled.terminals]
        opened = begin_run(control.job_id, job.name, following.fingerprint, named)
    except BaseException as error:
        ended(control, result, error)
        raise
    return BegunRun(job, control, spark, compiled, opened, repeated, result, backoff)


def end_job(
    begun: BegunRun,
    *,
    results: ResultsToDriver | None = None,
    address: ResultsAddress | None = None,
    confirm: Callable[[Rows], None] = lambda rows: None,
    on_change: Callable[[JobMonitor], None] = lambda monitor: None,
) -> JobResult:
    """Run what is begun to its end, as `run_job` says.

    With `results`, its records are not collected, but sent to `address` while the job runs; `confirm` raises,
    before the commit, if what was read there does not belong to what the sinks get.
    """
    job, control, compiled, result = begun.job, begun.control, begun.compiled, begun.result
    try:
        with (
            begun.opened,
            slots_of_run(job, begun.spark, result.tables, control.job_id, control.cancel_requested),
        ):

            def start(limited: CompiledJob, earlier: list[Attempt]) -> Rows:
                parallelism = _parallelism(limited, compiled, control)
                with JobMonitor(parallelism, driver_host(begun.spark), on_change, earlier) as monitor:
                    control.monitor = monitor
                    try:
                        return run_on_spark(begun.spark, job, control, limited, monitor, address)
                    finally:
                        result.attempts = [monitor.attempts[key] for key in sorted(monitor.attempts)]

            def run(limited: CompiledJob) -> Rows:
                return start_again_after_failures(
                    begun.backoff, control, job.name, begun.spark, lambda earlier: start(limited, earlier)
                )

            if results is not None:
                rows = start(results.compiled, [])  # records that are read already cannot be taken back
                confirm(rows)
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
        except Exception as undo_error:
            say(
                f"job {job.name!r}: what it staged is not removed ({undo_error}); "
                "`penstock recover` removes it"
            )
        ended(control, result, error)
        for listener in run_listeners:
            try:
                listener(result)
            except Exception as unheard:  # the job's own failure is what counts
                say(f"job {job.name!r}: how it ended is not noted: {unheard}")
        raise
    ended(control, result)
    if control.recovered is not None:
        control.recovered.finished()
    if begun.opened.sinks:
        run_is_published(begun.repeated or begun.opened.run)
    for listener in run_listeners:
        listener(result)
    return result


def required_slots(tables: Mapping[str, pa.Table]) -> int:
    """How many slots a job needs: those of all its slot sharing groups."""
    return sum(tables["required_slots"]["slots"].to_pylist())


def _parallelism(limited: CompiledJob, compiled: CompiledJob, control: RunControl) -> dict[int, int]:
    """The parallelism of each vertex that runs: all but those of `limited` whose results are kept."""
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


def _is_done(control: RunControl) -> bool:
    return control.recovered is not None and control.recovered.done_before


# The result of a job that an earlier run has done: none of its vertices runs.


def job_done_before(job: Job, control: RunControl, tables: dict[str, pa.Table], why: str) -> JobResult:
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
    ended(control, result)
    for listener in run_listeners:
        listener(result)
    if control.recovered is not None:
        control.recovered.finished()
    return result


def committed_before(repeated: JournalRun) -> str:
    """Why a job is not run again whose earlier run had committed, and was killed before it could say so."""
    return (
        f"its run {repeated.short_id} of {datetime.fromtimestamp(repeated.started_at):%Y-%m-%d %H:%M:%S} is "
        "committed, and ended before it could say so; the next run is a new one"
    )


# A job that is about to run, as earlier runs of it are compared with it.


def next_run(job: Job) -> NextRun:
    """The run that is about to begin, as earlier runs are compared with it."""
    sinks = [
        JobSink(transformation.name, transformation.operator, transformation.output_type)
        for transformation in job.transformations
        if isinstance(transformation.operator, Sink)
    ]
    options = {
        recovery.folder: storage_options
        for sink in sinks
        if (storage_options := getattr(sink.sink, "storage_options", None))
        and (recovery := recovery_of(sink.sink))
    }
    committed = any(needs_commit(sink.sink) for sink in sinks)
    return NextRun(job.name, job_fingerprint(job) if committed else "", sinks, options)
