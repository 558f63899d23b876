"""A subtask from set-up to end: what Spark's mapInArrow calls.

Source: org.apache.flink.runtime.taskmanager.Task.doRun for the order of set-up, and
org.apache.flink.streaming.runtime.tasks.{SourceOperatorStreamTask,OneInputStreamTask,TwoInputStreamTask,
MultipleInputStreamTask} for the invokables.
"""

import gc
import itertools
import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import NoReturn

import pyarrow as pa
from pyspark import SparkFiles, TaskContext, cloudpickle

from penstock.operators.chain.describe_error import describe_error, encodable, shortened
from penstock.operators.chain.errors import EnoughResults, UserFunctionError
from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK, OperatorContext
from penstock.operators.chain.user_errors import user_frames
from penstock.operators.common.pickles import UnloadableFunctionError
from penstock.operators.exchange.channel_writer import ChannelRow, ChannelWriter
from penstock.operators.exchange.output_spec import OutputSpec
from penstock.operators.functions.add_up_metrics import metrics_of_subtask
from penstock.operators.task.build_chain import Chain
from penstock.operators.task.chain_spec import OperatorSpec
from penstock.operators.task.outgoing_rows import OutgoingRows
from penstock.operators.task.pulled import pulled
from penstock.operators.task.python_dependencies import (
    NO_DEPENDENCIES,
    PythonDependencies,
    python_dependencies,
)
from penstock.operators.task.read_gates import GateReader, MetricsSender
from penstock.operators.task.read_sources import read_sources
from penstock.operators.task.report import Reporter
from penstock.operators.task.send_results import ATTEMPT_EDGE, ResultSender
from penstock.operators.task.task_spec import TaskSpec

_OBJECTS_BETWEEN_COLLECTIONS = 200_000


def task_function(
    pickled_spec: bytes,
    outline: TaskSpec,
    python_path: Sequence[str],
    prepare: Sequence[Callable[[], None]],
    dependencies: PythonDependencies = NO_DEPENDENCIES,
    folder: str | None = None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for mapInArrow: exchange rows (or a source's DataFrame) in, exchange rows out.

    `outline` is the spec without operators, for a spec that cannot be read.

    Before it reads the spec, and with it the user's functions, it adds those folders of `python_path` that
    this machine has at the end of the module search path, calls the importable functions `prepare`, and puts
    `dependencies` in place. `folder`: what relative paths begin at, on a machine that has it, where workers
    were not started there.
    """
    path = tuple(python_path)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sys.path.extend(folder for folder in path if folder not in sys.path and os.path.isdir(folder))
        if folder is not None and os.path.isdir(folder):
            os.chdir(folder)
        for call in prepare:
            call()
        with python_dependencies(dependencies, SparkFiles.get):
            try:
                spec: TaskSpec = cloudpickle.loads(pickled_spec)
            except BaseException as error:
                _raise_not_loaded(error, outline)
            yield from run_task(spec, batches)

    return run


def _raise_not_loaded(error: BaseException, outline: TaskSpec) -> NoReturn:
    """Raise UserFunctionError of the operator whose function cannot be unpickled, and tell the driver."""
    cause = error.__cause__ or error
    if isinstance(cause, ImportError | AttributeError) and "penstock" in str(cause):
        raise error  # a worker with another Penstock, which is told as such
    chain, where = outline.chain, TaskContext.get()
    failure = UserFunctionError(
        job=outline.settings.job_name,
        operator=error.operator if isinstance(error, UnloadableFunctionError) else chain.name,
        subtask=0 if where is None else where.partitionId() % chain.parallelism,
        record="",
        cause=describe_error(cause),
        during=f"unpickling a function of vertex {shortened(chain.name, 200)!r}",
    )
    failure.__cause__ = cause
    attempt_number = 0 if where is None else where.attemptNumber()
    reporter = Reporter(outline.settings.reports, chain.vertex, failure.subtask, attempt_number)
    reporter.state("FAILED", **_failure(failure))
    reporter.close()
    raise failure from cause


def run_task(spec: TaskSpec, batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Run the subtask that this Spark partition is; gives rows as Spark asks for them."""
    where = TaskContext.get()
    attempt_number = where.attemptNumber() if where is not None else 0
    subtask, batches = subtask_of(spec, batches, where.partitionId() if where is not None else 0)
    if spec.chain.vertex in spec.settings.first_attempts:
        attempt_number += spec.settings.first_attempts[spec.chain.vertex][subtask]
    yield from pulled(
        lambda put: _attempt(spec, subtask, attempt_number, batches, put),
        f"vertex {spec.chain.vertex}, subtask {subtask}",
        _CALLS + len(spec.chain.operators) * _CALLS_AN_OPERATOR,
    )
    if not spec.chain.gates and not _reads_dataframe(spec):
        for _ in batches:  # a source needs none of it, but Spark ends workers that have not read to the end
            pass


#: Python calls that functions may nest (Python's own default), and those from one operator to the next.
_CALLS, _CALLS_AN_OPERATOR = 1000, 10


def _attempt(
    spec: TaskSpec,
    subtask: int,
    attempt_number: int,
    batches: Iterator[pa.RecordBatch],
    put: Callable[[pa.RecordBatch], None],
) -> None:
    reporter = Reporter(spec.settings.reports, spec.chain.vertex, subtask, attempt_number)
    try:
        reporter.state("DEPLOYING", host=os.uname().nodename, process=os.getpid())
        with _rare_collections(), _sender(spec, subtask) as sender:
            outgoing = OutgoingRows(put, sender)
            _run(spec, subtask, attempt_number, batches, reporter, outgoing)
            if sender is not None and spec.settings.results and spec.settings.results.attempts:
                place = (ATTEMPT_EDGE, 0, MIN_WATERMARK, subtask, spec.chain.vertex)
                outgoing.append(ChannelRow(*place, sender.attempt.encode()))
                outgoing.flush()
    except EnoughResults:
        reporter.state("CANCELED")
        raise
    except BaseException as error:
        reporter.state("FAILED", **_failure(error))
        raise
    finally:
        reporter.close()


@contextmanager
def _sender(spec: TaskSpec, subtask: int) -> Iterator[ResultSender | None]:
    """The sender of records to a driver that reads them while the job runs; None for other vertices."""
    address, vertex = spec.settings.results, spec.chain.vertex
    if address is None or vertex not in address.vertices:
        yield None
        return
    with closing(ResultSender(address, vertex, subtask)) as sender:
        yield sender
        sender.finish()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage rarely: a search for cycles every few hundred records costs more than the records."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def subtask_of(
    spec: TaskSpec, batches: Iterator[pa.RecordBatch], partition: int
) -> tuple[int, Iterator[pa.RecordBatch]]:
    """The number of this subtask, and the same batches again.

    If Spark runs several vertices in one stage (a union), its partition numbers are not the subtasks. The
    first row has the number: a source's row holds it, and an exchange begins with a greeting to each subtask.
    """
    chain = spec.chain
    if _reads_dataframe(spec):
        return _find_subtask(spec, batches, partition)
    first = next(batches)
    column = "target" if chain.gates else "id"
    return first.column(column)[0].as_py(), itertools.chain([first], batches)


def _find_subtask(
    spec: TaskSpec, batches: Iterator[pa.RecordBatch], partition: int
) -> tuple[int, Iterator[pa.RecordBatch]]:
    """The subtask in the first row's last column; a partition without rows takes any unique number."""
    alone = partition % spec.chain.parallelism
    if not spec.chain.outputs:
        return alone, batches
    first = next(batches, None)
    if first is None:
        return alone, batches
    last = first.num_columns - 1
    subtask: int = first.column(last)[0].as_py()
    return subtask, (batch.select(list(range(last))) for batch in itertools.chain([first], batches))


#: Column of a DataFrame's partition, the last one: the number of the subtask that reads it.
SUBTASK = "subtask"


def _reads_dataframe(spec: TaskSpec) -> bool:
    return any(map(reads_dataframe, spec.chain.operators))


def reads_dataframe(operator_spec: OperatorSpec) -> bool:
    """Whether an operator of a chain is a source that reads the partitions of a DataFrame."""
    return bool(getattr(operator_spec.operator, "reads_dataframe", False))


def _run(
    spec: TaskSpec,
    subtask: int,
    attempt_number: int,
    batches: Iterator[pa.RecordBatch],
    reporter: Reporter,
    outgoing: OutgoingRows,
) -> None:
    # Flink's order: partitions and gates, cached files, the runtime environment, the invokable
    gates = GateReader(spec, batches)
    cached_files = _localize(spec.settings.cached_files)
    context = _environment(spec, subtask, attempt_number, cached_files)
    chain = Chain(spec.chain, context, _writer_factory(spec, subtask, outgoing))
    for operator in chain.operators.values():
        if hasattr(operator, "attach"):
            operator.attach(outgoing.append)
        if hasattr(operator, "attach_results"):
            operator.attach_results(outgoing.append_batch)
    metrics = None
    if spec.settings.observed:
        metrics = MetricsSender(spec, subtask, attempt_number, chain, outgoing.append)
    reporter.state("INITIALIZING")
    try:
        chain.open()
        reporter.state("RUNNING")
        with suppress(EnoughResults):  # of a limit; if Spark has enough, the next row tells
            for step in (read_sources(spec, chain, context, batches), gates.read(chain, metrics)):
                for _ in step:
                    outgoing.flush()
                    reporter.progress(gates.records_in, sum(writer.records for writer in chain.writers))
            if not gates.cut_off:  # else this is not the end of the input
                for node in gates.head_nodes or [*sources_only(spec), *chain.multiple_input_heads]:
                    chain.watermark(node, MAX_WATERMARK)
                    outgoing.flush()
                chain.finish()
        if gates.cut_off or any(writer.cut_off for writer in chain.writers):
            chain.tell_cut_off()
        outgoing.flush()
    except BaseException:
        with suppress(BaseException):  # the first failure counts
            chain.close()
        gates.close()
        raise
    gates.close()
    chain.close()
    if metrics is not None:
        metrics.send()
        outgoing.flush()
    reporter.state(
        "FINISHED",
        records_in=gates.records_in,
        bytes_in=gates.bytes_in,
        records_out=sum(writer.records for writer in chain.writers),
        bytes_out=sum(writer.bytes for writer in chain.writers),
        metrics=metrics_of_subtask(chain.contexts.values()),
    )


def sources_only(spec: TaskSpec) -> list[int]:
    """Sources whose end is the end of the vertex's input: those of a chain without gates."""
    return [operator_spec.node for operator_spec in spec.chain.operators if operator_spec.source]


def _localize(cached_files: object) -> dict[str, str]:
    assert isinstance(cached_files, dict)
    return {name: SparkFiles.get(file) for name, file in cached_files.items()}


def _environment(
    spec: TaskSpec, subtask: int, attempt_number: int, cached_files: dict[str, str]
) -> OperatorContext:
    settings = spec.settings
    return OperatorContext(
        job_name=settings.job_name,
        task_name=spec.chain.name,
        subtask=subtask,
        parallelism=spec.chain.parallelism,
        max_parallelism=spec.chain.max_parallelism,
        attempt_number=attempt_number,
        batch=settings.batch,
        job_parameters=settings.job_parameters,
        cached_files=cached_files,
        state_memory_bytes=settings.state_memory_bytes,
        auto_watermark_interval_milliseconds=settings.auto_watermark_interval_milliseconds,
    )


def _writer_factory(
    spec: TaskSpec, subtask: int, outgoing: OutgoingRows
) -> Callable[[OutputSpec, OperatorContext], ChannelWriter]:
    settings = spec.settings
    return lambda output, context: ChannelWriter(
        output,
        subtask=subtask,
        batch_mode=settings.batch,
        seed=settings.seed,
        block_bytes=settings.block_bytes,
        emit=outgoing.append,
        context=context,
    )


def _failure(error: BaseException) -> dict[str, str]:
    details = {"error": describe_error(error), "traceback": _traceback(error.__cause__ or error)}
    details["frames"] = "\n".join(user_frames(error.__cause__ or error))
    if isinstance(error, UserFunctionError):
        details |= {name: getattr(error, name) for name in ("operator", "record", "cause", "during", "hint")}
    return details


def _traceback(error: BaseException) -> str:
    """The innermost calls, and what was raised: not those from one operator of a chain to the next."""
    lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-_TRACEBACK_CALLS)
    text = encodable("".join(lines))
    return text if len(text) <= _TRACEBACK_CHARACTERS else "…" + text[-_TRACEBACK_CHARACTERS:]


_TRACEBACK_CALLS, _TRACEBACK_CHARACTERS = 30, 8000
