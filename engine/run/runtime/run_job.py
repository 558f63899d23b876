"""Run a job on Spark: plan it, finish or undo earlier runs, compile it, run one Spark job, commit its sinks.

Source: org.apache.flink.runtime.dispatcher.Dispatcher and jobmaster.JobMaster, for the order of these steps.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.engine.configuration.run_options import SLOT_REQUEST_TIMEOUT
from penstock.engine.output.print_line import print_message
from penstock.engine.run.clusters.slot_request import (
    hold_session_slots,
    slot_request,
    wait_for_cluster_slots,
)
from penstock.engine.run.commits.commit_run import (
    JobSink,
    NamedSink,
    NextRun,
    OpenRun,
    begin_run,
    commit_run,
    finish_earlier_runs,
    undo_run,
)
from penstock.engine.run.commits.journal import JournalRun, forget
from penstock.engine.run.lowering.plan_job import plan_to_run
from penstock.engine.run.lowering.transformations import Job, Transformation
from penstock.engine.run.runtime.compile_job import CompiledJob, compile_job
from penstock.engine.run.runtime.job_monitor import (
    Attempt,
    JobMonitor,
    JobResult,
    RunControl,
    ended,
    now,
    show_run,
)
from penstock.engine.run.runtime.recover_jobs import finished_vertices
from penstock.engine.run.runtime.run_context import RunContext
from penstock.engine.run.runtime.run_environment import read_option, require_bounded_state, run_session
from penstock.engine.run.runtime.run_on_spark import (
    Backoff,
    Rows,
    committables,
    deliver,
    restart_backoff,
    run_on_spark,
    run_until_enough,
    start_again_after_failures,
)
from penstock.engine.run.runtime.spark_application import driver_host, is_remote
from penstock.operators.common.pickles import UnidentifiableError, identify_value, is_installed
from penstock.operators.connectors.recover_sinks import needs_commit, recovery_of
from penstock.operators.connectors.sink import CollectSink, Sink
from penstock.operators.connectors.source import Source
from penstock.operators.files.filesystem import identify_files
from penstock.operators.task.report import ResultsAddress


@dataclass
class BegunRun:
    """A run whose job is planned and compiled, before Spark runs it."""

    job: Job
    context: RunContext
    control: RunControl
    spark: SparkSession
    compiled: CompiledJob
    opened: OpenRun
    repeated: JournalRun | None  #: an earlier run that has committed the output that this one would commit
    result: JobResult
    backoff: Backoff


def run_job(job: Job, context: RunContext, control: RunControl | None = None) -> JobResult:
    """Run `job` of `context` to its end, and commit its sinks.

    If the driver of an earlier run of the same job over the same input was killed within its commit, that
    commit is finished, and this run commits nothing: it does not run at all, unless records are collected.

    Raises JobCompileError, JobExecutionError (which names operator, subtask and record if a user's function
    raised) and JobCancelledError; in these cases nothing is committed. A CommitError lists the parts of the
    commit that are done. In every case, the run listeners of `context` are called with the result.
    """
    begun = begin_job(job, context, control or RunControl())
    if isinstance(begun, JobResult):
        return begun
    with show_run(job.name, begun.compiled) as on_change:
        return end_job(begun, on_change=on_change)


def begin_job(job: Job, context: RunContext, control: RunControl) -> BegunRun | JobResult:
    """Plan and compile `job`, start Spark, and open the run; pass the BegunRun to `end_job`.

    Return a JobResult if an earlier run has done the job, which then does not run again.
    Raises JobCompileError.
    """
    acknowledge_runs(context)
    backoff = restart_backoff(job.config)
    tables = plan_to_run(job)
    following = _next_run(job, context.published[job.name])
    repeated = finish_earlier_runs(following)
    if context.recovery is not None:
        control.recovered = context.recovery.begin(job, tables, control.job_id)
    if not any(isinstance(transformation.operator, CollectSink) for transformation in job.transformations):
        if repeated is not None:
            result = _done_before(job, context, control, tables, _committed_before(repeated))
            run_is_published(context, repeated)
            return result
        if _is_done(control):
            context.published[job.name] += any(needs_commit(sink.sink) for sink in following.sinks)
            return _done_before(job, context, control, tables, "the resumed run has finished it")
    compiled = compile_job(job.lowered.to_run, tables, batch=job.batch)
    require_bounded_state(job, compiled)
    result = _submitted(job, context, control, tables, compiled, "CREATED")
    try:
        spark = control.spark = run_session(context, job.name, compiled, tables)
        named = [NamedSink(terminal.transformation.name, terminal.sink) for terminal in compiled.terminals]
        opened = begin_run(control.job_id, job.name, following.fingerprint, named)
    except BaseException as error:
        ended(control, result, error)
        raise
    return BegunRun(job, context, control, spark, compiled, opened, repeated, result, backoff)


def end_job(
    begun: BegunRun,
    *,
    sending: CompiledJob | None = None,
    address: ResultsAddress | None = None,
    confirm: Callable[[Rows], None] = lambda rows: None,
    on_change: Callable[[JobMonitor], None] = lambda monitor: None,
) -> JobResult:
    """Run `begun` to its end: run it on Spark, commit or undo its sinks, call the listeners. See `run_job`.

    `sending`: the job as it sends its records to `address` while it runs, instead of collecting them.
    `confirm` is called before the commit; it raises if the records read at `address` do not match the output
    of the sinks.
    """
    context, control, terminals, result = begun.context, begun.control, begun.compiled.terminals, begun.result
    try:
        with begun.opened, _slots_of_run(begun):
            rows = _run(begun, sending, address, on_change)
            confirm(rows)
            result.collected = deliver(rows, terminals)
            if begun.repeated is None and not _is_done(control):
                commit_run(begun.opened, committables(rows, terminals))
            else:
                undo_run(begun.opened)
    except BaseException as error:
        _give_up(begun, error)
        raise
    ended(control, result)
    if control.recovered is not None:
        control.recovered.finished()
    if begun.opened.sinks:
        run_is_published(context, begun.repeated or begun.opened.run)
    for listener in context.run_listeners:
        listener(result)
    return result


def collect_job(job: Job, sink: Transformation, context: RunContext) -> Iterator[Any]:
    """Run `job`, and return the records that reached `sink`, a CollectSink among its transformations."""
    return iter(run_job(job, context).collected[sink.created])


# The steps of a run.


def _run(
    begun: BegunRun,
    sending: CompiledJob | None,
    address: ResultsAddress | None,
    on_change: Callable[[JobMonitor], None],
) -> Rows:
    """Run a job on Spark, again if it fails and is to be restarted; return the rows that reach the driver."""
    job, control, compiled = begun.job, begun.control, begun.compiled

    def start(limited: CompiledJob, earlier: list[Attempt]) -> Rows:
        parallelism = _parallelism(limited, compiled, control)
        with JobMonitor(parallelism, driver_host(begun.spark), on_change, earlier) as monitor:
            control.monitor = monitor
            try:
                return run_on_spark(begun.spark, job, control, limited, monitor, address)
            finally:
                begun.result.attempts = [monitor.attempts[key] for key in sorted(monitor.attempts)]

    def run(limited: CompiledJob) -> Rows:
        return start_again_after_failures(
            begun.backoff, control, job.name, begun.spark, lambda earlier: start(limited, earlier)
        )

    if sending is not None:
        return start(sending, [])  # records that are read already cannot be taken back
    return run_until_enough(
        compiled, job.batch, run, lambda rows: len(*deliver(rows, compiled.terminals).values())
    )


def _give_up(begun: BegunRun, error: BaseException) -> None:
    """Undo a run that `error` has ended, unless it is decided to be published, and call the listeners."""
    name = begun.job.name
    try:
        undo_run(begun.opened)
    except Exception as undo_error:
        print_message(
            f"job {name!r}: its staged files are not removed ({undo_error}); `penstock recover` removes them"
        )
    ended(begun.control, begun.result, error)
    for listener in begun.context.run_listeners:
        try:
            listener(begun.result)
        except Exception as listener_error:  # the job's own failure is raised
            print_message(f"job {name!r}: its end is not recorded: {listener_error}")


@contextmanager
def _slots_of_run(begun: BegunRun) -> Iterator[None]:
    """Hold the slots of a run inside the block.

    A local Spark has no slots: if a job has more subtasks than Spark has cores, they run one after the other.
    The slots of a server of Spark Connect are unknown, so the job does not wait for them. Raises
    NoResourceAvailableError after slot.request.timeout, and JobCancelledError.
    """
    job, spark, control = begun.job, begun.spark, begun.control
    session = None if begun.context.spark is None else begun.context.spark.session
    if session is None and (spark is None or is_remote(spark) or _is_local(spark)):
        yield
        return
    request = slot_request(control.job_id, job.name, begun.result.tables, batch=job.batch)
    timeout_seconds = read_option(job.config, SLOT_REQUEST_TIMEOUT) / 1000
    if session is None:
        wait_for_cluster_slots(spark.sparkContext, request, timeout_seconds, control.cancel_requested)
        yield
        return
    with hold_session_slots(session, request, timeout_seconds, control.cancel_requested):
        yield


def _is_local(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).startswith("local")


def _parallelism(limited: CompiledJob, compiled: CompiledJob, control: RunControl) -> dict[int, int]:
    """Return the parallelism of each vertex that runs; vertices of `limited` with saved output do not."""
    recovered = control.recovered
    saved = frozenset[int]() if recovered is None else finished_vertices(recovered.saved, limited)
    return {
        vertex.chain.vertex: vertex.chain.parallelism
        for vertex in compiled.vertices
        if vertex.chain.vertex not in saved
    }


def _is_done(control: RunControl) -> bool:
    return control.recovered is not None and control.recovered.done_before


def _submitted(
    job: Job,
    context: RunContext,
    control: RunControl,
    tables: dict[str, pa.Table],
    compiled: CompiledJob,
    state: str,
) -> JobResult:
    """Return the result of a run that begins now, after calling the submit listeners of `context`."""
    result = JobResult(
        control.job_id,
        job.name,
        job.batch,
        state,
        None,
        now(),
        0,
        [],
        tables,
        compiled,
        job.plan_options.recorded,
    )
    for submitted in context.submit_listeners:
        submitted(result, control)
    return result


# The result of a job that an earlier run has done: none of its vertices runs.


def _done_before(
    job: Job, context: RunContext, control: RunControl, tables: dict[str, pa.Table], why: str
) -> JobResult:
    """Return the result, without any vertex, of a job that an earlier run has done; print `why`."""
    print_message(f"job {job.name!r} is not run again: {why}")
    result = _submitted(job, context, control, tables, CompiledJob((), ()), "FINISHED")
    ended(control, result)
    for listener in context.run_listeners:
        listener(result)
    if control.recovered is not None:
        control.recovered.finished()
    return result


def _committed_before(repeated: JournalRun) -> str:
    """Return the reason not to run a job again whose earlier run was killed after its commit, before it
    could report the commit.
    """
    return (
        f"its run {repeated.short_id} of {datetime.fromtimestamp(repeated.started_at):%Y-%m-%d %H:%M:%S} is "
        "committed, and ended before it could report this; the next run is a new one"
    )


# The run that is about to begin: its sinks, and the fingerprint that a repetition of it has, too.


def _next_run(job: Job, published: int) -> NextRun:
    """Return name, fingerprint, sinks and storage options of the run of `job` that is about to begin;
    `published` runs of that name came before it.
    """
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
    return NextRun(job.name, job_fingerprint(job, published) if committed else "", sinks, options)


def job_fingerprint(job: Job, published: int) -> str:
    """Return a SHA-256 of the job and its input; a random text if one of its parts is unknown.

    Two runs with the same fingerprint repeat each other. It covers the job's name, operators and parameters,
    script and arguments of this process, the user's modules that it has imported, the files that are sent
    along, the number of jobs of that name that are `published` before, the folders of its sinks, the values
    that its functions hold, and the fingerprints of its sources (the records that they would read).
    """
    try:
        known = [
            [job.name, published, job.batch, dict(job.job_parameters), dict(job.config)],
            [_describe_transformation(transformation) for transformation in job.transformations],
            [sys.argv[1:], _script(), *_modules()],
            _files_sent(job),
        ]
    except UnidentifiableError:
        return f"like no other: {uuid4().hex}"
    return hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()


def _describe_transformation(transformation: Transformation) -> list[Any]:
    functions = (
        transformation.key_selectors,
        transformation.key_selector,
        transformation.custom_partitioner,
        transformation.timestamp_extractor,
        transformation.watermark_strategy,
    )
    known: list[Any] = [
        transformation.kind,
        transformation.name,
        transformation.parallelism,
        identify_value(functions),
    ]
    if isinstance(transformation.operator, Source):
        fingerprint = transformation.operator.fingerprint()
        if fingerprint is None:
            raise UnidentifiableError(f"source {transformation.name}")
        return [*known, type(transformation.operator).__qualname__, fingerprint]
    if isinstance(transformation.operator, Sink):
        recovery = recovery_of(transformation.operator)
        return [*known, type(transformation.operator).__qualname__, recovery and recovery.folder]
    return [*known, identify_value(transformation.operator)]


def _script() -> str | None:
    try:
        return Path(sys.argv[0]).read_text(errors="replace")
    except (OSError, IndexError, ValueError):
        return None


def _modules() -> Iterator[list[str]]:
    """Yield the name and digest of each imported module that is the user's own."""
    for name, module in sorted(sys.modules.copy().items()):
        file = getattr(module, "__file__", None)
        if name != "__main__" and isinstance(file, str) and not is_installed(file):
            yield [name, hashlib.sha256(_content(module, file)).hexdigest()]


def _content(module: ModuleType, file: str) -> bytes:
    with suppress(OSError):
        return Path(file).read_bytes()
    try:  # in an archive
        return bytes(module.__loader__.get_data(file))  # type: ignore[union-attr]
    except (AttributeError, OSError) as error:
        raise UnidentifiableError(f"module {module.__name__}") from error


def _files_sent(job: Job) -> list[str]:
    """Return digests of the files that are sent along with a job."""
    archives = [path for path, _ in job.archives]
    cached = [file.path for _, file in sorted(job.cached_files.items())]
    paths = [*job.python_files, *archives, *cached, *filter(None, (job.requirements, job.requirements_cache))]
    digests = []
    for path in paths:
        digest = identify_files([path])
        if digest is None:
            raise UnidentifiableError(path)
        digests.append(digest)
    return digests


# The journal of a published run is removed when the run can no longer be mistaken for a failed one.
#
# A driver that is killed between the commit of a job and the end of its script looks like one that failed,
# and is started again. The journal of the last run therefore stays until the script goes on to its next job
# or ends, so that the second start finds the job done.
#
# Source: org.apache.flink.runtime.highavailability.JobResultStore.markResultAsCleanAsync.


def acknowledge_runs(context: RunContext) -> None:
    """Remove the journals of published runs, because the script has gone on to its next step."""
    while context.unacknowledged:
        with suppress(OSError):  # the run is published; `penstock recover` removes remaining files
            forget(context.unacknowledged.pop())


def run_is_published(context: RunContext, run: JournalRun) -> None:
    """Note that `run` is published; remove its journal, in a script at the next acknowledgement."""
    context.published[run.job] += 1
    context.unacknowledged.append(run)
    if not context.is_script:
        acknowledge_runs(context)
