"""The input gates of a subtask: blocks in, records and watermarks into the heads of the chain.

Spark has sorted the blocks by (order, edge, channel, sequence). In STREAMING mode `order` is the watermark
that a block's channel had reached, so that the channels are read side by side along event time, and what has
been read gives the watermark of the whole gate. In BATCH mode `order` is the key group of a keyed input.

Source: org.apache.flink.streaming.runtime.io.{StreamTaskNetworkInput,StreamMultipleInputProcessor},
org.apache.flink.streaming.runtime.watermarkstatus.StatusWatermarkValve.
"""

import json
from collections.abc import Callable, Iterator
from time import monotonic

import pyarrow as pa

from penstock.operators.chain.describe_error import NO_RECORD
from penstock.operators.chain.operator import MIN_WATERMARK, Operator
from penstock.operators.exchange.blocks import Block, decode
from penstock.operators.exchange.channel_writer import CUT_OFF, FIRST_OF_ALL, ChannelRow
from penstock.operators.exchange.output_spec import GateSpec
from penstock.operators.exchange.rows_and_batches import values_of_batch
from penstock.operators.exchange.sort_by_key import KeySorter, Portion
from penstock.operators.functions.add_up_metrics import metrics_of_subtask
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.task.build_chain import Chain
from penstock.operators.task.dataframe_operators import DataFrameOperator
from penstock.operators.task.task_spec import TaskSpec

# What the functions of a subtask measure, sent with its records to a query that observes them.
#
# Each subtask makes a report: JSON with its vertex, number and attempt, and the values by operator. A
# report of a vertex that others read goes along its first output and from there on to the end of the job.


#: Seconds between two reports of a subtask that still runs: what a query that stops early gets to see.
_SECONDS = 0.5


def is_report(payload: pa.Buffer) -> bool:
    """Whether an exchange row holds a report, and no block of records."""
    return payload[0] == _BRACE  # type: ignore[no-any-return]


_BRACE = ord("{")


class MetricsSender:
    """The reports of one attempt of one subtask, and those that it passes on."""

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
        """Send what the functions have measured so far; nothing where they measure nothing."""
        metrics = metrics_of_subtask(self._chain.contexts.values())
        if metrics:
            self._number += 1
            self.forward(json.dumps({**self._who, "number": self._number, "metrics": metrics}).encode())

    def forward(self, report: bytes) -> None:
        """Send a report of this subtask, or of one that this one reads."""
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


#: Decoded Python records take about this many times the bytes of their block.
_MEMORY_FACTOR = 4


# The gates themselves.


class GateReader:
    """All gates of one subtask."""

    def __init__(self, spec: TaskSpec, batches: Iterator[pa.RecordBatch]) -> None:
        self._spec, self._batches = spec, batches
        self._gates = {gate.edge: gate for gate in spec.chain.gates}
        self._sorter = KeySorter(spec.settings.sort_memory_bytes)
        self.head_nodes = sorted({gate.target_node for gate in spec.chain.gates})
        self.records_in = 0
        self.bytes_in = 0
        self.cut_off = False  #: some producer was: further records may be missing

    def read(self, chain: Chain, metrics: MetricsSender | None = None) -> Iterator[None]:
        """Hand everything to the chain, reports to `metrics`; gives control back after every block."""
        if not self._gates:
            return
        heads = [chain.operators[node] for node in self.head_nodes]
        receivers = {
            edge: chain.input_of(gate.target_node, gate.input_number, gate.type_info)
            for edge, gate in self._gates.items()
        }
        batch_mode = self._spec.settings.batch
        watermark, group = MIN_WATERMARK, -1
        for edge, order, payload in _rows(self._batches):
            if not payload.size:
                continue  # it greets the subtask
            if payload.size == len(CUT_OFF):
                self.cut_off = True
                continue
            if metrics is not None and is_report(payload):
                metrics.forward(payload.to_pybytes())
                continue
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
        """Let go of what is on disk."""
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


#: Records of a key group between two looks at what has come out.
_YIELD_RECORDS = 4096


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.Buffer]]:
    for batch in batches:
        edges = batch.column("edge").to_pylist()
        orders = batch.column("order").to_pylist()
        payloads = batch.column("payload")
        for row in range(batch.num_rows):
            yield edges[row], orders[row], payloads[row].as_buffer()
