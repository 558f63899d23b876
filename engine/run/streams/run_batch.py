"""Run a batch of a stream as one job: it goes on from the last version of the state, and makes the next one.

One micro-batch is one checkpoint. The state is one more sink of the batch: the decision in the journal of the
batch's commit covers the new version and all rows. A batch whose version exists is skipped, because Spark
repeats the last batch after a failure. If a driver was killed, the next batch finishes or undoes its commit.

Source: org.apache.flink.runtime.checkpoint.CheckpointCoordinator, and the two phases of
org.apache.flink.streaming.api.functions.sink.TwoPhaseCommitSinkFunction.
"""

from __future__ import annotations

import gc
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.engine.machine.machine_error import machine_error, with_exit_code_of_disk
from penstock.engine.output.print_line import print_message
from penstock.engine.planning.remembered_plans import remembered
from penstock.engine.run.commits import journal
from penstock.engine.run.commits.commit_run import (
    NamedSink,
    OpenRun,
    Options,
    begin_run,
    commit_run,
    decision_of,
    is_known,
    publish_rest,
    undo,
    undo_run,
)
from penstock.engine.run.lowering.plan_job import plan_to_run
from penstock.engine.run.lowering.transformations import Job, topology_to_run
from penstock.engine.run.runtime.compile_job import CompiledJob, compile_job
from penstock.engine.run.runtime.exchange_on_spark import JobFrames
from penstock.engine.run.runtime.job_monitor import JobMonitor, RunControl
from penstock.engine.run.runtime.run_context import current_context
from penstock.engine.run.runtime.run_environment import run_session
from penstock.engine.run.runtime.run_on_spark import Rows, committables, deliver, run_on_spark
from penstock.engine.run.runtime.spark_application import driver_host
from penstock.engine.run.streams.restore_state import (
    Manifest,
    job_to_restore,
    manifest_of_batch,
    require_streamable,
    restored_batch,
)
from penstock.operators.connectors.recover_sinks import recovery_of
from penstock.operators.connectors.state_sink import (
    FORMAT,
    StateSink,
    committable_of,
    read_manifest,
    remove_old_versions,
    versions_in,
)
from penstock.operators.task.report import StreamSettings
from penstock.operators.task.stream_batch import STATE_EDGE, parsed_report
from penstock.plans.errors import ConfigurationError, PenstockError, StoreError

_BATCHES_BEFORE_COLLECTION = 10
"""Python's handles of objects of the JVM refer to themselves, and a driver that allocates little hardly ever
collects them: the DataFrames of many batches would stay, with the files of their shuffles."""


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A micro-batch: its number, and the id of its query; None outside of a query."""

    batch_id: int
    query: str | None
    duration_ms: dict[str, int] = field(default_factory=dict)  #: by the names of StreamingQueryProgress

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Add the time of the block to a part of the batch."""
        began = time.monotonic()
        try:
            yield
        finally:
            took = round((time.monotonic() - began) * 1000)
            self.duration_ms[part] = self.duration_ms.get(part, 0) + took


class Ending:
    """The rows of a job that reach the driver: here only those of its own sinks."""

    def compiled(self, job: Job, compiled: CompiledJob) -> CompiledJob:
        """Return the job as it runs."""
        return compiled

    def read(self, frames: JobFrames) -> pa.Table:
        """Run the job, and return its terminal rows."""
        table: pa.Table = frames.terminal().toArrow()
        return table


@dataclass(frozen=True, kw_only=True)
class StateOptions:
    """Where the state of a stream is, and how it is restored."""

    folder: str
    keep: int
    new_query: bool
    allow_non_restored_state: bool


def last_manifest(folder: str) -> Manifest | None:
    """Return the manifest of the last version of a store; None if there is none.

    Raises ConfigurationError if a later Penstock has written it, StoreError if it cannot be read.
    """
    with _named_state(folder):
        versions = versions_in(folder)
        manifest = read_manifest(folder, versions[-1]) if versions else None
    if manifest is None:
        return None
    if manifest.get("format") != FORMAT:
        raise ConfigurationError(
            f"state {folder}: its format must be {FORMAT}, got {manifest.get('format')!r}",
            "a later version of Penstock has written it",
        )
    return manifest


def is_done(manifest: Manifest | None, batch: Batch, options: StateOptions) -> bool:
    """Whether the state holds the batch already.

    Raises ConfigurationError if the batch does not follow on the last one, so that rows would be missing or
    counted twice.
    """
    if manifest is None:
        if batch.query is None or not batch.batch_id or options.new_query:
            return False
        raise ConfigurationError(
            f"foreach_batch: there is no state in {options.folder}, and this is batch {batch.batch_id} of "
            f"query {batch.query}: the state of the batches before is missing",
            "take the state folder of the query, or begin it with a new checkpoint location; "
            "new_query=True goes on without state all the same",
        )
    last, query = manifest["batch_id"], manifest["query"]
    if query == batch.query:
        if batch.batch_id <= last:
            return True
        if batch.batch_id == last + 1 or options.new_query:
            return False
        problem = f"ends with batch {last}, and this is batch {batch.batch_id}: the rows between are missing"
    elif options.new_query:
        return False
    else:
        problem = (
            f"ends with batch {last} of query {query}, and this is batch {batch.batch_id} of query "
            f"{batch.query}, which may read the same rows again"
        )
    raise ConfigurationError(
        f"foreach_batch: the state in {options.folder} {problem}",
        "take the checkpoint location of the query that made the state, or another state folder; "
        "new_query=True goes on with the state all the same",
    )


def run_batch(job: Job, batch: Batch, options: StateOptions, ending: Ending) -> Manifest | None:
    """Run `job` over the rows of `batch`, and commit its sinks and its state as one.

    Return the manifest of the new version; None if the batch was done before. Raises JobCompileError,
    JobExecutionError, CommitError, and ConfigurationError as `is_done` does.
    """
    folder = options.folder
    with batch.timed("queryPlanning"):
        tables = plan_to_run(job)
        compiled = compile_job(job.lowered.to_run, tables, batch=job.batch)
        require_streamable(job.name, compiled, batch=job.batch)
        compiled = ending.compiled(job, compiled)
        new = remembered("savepoints", topology_to_run(job), lambda: job_to_restore(tables))
    spark = run_session(current_context(), job.name, compiled, tables)
    control = RunControl(spark=spark)
    state_sink = StateSink(folder, 0).start()
    sinks = [NamedSink(f"state {folder}", state_sink)]
    sinks += [NamedSink(terminal.name, terminal.sink) for terminal in compiled.terminals]
    fingerprint = f"batch {batch.batch_id} of {batch.query}"
    with batch.timed("commitBatch"), _named_state(folder):
        opened = begin_run(control.job_id, job.name, fingerprint, sinks)
    with opened, _undone_on_failure(opened):
        # this run is recorded before others are looked for, so that of two drivers one sees the other
        finish_other_runs(folder, control.job_id, _storage_options(compiled))
        before = last_manifest(folder)
        if is_done(before, batch, options):
            undo_run(opened)
            return None
        version = 1 if before is None else before["version"] + 1
        with _named_state(folder):
            compiled, settings = restored_batch(
                folder,
                version,
                compiled,
                new,
                before,
                allow_non_restored_state=options.allow_non_restored_state,
            )
        started_at = time.time()
        with batch.timed("addBatch"):
            rows = _run(job, control, compiled, settings, ending)
        reports = [parsed_report(payload) for edge, _, _, payload in rows if edge == STATE_EDGE]
        manifest = {
            "format": FORMAT,
            "version": version,
            "batch_id": batch.batch_id,
            "query": batch.query,
            "run_id": control.job_id,
            "job": job.name,
            "started_at": started_at,
            "run_seconds": round(time.time() - started_at, 3),
            **manifest_of_batch(compiled, settings, reports, before),
        }
        # before the commit, like Flink's print: a repeated batch prints its lines again, and none is lost
        deliver(rows, compiled.terminals)
        with batch.timed("commitBatch"):
            commit_run(opened, [[committable_of(manifest)], *committables(rows, compiled.terminals)])
    with batch.timed("commitBatch"):
        journal.forget(opened.run)
        if version % _BATCHES_BEFORE_COLLECTION == 0:
            gc.collect()
        if version % options.keep == 0:
            try:
                remove_old_versions(folder, version, options.keep)
                journal.remove_begun(folder)
            except (OSError, ValueError) as error:  # the batch is committed
                print_message(f"state {folder}: old versions are not removed: {error}")
    return manifest


@contextmanager
def _named_state(folder: str) -> Iterator[None]:
    """Raise StoreError with the folder of the state if it cannot be read or written."""
    try:
        yield
    except PenstockError:
        raise
    except (OSError, ValueError) as error:
        refusal = machine_error(error)
        hint = "bring the files back from a copy of the state, or begin with another folder and checkpoint"
        if isinstance(error, OSError):
            hint = (refusal and refusal.hint) or "state= must be a folder that all workers can read and write"
        raise with_exit_code_of_disk(StoreError(f"state {folder}: {error}", hint)) from error


def _run(
    job: Job,
    control: RunControl,
    compiled: CompiledJob,
    settings: StreamSettings,
    ending: Ending,
) -> Rows:
    spark: Any = control.spark
    parallelism = {vertex.chain.vertex: vertex.chain.parallelism for vertex in compiled.vertices}
    with JobMonitor(parallelism, driver_host(spark)) as monitor:
        control.monitor = monitor
        return run_on_spark(spark, job, control, compiled, monitor, None, settings, ending.read)


@contextmanager
def _undone_on_failure(opened: OpenRun) -> Iterator[None]:
    """Undo the run if the block raises before the decision to publish it.

    Raises StoreError if another driver has undone it.
    """
    try:
        yield
    except BaseException as failure:
        if isinstance(failure, Exception) and _is_undone(opened):
            raise StoreError(
                f"batch of job {opened.run.job!r}: another driver runs the same stream, and has undone this "
                f"batch; the state of both is in {opened.run.folders[0]}",
                "stop one of the two; the other one goes on with the stream",
            ) from failure
        try:
            undo_run(opened)
        except Exception as error:
            print_message(
                f"the staged files of a batch are not removed ({error}); `penstock recover` removes them"
            )
        raise


def _is_undone(opened: OpenRun) -> bool:
    try:
        if not is_known(opened.run):
            return True
        decision = decision_of(opened.run)
    except (OSError, ValueError):
        return False
    return decision is not None and not decision.publish


def finish_other_runs(folder: str, run_id: str, options: Options) -> None:
    """Publish the batches of a store that were decided to be published, and undo the others.

    A batch that another driver still runs is undone, too: it can no longer be decided, so that of two drivers
    only one makes a version. Raises CommitError if a batch cannot be published, and StoreError if a journal
    cannot be read: its batch may be published in part.
    """
    parts, unreadable = journal.parts_in(folder)
    runs, homeless = journal.runs_of(parts)
    for entry in (*unreadable, *homeless):
        raise StoreError(
            f"state {folder}: the journal {entry.path} of a batch cannot be read: {entry.why}",
            f"`penstock recover {shlex.quote(folder)}` lists what is left of it",
        )
    for run in runs:
        if run.run_id == run_id or not any(
            sink.recovery and sink.recovery.kind == "state" for sink in run.sinks
        ):
            continue
        if undo(run, options=options):
            print_message(f"batch {run.short_id} of job {run.job!r} ended before its commit; it is undone")
            continue
        publish_rest(run, options=options)
        journal.forget(run)
        print_message(
            f"batch {run.short_id} of job {run.job!r} ended within its commit, which is finished now"
        )


def _storage_options(compiled: CompiledJob) -> Options:
    found: dict[str, Any] = {}
    for terminal in compiled.terminals:
        storage_options = getattr(terminal.sink, "storage_options", None)
        recovery = recovery_of(terminal.sink) if storage_options else None
        if recovery is not None:
            found[recovery.folder] = storage_options
    return found
