"""A subtask from set-up to end, as Spark's mapInArrow calls it.

Source: org.apache.flink.runtime.taskmanager.Task.doRun for the order of set-up, and
org.apache.flink.streaming.runtime.tasks.{SourceOperatorStreamTask,OneInputStreamTask,TwoInputStreamTask,
MultipleInputStreamTask} for the invokables.
"""

import gc
import itertools
import json
import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from time import monotonic
from typing import NoReturn

import pyarrow as pa
from pyspark import SparkFiles, TaskContext, cloudpickle

from penstock.operators.chain.errors import (
    NO_RECORD,
    EnoughResults,
    UserFunctionError,
    describe_error,
    encodable,
    shortened,
    user_frames,
)
from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK, Operator, OperatorContext
from penstock.operators.common.pickles import UnloadableFunctionError
from penstock.operators.exchange.blocks import Block, GateSpec, OutputSpec, decode, values_of_batch
from penstock.operators.exchange.channel_writer import CUT_OFF, FIRST_OF_ALL, ChannelRow, ChannelWriter
from penstock.operators.exchange.sort_by_key import KeySorter, Portion
from penstock.operators.functions.add_up_metrics import metrics_of_subtask
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.task.build_chain import Chain, OperatorSpec
from penstock.operators.task.pulled import pulled, read_sources
from penstock.operators.task.python_dependencies import (
    NO_DEPENDENCIES,
    PythonDependencies,
    python_dependencies,
)
from penstock.operators.task.report import ATTEMPT_EDGE, OutgoingRows, Reporter, ResultSender, TaskSpec
from penstock.operators.task.sink_operators import DataFrameOperator
from penstock.operators.task.stream_batch import StreamSubtask, is_channel_end

# The metrics of a subtask's functions, sent with its records to a query that observes them
#
# Each subtask makes a report: JSON with its vertex, number and attempt, and the values by operator. A vertex
# with readers sends its report along its first output, and it is passed on to the end of the job.


#: Seconds between two reports of a running subtask, for queries that stop early.
_SECONDS = 0.5


def is_report(payload: pa.Buffer) -> bool:
    """Whether an exchange row holds a report instead of a block of records."""
    return payload[0] == _BRACE  # type: ignore[no-any-return]


_BRACE = ord("{")


class MetricsSender:
    """Sends the reports of one attempt of one subtask, and passes on reports of the subtasks it reads."""

    def __init__(
        self,
        spec: TaskSpec,
        subtask: int,
        attempt_number: int,
        chain: Chain,
        emit: Callable[[ChannelRow], None],
    ) -> None:
        self._who = {"vertex": spec.chain.vertex, "subtask": subtask, "attempt": attempt_number}
        self._chain, self._emit, self._subtask = chain, emit, subtask
        self._end = next(
            (operator for operator in chain.operators.values() if isinstance(operator, DataFrameOperator)),
            None,
        )
        self._outputs = spec.chain.outputs
        self._sent_at = 0.0
        self._number = 0
        if self._end is not None:
            self._end.before_batch = self._send_if_due

    def send(self) -> None:
        """Send the current metrics of the functions; send nothing if they have none."""
        metrics = metrics_of_subtask(self._chain.contexts.values())
        if metrics:
            self._number += 1
            self.forward(json.dumps({**self._who, "number": self._number, "metrics": metrics}).encode())

    def forward(self, report: bytes) -> None:
        """Send a report of this subtask, or of a subtask that it reads."""
        if self._end is not None:
            self._end.send_report(report)
            return
        output = self._outputs[0]
        target = output.reading[self._subtask][0] if output.partitioner == "forward" else 0
        self._emit(ChannelRow(output.edge, target, FIRST_OF_ALL, self._subtask, -1, report))

    def _send_if_due(self) -> None:
        if not self._sent_at or monotonic() - self._sent_at >= _SECONDS:
            self._sent_at = monotonic()
            self.send()


#: Estimated ratio of the memory of decoded Python records to the bytes of their block.
_MEMORY_FACTOR = 4


# The input gates of a subtask: pass records and watermarks from blocks to the heads of the chain
#
# Spark has sorted the blocks by (order, edge, channel, sequence). In STREAMING mode `order` is the watermark
# that a block's channel had reached, so the channels are read side by side along event time, and the blocks
# read so far give the watermark of the whole gate. In BATCH mode `order` is the key group of a keyed input.
#
# Source: org.apache.flink.streaming.runtime.io.{StreamTaskNetworkInput,StreamMultipleInputProcessor},
# org.apache.flink.streaming.runtime.watermarkstatus.StatusWatermarkValve.


class GateReader:
    """All gates of one subtask."""

    def __init__(self, spec: TaskSpec, batches: Iterator[pa.RecordBatch]) -> None:
        self._spec, self._batches = spec, batches
        self._gates = {gate.edge: gate for gate in spec.chain.gates}
        self._sorter = KeySorter(spec.settings.sort_memory_bytes)
        self.head_nodes = sorted({gate.target_node for gate in spec.chain.gates})
        self.records_in = 0
        self.bytes_in = 0
        self.cut_off = False  #: some producer was cut off: later records may be missing

    def read(
        self,
        chain: Chain,
        metrics: MetricsSender | StreamSubtask | None = None,
        stream: StreamSubtask | None = None,
    ) -> Iterator[None]:
        """Pass all blocks to the chain, reports to `metrics`, ends of channels to `stream`; yield after every
        block.
        """
        if not self._gates:
            return
        heads = [chain.operators[node] for node in self.head_nodes]
        receivers = {
            edge: chain.input_of(gate.target_node, gate.input_number, gate.type_info)
            for edge, gate in self._gates.items()
        }
        batch_mode = self._spec.settings.batch
        watermark, group = MIN_WATERMARK, -1
        for edge, reached, payload in _rows(self._batches):
            if not payload.size:
                continue  # a greeting to the subtask
            if payload.size == len(CUT_OFF):
                self.cut_off = True
                continue
            if metrics is not None and is_report(payload):
                metrics.forward(payload.to_pybytes())
                continue
            order = reached
            if stream is not None:
                if is_channel_end(payload):
                    stream.add_end(edge, payload)
                    continue
                order = stream.watermark_before(reached)
            gate = self._gates[edge]
            if batch_mode and gate.grouped:
                if order != group:
                    yield from self._end_group(heads)
                    group = order
                self._sort(gate, payload, heads[0])
                continue
            if not batch_mode and order != FIRST_OF_ALL and order > watermark:
                watermark = order
                for node in self.head_nodes:
                    chain.watermark(node, watermark)
                yield
            block = self._count(decode(payload, gate.type_info), payload)
            receiver = receivers[edge]
            if block.values is not None:
                receiver.collect(block.values, block.timestamps)
            else:
                receiver.collect_batch(block.batch, block.timestamps)
            yield
        if batch_mode:
            yield from self._end_group(heads)

    def close(self) -> None:
        """Remove the sorter's files."""
        self._sorter.close()

    def _count(self, block: Block, payload: pa.Buffer) -> Block:
        self.records_in += block.records
        self.bytes_in += payload.size
        return block

    def _sort(self, gate: GateSpec, payload: pa.Buffer, head: Operator) -> None:
        block = self._count(decode(payload, gate.type_info), payload)
        values, timestamps = block.values, block.timestamps
        if values is None:
            assert block.batch is not None
            values = values_of_batch(block.batch, gate.type_info)
            timestamps = None if timestamps is None else timestamps.to_pylist()
        assert isinstance(head, KeyedOperator)
        keys = head.keys_of(gate.input_number, values)
        self._sorter.add(gate.input_number, keys, values, timestamps, payload.size * _MEMORY_FACTOR)

    def _end_group(self, heads: list[Operator]) -> Iterator[None]:
        (head,) = heads  # a keyed operator is alone at the head of its chain
        since = 0
        for portions in self._sorter.drain():
            for portion in portions:
                _handle(head, portion)
                since += len(portion.values)
                if since > _YIELD_RECORDS:
                    since = 0
                    yield
            try:
                head.end_key()
            except BaseException as error:
                raise head.failed(error, NO_RECORD, "end of a key") from error
        yield


def _handle(head: Operator, portion: Portion) -> None:
    try:
        head.process_input(portion.input_number, portion.values, portion.timestamps)
    except BaseException as error:
        raise head.failed(error, NO_RECORD) from error


#: Records of a key group that are processed before the output is flushed.
_YIELD_RECORDS = 4096


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.Buffer]]:
    for batch in batches:
        edges = batch.column("edge").to_pylist()
        orders = batch.column("order").to_pylist()
        payloads = batch.column("payload")
        for row in range(batch.num_rows):
            yield edges[row], orders[row], payloads[row].as_buffer()


_OBJECTS_BETWEEN_COLLECTIONS = 200_000


def task_function(
    pickled_spec: bytes,
    outline: TaskSpec,
    python_path: Sequence[str],
    prepare: Sequence[Callable[[], None]],
    dependencies: PythonDependencies = NO_DEPENDENCIES,
    folder: str | None = None,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for mapInArrow from exchange rows, or a source's DataFrame, to exchange rows.

    `outline` is the spec without operators; it names the task if the spec cannot be unpickled.

    Before it unpickles the spec, and with it the user's functions, the function adds the existing folders of
    `python_path` at the end of the module search path, calls the importable functions `prepare`, and puts
    `dependencies` in place. `folder` is the base of relative paths, used on machines that have it; workers
    may have been started elsewhere.
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
    """Report, and raise, UserFunctionError of the operator whose function cannot be unpickled."""
    cause = error.__cause__ or error
    if isinstance(cause, ImportError | AttributeError) and "penstock" in str(cause):
        raise error  # a worker with another Penstock: the driver names it
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
    """Run the subtask of this Spark partition, if it has one; yield rows as Spark requests them."""
    where = TaskContext.get()
    attempt_number = where.attemptNumber() if where is not None else 0
    subtask, batches = subtask_of(spec, batches, where.partitionId() if where is not None else 0)
    if subtask is None:
        return
    if spec.chain.vertex in spec.settings.first_attempts:
        attempt_number += spec.settings.first_attempts[spec.chain.vertex][subtask]
    yield from pulled(
        lambda put: _attempt(spec, subtask, attempt_number, batches, put),
        f"vertex {spec.chain.vertex}, subtask {subtask}",
        _CALLS + len(spec.chain.operators) * _CALLS_PER_OPERATOR,
    )
    if not spec.chain.gates and not _reads_dataframe(spec):
        for _ in batches:  # a source ignores it, but Spark ends workers that have not read to the end
            pass


#: Python calls that functions may nest (Python's own default), and calls per chained operator.
_CALLS, _CALLS_PER_OPERATOR = 1000, 10


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
    """Yield the sender of records to a driver that reads them while the job runs, None for other vertices."""
    address, vertex = spec.settings.results, spec.chain.vertex
    if address is None or vertex not in address.vertices:
        yield None
        return
    with closing(ResultSender(address, vertex, subtask)) as sender:
        yield sender
        sender.finish()


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage rarely, since a search for cycles every few hundred records is expensive."""
    before = gc.get_threshold()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def subtask_of(
    spec: TaskSpec, batches: Iterator[pa.RecordBatch], partition: int
) -> tuple[int | None, Iterator[pa.RecordBatch]]:
    """Return the number of this subtask and the same batches again; None if the subtask does not run.

    If Spark runs several vertices in one stage (a union), its partition numbers are not the subtasks. The
    first row has the number: a source's row holds it, and an exchange begins with a greeting to each subtask.
    A DataFrame may have fewer partitions than its source has subtasks. If their rows go through a forward
    edge and a shuffle, the remaining subtasks of the readers get no row, and do not run.
    """
    chain = spec.chain
    if _reads_dataframe(spec):
        return _find_subtask(spec, batches, partition)
    first = next(batches, None)
    if first is None:
        return None, batches
    column = "target" if chain.gates else "id"
    return first.column(column)[0].as_py(), itertools.chain([first], batches)


def _find_subtask(
    spec: TaskSpec, batches: Iterator[pa.RecordBatch], partition: int
) -> tuple[int, Iterator[pa.RecordBatch]]:
    """Return the subtask from the first row's last column; without rows, any unique number."""
    alone = partition % spec.chain.parallelism
    if not spec.chain.outputs:
        return alone, batches
    first = next(batches, None)
    if first is None:
        return alone, batches
    last = first.num_columns - 1
    subtask: int = first.column(last)[0].as_py()
    return subtask, (batch.select(list(range(last))) for batch in itertools.chain([first], batches))


#: The last column of a DataFrame's partition: the number of the subtask that reads it.
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
    stream = None
    if spec.settings.stream is not None:
        stream = StreamSubtask(spec, spec.settings.stream, subtask, outgoing.append)
        stream.attach(chain)
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
        if stream is not None:
            stream.begin(chain)
        with suppress(EnoughResults):  # a limit is reached; if Spark has enough, the next row raises
            for step in (
                read_sources(spec, chain, context, batches, None if stream is None else stream.source_read),
                gates.read(chain, metrics or stream, stream),
            ):
                for _ in step:
                    outgoing.flush()
                    reporter.progress(gates.records_in, sum(writer.records for writer in chain.writers))
            if stream is not None:
                stream.end(chain)
            elif not gates.cut_off:  # else the input has not ended
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
    """Return the sources of a chain without gates, whose end is the end of the vertex's input."""
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
    """Return the innermost calls and the exception, without the calls between chained operators."""
    lines = traceback.format_exception(type(error), error, error.__traceback__, limit=-_TRACEBACK_CALLS)
    text = encodable("".join(lines))
    return text if len(text) <= _TRACEBACK_CHARACTERS else "…" + text[-_TRACEBACK_CHARACTERS:]


_TRACEBACK_CALLS, _TRACEBACK_CHARACTERS = 30, 8000
