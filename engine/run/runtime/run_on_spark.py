"""Run a compiled job on Spark: as one Spark job, or vertex by vertex if finished data sets are saved.

A limited job runs on growing prefixes of its input, and a job that fails is started again if its restart
strategy allows it.
"""

from __future__ import annotations

import pickle
import random
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.engine.configuration import run_options as options
from penstock.engine.machine.machine_error import with_exit_code_of_disk
from penstock.engine.output.print_line import print_message
from penstock.engine.run.lowering.transformations import Job
from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex, Terminal
from penstock.engine.run.runtime.exchange_on_spark import JobFrames
from penstock.engine.run.runtime.job_monitor import Attempt, JobMonitor, RunControl, now
from penstock.engine.run.runtime.recover_jobs import SavedVertices
from penstock.engine.run.runtime.run_environment import (
    cached_files_on_spark,
    read_option,
    ship_python,
    spark_settings_for_runs,
    task_settings,
    workers_python,
)
from penstock.engine.run.runtime.spark_application import cancel_group, is_remote, job_group
from penstock.engine.spark.describe_spark_error import describe_spark_error, disk_error_of_spark
from penstock.engine.spark.drop_dead_workers import drop_dead_workers
from penstock.operators.chain.errors import shortened
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.recover_sinks import needs_commit
from penstock.operators.connectors.sink import CollectSink, Committable, PrintSink
from penstock.operators.exchange.blocks import decode, values_of_batch
from penstock.operators.exchange.channel_writer import CUT_OFF
from penstock.operators.task.report import ResultsAddress, StreamSettings
from penstock.plans.errors import JobCancelledError, JobCompileError, JobExecutionError, LostResultsError
from penstock.plans.vocabulary import ExecutionState

# Rows that subtasks send to the driver: lines to print, records, and committables of sinks.


#: (edge, channel, sequence, payload)
Rows = list[tuple[int, int, int, pa.Buffer]]


def _terminal_rows(table: pa.Table) -> Rows:
    """Return the rows of `table`, sorted by edge, channel and sequence, which is the order of each sink."""
    return sorted(_rows(table), key=lambda row: row[:3])


def deliver(rows: Rows, terminals: tuple[Terminal, ...]) -> dict[int, list[Any]]:
    """Print the lines in `rows`, and return the collected records by `Transformation.created`."""
    collected: dict[int, list[Any]] = {}
    for terminal in terminals:
        mine = [payload for edge, _, _, payload in rows if edge == terminal.edge]
        if isinstance(terminal.sink, CollectSink):
            values: list[Any] = []
            for payload in mine:
                values.extend(records(payload, terminal.transformation.output_type))
            collected[terminal.transformation.created] = values
        elif isinstance(terminal.sink, PrintSink):
            stream = sys.stderr if terminal.sink.to_stderr else sys.stdout
            for payload in mine:
                stream.writelines(line + "\n" for line in pickle.loads(payload))
            stream.flush()
    return collected


def committables(rows: Rows, terminals: tuple[Terminal, ...]) -> list[list[Committable]]:
    """Return the committables of the writers, one list for each sink that is committed."""
    return [
        [
            committable
            for edge, _, _, payload in rows
            if edge == terminal.edge
            for committable in pickle.loads(payload)
        ]
        for terminal in terminals
        if needs_commit(terminal.sink)
    ]


def records(payload: Any, type_info: TypeInformation | None) -> list[Any]:
    """Return the records of a block."""
    block = decode(payload, type_info)
    if block.values is not None:
        return block.values
    assert block.batch is not None
    return values_of_batch(block.batch, type_info)


def _rows(table: pa.Table) -> Iterator[tuple[int, int, int, pa.Buffer]]:
    for batch in table.to_batches():
        keys = zip(*(batch.column(name).to_pylist() for name in ("edge", "channel", "sequence")), strict=True)
        payloads = batch.column("payload")
        for row, (edge, channel, sequence) in enumerate(keys):
            yield edge, channel, sequence, payloads[row].as_buffer()


_SIGNS_OF_CANCEL = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED")


def run_on_spark(
    spark: SparkSession,
    job: Job,
    control: RunControl,
    compiled: CompiledJob,
    monitor: JobMonitor,
    address: ResultsAddress | None,
    stream: StreamSettings | None = None,
    read: Callable[[JobFrames], pa.Table] = lambda frames: frames.terminal().toArrow(),
) -> Rows:
    """Run `compiled`, and return the rows of its terminal vertices; `monitor` listens to its tasks.

    `stream`: the job is a batch of a stream. `read` runs the job, and returns the terminal rows.
    Raises JobCancelledError, and JobExecutionError with the place and cause of the failure.
    """
    if not is_remote(spark):
        drop_dead_workers(spark)
    dependencies = ship_python(spark, job)
    files = cached_files_on_spark(spark, job.cached_files)
    settings = task_settings(job, control.job_id, monitor.address, files, address)
    settings = replace(settings, first_attempts=monitor.first_attempts, stream=stream)
    try:
        with (
            job_group(spark, control.job_id, f"Penstock: {job.name}"),
            spark_settings_for_runs(spark),
            workers_python(spark, job),
        ):

            def submit() -> None:
                monitor.submitted(None if address is None else address.here)
                control.state = "RUNNING"
                control.submitted.set()
                if control.cancel_requested.is_set():
                    raise KeyboardInterrupt

            recovered = control.recovered
            saved = None if recovered is None else SavedVertices(spark, recovered.saved, compiled, submit)
            frames = JobFrames(spark, compiled, settings, dependencies, saved=saved)
            if saved is None:
                submit()
            table = read(frames)
        if stream is None:  # nothing reads the attempts of a batch that has not failed
            monitor.ended(finished=True)
        if address is not None and address.here is not None and _only_to_driver(compiled, address):
            monitor.count_here(address.here, address.vertices)
        return _terminal_rows(table)
    except KeyboardInterrupt as error:
        monitor.cancelling()
        with suppress(PySparkException):  # a session that has ended
            cancel_group(spark, control.job_id)
        monitor.ended(finished=False)
        raise JobCancelledError(f"job {job.name!r} was cancelled; nothing of it is committed") from error
    except (PySparkException, Py4JError) as error:
        # on Ctrl-C PySpark's own handler cancels all jobs; its error may arrive before KeyboardInterrupt
        cancelled = control.cancel_requested.is_set() or any(sign in str(error) for sign in _SIGNS_OF_CANCEL)
        if cancelled:
            monitor.cancelling()
            monitor.ended(finished=False)
            raise JobCancelledError(f"job {job.name!r} was cancelled; nothing of it is committed") from None
        failure = describe_failure(job.name, compiled, monitor, error)
        monitor.ended(finished=False)
        raise failure from None


def _only_to_driver(compiled: CompiledJob, address: ResultsAddress) -> bool:
    writers = [vertex.chain for vertex in compiled.vertices if vertex.chain.vertex in address.vertices]
    return all(output.to_driver for chain in writers for output in chain.outputs)


# The message of a failed job: the failure that a subtask reported, else Spark's own error.


_NAME_CHARACTERS = 200
#: Parts of Spark's error if a Python worker has ended in the middle of its work.
_SIGNS_OF_A_DEAD_WORKER = (
    "EOFException",
    "Python worker exited unexpectedly",
    "Connection reset",
    "Broken pipe",
)
_HINT_OF_A_DEAD_WORKER = (
    "a function has ended the process (os._exit), a native library has crashed, or the system has killed it "
    "for lack of memory (see the worker's standard error, and dmesg). If memory is the cause: give the "
    "machine more, run fewer subtasks at a time (a smaller parallelism, spark.executor.cores or local[n]), "
    "or hold less in functions and state (penstock.state.memory-bytes)"
)
#: Spark's errors if it cannot run all readers of lost results again.
_LOST_RESULTS = re.compile(
    "(?:of|with) indeterminate (?:output|results)|indeterminate output of shuffle map stage"
    "|cannot rollback (?:a running|completed) result stage|CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
)
_DESCRIBED_LOST_RESULTS = (
    "an executor was lost, and with it results that had been read in part; the functions that made them gave "
    "other results when they ran again"
)
#: Part of Spark's error if the workers had died before this job began.
_SIGN_OF_WORKERS_DEAD_BEFORE = "IOException: Stream closed"
_WORKERS_DEAD_BEFORE = (
    "the process that Python workers are forked from has been killed, and the workers too; Spark starts "
    "new ones for the next job"
)


def describe_failure(
    name: str, compiled: CompiledJob, monitor: JobMonitor, error: Exception
) -> JobExecutionError:
    """Translate an error of Spark into a JobExecutionError that names job, vertex, operator, subtask, record,
    cause and a hint. The attempt of a worker that died is marked as failed.
    """
    monitor.catch_up()
    if _LOST_RESULTS.search(str(error)):
        return LostResultsError(f"job {name!r} failed: {_DESCRIBED_LOST_RESULTS}")
    attempt = monitor.first_failure()
    if attempt is not None:
        return _error_from_report(name, compiled, attempt)
    text = describe_spark_error(error)
    if any(sign in text or sign in str(error) for sign in _SIGNS_OF_A_DEAD_WORKER):
        lost = monitor.first_lost()
        if lost is not None:
            return _error_from_dead_worker(name, compiled, lost)
    if _SIGN_OF_WORKERS_DEAD_BEFORE in str(error):
        text = _WORKERS_DEAD_BEFORE
    refused = disk_error_of_spark(error)
    if refused is not None:
        text = refused.message
    return with_exit_code_of_disk(
        JobExecutionError(f"job {name!r} failed: {text}", refused.hint if refused else None)
    )


def _error_from_report(name: str, compiled: CompiledJob, attempt: Attempt) -> JobExecutionError:
    failure = attempt.failure or {}
    where = "vertex"
    if "operator" in failure:
        where = f"operator {shortened(failure['operator'], _NAME_CHARACTERS)!r} of vertex"
    during = f"{failure['during']}: " if failure.get("during") else ""
    message = (
        f"job {name!r} failed in {where} {_place(compiled, attempt)}: "
        f"{during}{failure.get('cause') or failure.get('error')}"
    )
    if failure.get("frames"):
        message = f"{failure['frames']}\n{message}"
    for label in ("record", "hint"):
        if failure.get(label):
            message += f"\n  {label}: {failure[label]}"
    result = with_exit_code_of_disk(JobExecutionError(message))
    result.add_note(failure.get("traceback", ""))
    return result


def _error_from_dead_worker(name: str, compiled: CompiledJob, attempt: Attempt) -> JobExecutionError:
    cause = "its Python worker died without reporting an error"
    attempt.failure = {"error": cause}
    attempt.enter(ExecutionState.FAILED, attempt.lost_at)
    return JobExecutionError(
        f"job {name!r} failed in vertex {_place(compiled, attempt)}: {cause}, after "
        f"{attempt.records_in:,} records in and {attempt.records_out:,} out at its last report\n"
        f"  hint: {_HINT_OF_A_DEAD_WORKER}"
    )


def _place(compiled: CompiledJob, attempt: Attempt) -> str:
    chain = next(vertex.chain for vertex in compiled.vertices if vertex.chain.vertex == attempt.vertex)
    return (
        f"{shortened(chain.name, _NAME_CHARACTERS)!r}, subtask {attempt.subtask + 1} of {chain.parallelism}, "
        f"attempt {attempt.attempt_number}"
    )


# @@ENOUGH


#: Bytes that each subtask may write to each exchange in the first run, and the factor for each further run.
_FIRST_BUDGET_BYTES, _GROWTH = 16 << 20, 8


def run_until_enough(
    compiled: CompiledJob,
    batch: bool,
    run: Callable[[CompiledJob], Rows],
    count: Callable[[Rows], int],
) -> Rows:
    """Return the rows of `run(compiled)`, over its whole input or over a prefix that suffices for its limit.

    `count` returns the number of records in rows. BATCH mode has barriers in Flink too, so nothing is cut
    off.
    """
    limit = None if batch else _limit(compiled)
    if limit is None:
        return run(compiled)
    for budget in _budgets():
        rows = run(_with_budget(compiled, budget))
        wanted = [row for row in rows if row[3].size != len(CUT_OFF)]
        if len(wanted) == len(rows) or count(wanted) >= limit:
            return wanted
    raise AssertionError("budgets have no end")


def _limit(compiled: CompiledJob) -> int | None:
    """Return the limit of a job whose only sink is a CollectSink; None for other jobs."""
    sinks = [terminal.sink for terminal in compiled.terminals]
    return sinks[0].limit if len(sinks) == 1 and isinstance(sinks[0], CollectSink) else None


def _budgets() -> Iterator[int]:
    budget = _FIRST_BUDGET_BYTES
    while True:
        yield budget
        budget *= _GROWTH


def _with_budget(compiled: CompiledJob, budget: int) -> CompiledJob:
    """Return `compiled` with a budget for every output, except outputs that Spark reads as a pipeline: the
    only output of a vertex, with one forward reader.
    """
    alone = {vertex.chain.vertex for vertex in compiled.vertices if len(vertex.chain.outputs) == 1}
    pulled = {
        gate.edge
        for vertex in compiled.vertices
        if vertex.forward_only and alone.issuperset(vertex.producers)
        for gate in vertex.chain.gates
    }

    def limited(vertex: CompiledVertex) -> CompiledVertex:
        outputs = tuple(
            output if output.edge in pulled else replace(output, budget_bytes=budget)
            for output in vertex.chain.outputs
        )
        return replace(vertex, chain=replace(vertex.chain, outputs=outputs))

    return CompiledJob(tuple(map(limited, compiled.vertices)), compiled.terminals)


# A job that fails is started again according to its restart strategy.
#
# Source: org.apache.flink.runtime.executiongraph.failover.ExecutionFailureHandler.


_RESTARTS_AFTER_LOSS = 3
"""One fewer than the attempts that Spark makes of a stage."""


def start_again_after_failures(
    backoff: Backoff,
    control: RunControl,
    name: str,
    spark: SparkSession,
    start: Callable[[list[Attempt]], Rows],
) -> Rows:
    """Return the result of `start`, called with the attempts so far, as often as `backoff` allows.

    Only failures while the job `name` runs lead to a restart: JobCompileError, and an end of Spark itself, do
    not. LostResultsError leads to one without a strategy too, because Spark would repeat the lost work itself
    if it could. Raises the error of the last start, and JobCancelledError if the run is cancelled between
    two starts.
    """
    earlier: list[Attempt] = []
    restarts = losses = 0
    while True:
        try:
            return start(earlier)
        except JobExecutionError as error:
            lost = isinstance(error, LostResultsError)
            losses += lost
            delay = 0 if lost and losses <= _RESTARTS_AFTER_LOSS else backoff(now())
            if delay is None or not _is_running(spark):
                raise
            restarts += 1
            cause = error.message.splitlines()[0]
            print_message(f"{cause}; it starts again in {delay / 1000:g} s (restart {restarts})")
        control.state = "RESTARTING"
        if control.monitor is not None:
            earlier = control.monitor.snapshot()
        if control.cancel_requested.wait(delay / 1000):
            raise JobCancelledError(f"job {name!r} was cancelled; nothing of it is committed")


def _is_running(spark: SparkSession) -> bool:
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except AttributeError:  # a session of several clients has no context in this process
        return True
    except (Py4JError, OSError):
        return False


# The time that a failed job waits until it starts again, and the end of its restarts.
#
# Source: org.apache.flink.runtime.executiongraph.failover.{RestartBackoffTimeStrategyFactoryLoader,
# FixedDelayRestartBackoffTimeStrategy,FailureRateRestartBackoffTimeStrategy,
# ExponentialDelayRestartBackoffTimeStrategy}.


#: Called with the time of each failure (milliseconds); returns milliseconds until the restart, None for none.
Backoff = Callable[[int], int | None]

_LONGEST = 2**62
"""Longest backoff in milliseconds. If Flink's arithmetic would overflow, it restarts at the first backoff."""


def restart_backoff(config: Mapping[str, str]) -> Backoff:
    """Return the backoff that a job's options configure; without `restart-strategy.type` there is no restart.

    Flink by default restarts jobs that take checkpoints; jobs here take none. Raises JobCompileError for a
    wrong value, and for values that contradict each other.
    """
    make_backoff = {
        options.FIXED_DELAY: _fixed_delay,
        options.FAILURE_RATE: _failure_rate,
        options.EXPONENTIAL_DELAY: _exponential_delay,
    }.get(read_option(config, options.STRATEGY), _no_restart)
    return make_backoff(config)


def _no_restart(config: Mapping[str, str]) -> Backoff:
    return lambda now: None


def _fixed_delay(config: Mapping[str, str]) -> Backoff:
    attempts, delay = read_option(config, options.FIXED_ATTEMPTS), read_option(config, options.FIXED_PAUSE)
    failures = 0

    def backoff(now: int) -> int | None:
        nonlocal failures
        failures += 1
        return int(delay) if failures <= attempts else None

    return backoff


def _failure_rate(config: Mapping[str, str]) -> Backoff:
    most, interval = read_option(config, options.RATE_FAILURES), read_option(config, options.RATE_INTERVAL)
    delay = read_option(config, options.RATE_PAUSE)
    failures: deque[int] = deque(maxlen=most + 1)

    def backoff(now: int) -> int | None:
        failures.append(now)
        return int(delay) if len(failures) <= most or now - failures[0] > interval else None

    return backoff


def _exponential_delay(config: Mapping[str, str]) -> Backoff:
    first, longest = read_option(config, options.FIRST_BACKOFF), read_option(config, options.LONGEST_BACKOFF)
    if not 1 <= first <= longest:
        raise JobCompileError(
            f"option {options.FIRST_BACKOFF.key} must be from 1 ms to {longest} ms, the value of "
            f"{options.LONGEST_BACKOFF.key}; got {first} ms"
        )
    multiplier, jitter = read_option(config, options.MULTIPLIER), read_option(config, options.JITTER)
    reset_after, attempts = (
        read_option(config, options.RESET_AFTER),
        read_option(config, options.BACKOFF_ATTEMPTS),
    )
    restarts, last_restart = 0, 0

    def backoff(now: int) -> int | None:
        nonlocal restarts, last_restart
        if now - last_restart >= reset_after:
            restarts = 0
        grown = _LONGEST
        with suppress(OverflowError):
            grown = min(_LONGEST, int(first * multiplier**restarts))
        offset = int(grown * jitter)
        wait = max(first, min(longest, grown + random.randint(-offset, offset)))
        restarts, last_restart = restarts + 1, now + wait
        return int(wait) if restarts <= attempts else None

    return backoff
