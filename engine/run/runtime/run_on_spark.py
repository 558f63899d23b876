"""Run a compiled job as one Spark job, or vertex by vertex if finished data sets are saved."""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.machine.machine_error import with_exit_code_of_disk
from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex, Terminal
from penstock.engine.run.runtime.errors import (
    JobCancelledError,
    JobCompileError,
    JobExecutionError,
    LostResultsError,
)
from penstock.engine.run.runtime.exchange_on_spark import JobFrames
from penstock.engine.run.runtime.job_monitor import Attempt, JobMonitor
from penstock.engine.run.runtime.recover_jobs import SavedVertices
from penstock.engine.run.runtime.run_control import RunControl
from penstock.engine.run.runtime.run_environment import cached_files_on_spark, ship_python
from penstock.engine.run.runtime.run_settings import print_once, spark_settings_for_runs, task_settings
from penstock.engine.run.runtime.spark_application import cancel_group, is_remote, job_group
from penstock.engine.run.runtime.transformations import Job
from penstock.engine.spark.describe_spark_error import describe_spark_error, disk_error_of_spark
from penstock.engine.spark.drop_dead_workers import drop_dead_workers
from penstock.operators.chain.errors import shortened
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.recover_sinks import needs_commit
from penstock.operators.connectors.sink import CollectSink, Committable, PrintSink
from penstock.operators.exchange.blocks import decode, values_of_batch
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.process.keyed_process_operators import BroadcastProcessOperator
from penstock.operators.task.report import ResultsAddress, StreamSettings
from penstock.plans.frames.spark_schemas import has_ended
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


# Records of `execute_and_collect` on their way to the driver while the job runs.
#
# Flink's collect sink is one subtask that all upstream subtasks write to. On Spark that exchange would be
# a barrier: the first record would arrive once the last one is made. In STREAMING mode the driver is this
# subtask instead, and reads from the upstream subtasks directly.


@dataclass(frozen=True)
class ResultsToDriver:
    """A job whose only CollectSink receives its records over a socket."""

    compiled: CompiledJob
    types: dict[int, TypeInformation | None]  #: record type of each edge that leads to the driver
    subtasks: tuple[tuple[int, int], ...]  #: (vertex, subtask) that write to these edges, in reading order
    here: int | None  #: the vertex that the driver runs; None if the sink is chained to other operators


def results_to_driver(compiled: CompiledJob, *, batch: bool) -> ResultsToDriver:
    """Change `compiled` so that the driver reads its records while it runs.

    In BATCH mode the exchange before the sink is a barrier in Flink too, and stays an exchange.
    """
    (terminal,) = (end for end in compiled.terminals if isinstance(end.sink, CollectSink))
    last = next(
        vertex
        for vertex in compiled.vertices
        if any(operator.node == terminal.node for operator in vertex.chain.operators)
    )
    if batch or len(last.chain.operators) > 1:
        subtasks = tuple((last.chain.vertex, subtask) for subtask in range(last.chain.parallelism))
        types = {terminal.edge: terminal.transformation.output_type}
        return ResultsToDriver(compiled, types, subtasks, None)
    types = {gate.edge: gate.type_info for gate in last.chain.gates}
    vertices = tuple(
        _writing_to_driver(vertex_before, types)
        for vertex_before in compiled.vertices
        if vertex_before is not last
    )
    first_edges = {
        vertex_before.chain.vertex: min(
            output.edge for output in vertex_before.chain.outputs if output.to_driver
        )
        for vertex_before in vertices
        if any(output.to_driver for output in vertex_before.chain.outputs)
    }
    sizes = {vertex_before.chain.vertex: vertex_before.chain.parallelism for vertex_before in vertices}
    subtasks = tuple(
        (vertex, subtask)
        for vertex in sorted(first_edges, key=lambda vertex: first_edges[vertex])
        for subtask in range(sizes[vertex])
    )
    return ResultsToDriver(CompiledJob(vertices, compiled.terminals), types, subtasks, last.chain.vertex)


def _writing_to_driver(vertex: CompiledVertex, types: dict[int, TypeInformation | None]) -> CompiledVertex:
    outputs = tuple(
        replace(output, to_driver=True) if output.edge in types else output for output in vertex.chain.outputs
    )
    return replace(vertex, chain=replace(vertex.chain, outputs=outputs))


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


def source_dataframes(name: str, compiled: CompiledJob) -> list[DataFrame]:
    """Return the DataFrames that the job `name` reads.

    Raises JobCompileError if some belong to Spark Connect and some to classic Spark, or if the session of one
    has been stopped.
    """
    frames = [
        operator.operator.dataframe()
        for vertex in compiled.vertices
        for operator in vertex.chain.operators
        if operator.source and getattr(operator.operator, "reads_dataframe", False)
    ]
    if any(is_remote(frame.sparkSession) != is_remote(frames[0].sparkSession) for frame in frames):
        raise JobCompileError(f"job {name!r} reads DataFrames of Spark Connect and of classic Spark")
    if any(has_ended(frame.sparkSession) for frame in frames):
        raise JobCompileError(f"job {name!r} reads a DataFrame whose Spark session has been stopped")
    return frames


#: The local property in which Spark has the id of the streaming query whose batch a thread works on.
QUERY_ID = "sql.streaming.queryId"


def require_bounded_state(job: Job, compiled: CompiledJob) -> None:
    """Raise JobCompileError if `job` has keyed or broadcast state and reads a micro-batch in STREAMING mode.

    Its state would begin empty in every batch of the stream, and its windows would end with each.
    """
    stateful = [
        f"operator {spec.name!r} has {kind} state"
        for vertex in compiled.vertices
        for spec in vertex.chain.operators
        for kind, operator_class in (("keyed", KeyedOperator), ("broadcast", BroadcastProcessOperator))
        if issubclass(compiled.classes.get(spec.node, object), operator_class)
    ]
    frames = source_dataframes(job.name, compiled) if stateful and not job.batch else []
    if not frames or is_remote(frames[0].sparkSession):
        return
    if frames[0].sparkSession.sparkContext.getLocalProperty(QUERY_ID) is not None:
        raise JobCompileError(
            f"job {job.name!r} reads a batch of a stream, and its {stateful[0]}, which would begin empty in "
            "every batch",
            "penstock.foreach_batch(build, state=PATH) runs it with state that lasts; in BATCH mode (mode="
            '"BATCH") each batch is computed by itself',
        )


# The Python interpreter on which the workers of one job run.
#
# Source: org.apache.flink.python.PythonOptions.PYTHON_EXECUTABLE.


_OPTION = "python.executable"
_PROBE = (
    "import importlib, json, sys\n"
    "missing = []\n"
    "for name in ('penstock.operators', 'pyspark', 'pyarrow'):\n"
    "    try: importlib.import_module(name)\n"
    "    except ImportError: missing.append(name)\n"
    "print(json.dumps([list(sys.version_info[:2]), missing]))"
)


@contextmanager
def workers_python(spark: SparkSession, job: Job) -> Iterator[None]:
    """Inside the block, functions handed to Spark run on the interpreter that `job` names, if any.

    Raises JobCompileError if the interpreter does not exist, or if workers cannot run on it.
    """
    wanted = job.python_executable
    if wanted is None:
        yield
        return
    if is_remote(spark):
        print_once([f"{_OPTION} {wanted}"], "the workers of a session run on the session's own Python")
        yield
        return
    if any(wanted.startswith(f"{folder or os.path.basename(path)}/") for path, folder in job.archives):
        print_once([f"{_OPTION} {wanted}"], "workers already run when they unpack a job's archives")
        yield
        return
    context = spark.sparkContext
    executable = _usable(wanted) if str(context.master).startswith("local") else wanted
    before, context.pythonExec = context.pythonExec, executable
    try:
        yield
    finally:
        context.pythonExec = before


@cache
def _usable(wanted: str) -> str:
    """Return the path of an interpreter on this machine; JobCompileError if workers cannot run on it."""
    executable = shutil.which(wanted)
    if executable is None:
        raise JobCompileError(f"{_OPTION} {wanted!r}: this program does not exist")
    if os.path.samefile(executable, sys.executable):
        return sys.executable
    done = subprocess.run([executable, "-c", _PROBE], capture_output=True, text=True, check=False)
    try:
        version, missing = json.loads(done.stdout)
    except ValueError:
        raise JobCompileError(f"{_OPTION} {wanted!r} is not a Python interpreter") from None
    here = list(sys.version_info[:2])
    if version != here:
        raise JobCompileError(
            f"{_OPTION} {wanted!r} is Python {'.'.join(map(str, version))}, and this process runs on "
            f"{'.'.join(map(str, here))}: Spark's workers need the same version"
        )
    if missing:
        raise JobCompileError(
            f"{_OPTION} {wanted!r} lacks {' and '.join(missing)}: install Penstock for it as for this "
            "process, because workers run Penstock's operators"
        )
    return executable


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
