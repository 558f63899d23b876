"""A subtask of a batch of a stream, with the state and watermarks of the batches before.

The end of a batch is not the end of the input: operators only emit what they hold back, and the watermark is
the smallest one of the channels. Each subtask announces to its readers the watermark with which it ends. They
read it before the first record, and do not go beyond it, however far other channels have come. Channels
without records in the batch do not count.

A subtask sends a report of its state along its first output, and its readers pass it on, so that the driver
gets the report of the attempt whose records count.

Source: org.apache.flink.streaming.runtime.watermarkstatus.StatusWatermarkValve, for idle channels;
org.apache.flink.runtime.checkpoint.TaskStateSnapshot, for the report.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.operators.chain.errors import NO_RECORD
from penstock.operators.chain.operator import MIN_WATERMARK
from penstock.operators.common.key_groups import operator_index
from penstock.operators.exchange.channel_writer import FIRST_OF_ALL, ChannelRow
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.process.keyed_process_operators import BroadcastProcessOperator
from penstock.operators.records.record_batches import TimestampsAndWatermarksOperator
from penstock.operators.state.state_segments import SegmentStore
from penstock.operators.state.stored_state import StoredState
from penstock.operators.task.build_chain import Chain
from penstock.operators.task.report import StreamSettings, TaskSpec

STATE_EDGE = -(2**31) + 2
"""The edge on which reports of state reach the driver."""

_MARK = struct.Struct("<c?q")
_FIRST_BYTE = b"~"


class ChannelEnd(NamedTuple):
    """The watermark with which a channel ends its batch."""

    watermark: int
    in_order: bool  #: the channels of this edge follow one another in event time, so that the last one counts


def is_channel_end(payload: pa.Buffer) -> bool:
    """Whether an exchange row holds a ChannelEnd instead of a block of records."""
    return bool(payload.size == _MARK.size and payload[0] == _FIRST_BYTE[0])


def channel_end(payload: pa.Buffer) -> ChannelEnd:
    """Return the ChannelEnd of a row."""
    _, in_order, watermark = _MARK.unpack(payload.to_pybytes())
    return ChannelEnd(watermark, in_order)


class StreamSubtask:
    """The part of a subtask that lasts from batch to batch."""

    def __init__(
        self, spec: TaskSpec, settings: StreamSettings, subtask: int, emit: Callable[[ChannelRow], None]
    ) -> None:
        self._spec, self._settings, self._subtask, self._emit = spec, settings, subtask, emit
        self._ends: dict[int, list[ChannelEnd]] = {}  # by edge
        self._held_back = MIN_WATERMARK
        self._source_rows = 0
        self._source_watermark = MIN_WATERMARK

    def attach(self, chain: Chain) -> None:
        """Give the operators their state of earlier batches; call it before they are opened."""
        settings = self._settings
        store = SegmentStore(settings.folder, settings.version, settings.key)
        states = []
        for node, operator in chain.operators.items():
            record = settings.operators.get(node)
            if record is not None and isinstance(operator, KeyedOperator | BroadcastProcessOperator):
                first, last = key_group_range(
                    record.max_parallelism, self._spec.chain.parallelism, self._subtask
                )
                state = chain.contexts[node].stored_state = StoredState(record, store, first, last)
                states.append(state)
        if states:
            of_store = {
                segment.file
                for record in settings.operators.values()
                for tables in record.tables.values()
                for table in tables
                for segment in table.segments
            }
            store.prepare([segment for state in states for segment in state.segments()], of_store)

    def begin(self, chain: Chain) -> None:
        """Let the watermarks of the batch before pass through the chain, before any record."""
        for node in (*self._heads(chain), *self._generators(chain)):
            watermark = self._settings.watermarks.get(node)
            if watermark is None:
                continue
            operator = chain.operators.get(node)
            if isinstance(operator, TimestampsAndWatermarksOperator):
                operator.begin_at(watermark)
            else:
                chain.watermark(node, watermark)
        for operator in chain.operators.values():
            if isinstance(operator, KeyedOperator):
                operator.fire_processing_time()

    def _heads(self, chain: Chain) -> list[int]:
        gates = sorted({gate.target_node for gate in self._spec.chain.gates})
        return gates or self._sources()

    def _sources(self) -> list[int]:
        return [operator.node for operator in self._spec.chain.operators if operator.source]

    def _generators(self, chain: Chain) -> dict[int, TimestampsAndWatermarksOperator]:
        return {
            node: operator
            for node, operator in chain.operators.items()
            if isinstance(operator, TimestampsAndWatermarksOperator)
        }

    def add_end(self, edge: int, payload: pa.Buffer) -> None:
        """Take the end of a channel that this subtask reads."""
        self._ends.setdefault(edge, []).append(channel_end(payload))

    def source_read(self, number: int, is_watermark: bool) -> bool:
        """Note a watermark of a source, or a number of rows; return whether the watermark is a new one."""
        if not is_watermark:
            self._source_rows += number
            return False
        watermark = number
        if watermark <= self._source_watermark:
            return False
        self._source_watermark = watermark
        begun_at = [self._settings.watermarks.get(node, MIN_WATERMARK) for node in self._sources()]
        return watermark > max(begun_at, default=MIN_WATERMARK)

    def last_watermark(self) -> ChannelEnd | None:
        """Return the watermark at the end of the batch; None if no channel has records."""
        if not self._spec.chain.gates:
            if not self._source_rows:
                return None
            return ChannelEnd(self._source_watermark, self._source_watermark != MIN_WATERMARK)
        if not self._ends:
            return None
        of_edges = [
            (max if all(end.in_order for end in ends) else min)(end.watermark for end in ends)
            for ends in self._ends.values()
        ]
        return ChannelEnd(min(of_edges), all(end.in_order for ends in self._ends.values() for end in ends))

    def watermark_before(self, reached: int) -> int:
        """Return the watermark before a block, whose channel had reached `reached`.

        It is at most the one at the end of the batch. If channels follow one another in event time, the one
        that is reached may follow from the first record of the block, and comes after it, as in Flink.
        """
        if reached == FIRST_OF_ALL:
            return reached
        last = self.last_watermark()
        if last is None:
            return reached
        capped = min(reached, last.watermark)
        if not last.in_order:
            return capped
        before, self._held_back = self._held_back, capped
        return before

    def end(self, chain: Chain) -> None:
        """End the batch, write the state, and announce both; the records must have been read."""
        last = self.last_watermark()
        watermarks: dict[int, int | None] = {}
        for node in self._heads(chain):
            before = self._settings.watermarks.get(node, MIN_WATERMARK)
            watermarks[node] = None if last is None else max(before, last.watermark)
            if last is not None and last.watermark > before:
                chain.watermark(node, last.watermark)
        for node, generator in self._generators(chain).items():
            watermark = generator.end_batch()
            watermarks[node] = watermark
            last = None if watermark is None else ChannelEnd(watermark, False)
        for operator in chain.operators.values():
            if isinstance(operator, KeyedOperator):
                operator.fire_processing_time()
        chain.finish()
        self._announce(chain, last)
        self._report(chain, watermarks)

    def _announce(self, chain: Chain, last: ChannelEnd | None) -> None:
        if last is None:
            return
        for writer in chain.writers:
            watermark = max(last.watermark, writer.current_watermark())
            writer.announce(_MARK.pack(_FIRST_BYTE, last.in_order, watermark))

    def _report(self, chain: Chain, watermarks: dict[int, int | None]) -> None:
        operators = {}
        for node, operator in chain.operators.items():
            if chain.contexts[node].stored_state is not None:
                assert isinstance(operator, KeyedOperator | BroadcastProcessOperator)
                try:
                    record = operator.written_state()
                except BaseException as error:
                    raise operator.failed(error, NO_RECORD, "writing its state") from error
                ((groups, tables),) = record.tables.items()
                operators[node] = {
                    "key_text": record.key_text,
                    "groups": groups,
                    "tables": [asdict(table) for table in tables],
                }
        report = {
            "vertex": self._spec.chain.vertex,
            "subtask": self._subtask,
            "rows": self._source_rows,
            "watermarks": watermarks,
            "operators": operators,
        }
        self.forward(json.dumps(report).encode())

    def forward(self, report: bytes) -> None:
        """Send a report of this subtask, or of a subtask that it reads."""
        if not self._spec.chain.outputs:
            self._emit(ChannelRow(STATE_EDGE, 0, MIN_WATERMARK, self._subtask, 0, report))
            return
        output = self._spec.chain.outputs[0]
        target = output.reading[self._subtask][0] if output.partitioner == "forward" else 0
        self._emit(ChannelRow(output.edge, target, FIRST_OF_ALL, self._subtask, -1, report))


def key_group_range(max_parallelism: int, parallelism: int, subtask: int) -> tuple[int, int]:
    """Return the first key group of a subtask, and the first one after its last.

    Source: org.apache.flink.runtime.state.KeyGroupRangeAssignment.computeKeyGroupRangeForOperatorIndex.
    """
    first = -(-subtask * max_parallelism // parallelism)
    last = -(-(subtask + 1) * max_parallelism // parallelism)
    assert operator_index(first, max_parallelism, parallelism) == subtask
    return first, last


def parsed_report(payload: Any) -> dict[str, Any]:
    """Return the report of a subtask."""
    report: dict[str, Any] = json.loads(bytes(payload))
    return report
