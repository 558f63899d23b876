"""Writes the records of one JobEdge of one subtask as blocks, each for one subtask of the consumer."""

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from operators.chain.operator import MIN_WATERMARK, Timestamps, Values
from operators.exchange.blocks import encode_batch, encode_values
from operators.exchange.choose_channels import Channel, ChannelChooser
from operators.exchange.output_spec import OutputSpec
from operators.exchange.rows_and_batches import values_of_batch

#: What Spark's shuffle moves; see `EXCHANGE_SCHEMA`.
FIRST_OF_ALL = -(2**63)


class Row(NamedTuple):
    """A block on its way: consumer's JobEdge and subtask, and its place in what that subtask reads."""

    edge: int
    target: int
    order: int  #: STREAMING: watermark; BATCH: key group, -1 where there are none
    channel: int  #: producing subtask
    sequence: int
    payload: bytes


EXCHANGE_SCHEMA = pa.schema(
    [
        pa.field("edge", pa.int32(), nullable=False),
        pa.field("target", pa.int32(), nullable=False),
        pa.field("order", pa.int64(), nullable=False),
        pa.field("channel", pa.int32(), nullable=False),
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)


class ChannelWriter:
    """Buffers records by channel until a block's worth of bytes is there; a block never spans a watermark."""

    def __init__(
        self,
        spec: OutputSpec,
        *,
        subtask: int,
        batch_mode: bool,
        seed: int,
        block_bytes: int,
        emit: Callable[[Row], None],
    ) -> None:
        self._spec, self._subtask, self._batch_mode = spec, subtask, batch_mode
        self._chooser = ChannelChooser(spec, subtask, seed)
        self._block_bytes, self._emit = block_bytes, emit
        self._watermark = MIN_WATERMARK
        self._sequence = 0
        self._buffers: dict[Channel, tuple[Values, list[int | None]]] = {}
        self._stamped = False
        self._buffered = 0
        self._records_a_block = 1024  # until the first blocks have told how long records are
        self._pending_batches: dict[Channel, list[tuple[pa.RecordBatch, pa.Int64Array | None]]] = {}
        self._pending_bytes: dict[Channel, int] = {}
        self.records = 0
        self.bytes = 0
        if spec.partitioner == "forward":
            # greets its reader, which without a shuffle has no other way to know which subtask it is
            emit(Row(spec.edge, self._chooser.targets[0], FIRST_OF_ALL, subtask, -1, b""))

    def collect(self, values: Values, timestamps: Timestamps) -> None:
        """Buffer records; full blocks go out."""
        self.records += len(values)
        if (timestamps is not None) != self._stamped and self._buffered:
            self.flush()  # a block's records have timestamps or they have not
        self._stamped = timestamps is not None
        if self._chooser.broadcast:
            self._add((-1, -1), values, timestamps)
            return
        for channel, some, stamps in self._chooser.split(values, timestamps):
            self._add(channel, some, stamps)

    def collect_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Buffer a record batch; full blocks go out. Where a function chooses, records become values."""
        if self._chooser.needs_values:
            stamps = None if timestamps is None else timestamps.to_pylist()
            self.collect(values_of_batch(batch, self._spec.type_info), stamps)
            return
        self.records += batch.num_rows
        portions = (
            [((-1, -1), batch, timestamps)]
            if self._chooser.broadcast
            else self._chooser.split_batch(batch, timestamps)
        )
        for channel, part, stamps in portions:
            pending = self._pending_batches.setdefault(channel, [])
            if pending and (pending[0][1] is None) != (stamps is None):
                self._flush_batches(channel)
                pending = self._pending_batches.setdefault(channel, [])
            pending.append((part, stamps))
            size = self._pending_bytes.get(channel, 0) + part.get_total_buffer_size() * part.num_rows // max(
                1, batch.num_rows
            )
            self._pending_bytes[channel] = size
            if size >= self._block_bytes:
                self._flush_batches(channel)

    def watermark(self, timestamp: int) -> None:
        """Records from here on come behind this watermark."""
        self.flush()
        self._watermark = timestamp

    def flush(self) -> None:
        """Put all buffered records out."""
        for channel in list(self._buffers):
            self._flush_values(channel)
        for channel in list(self._pending_batches):
            self._flush_batches(channel)

    def _add(self, channel: Channel, values: Values, timestamps: Timestamps) -> None:
        buffer = self._buffers.get(channel)
        if buffer is None:
            buffer = self._buffers[channel] = ([], [])
        buffer[0].extend(values)
        if timestamps is not None:
            buffer[1].extend(timestamps)
        self._buffered += len(values)
        if len(buffer[0]) >= self._records_a_block:
            self._flush_values(channel)
        elif self._buffered >= 32 * self._records_a_block:
            self.flush()  # many key groups: none is full, all of them together are large

    def _flush_values(self, channel: Channel) -> None:
        values, stamps = self._buffers.pop(channel)
        self._buffered -= len(values)
        # one input list can be any number of results; a block stays a block
        for start in range(0, len(values), step := max(self._records_a_block, 1)):
            part = values[start : start + step] if len(values) > step else values
            part_stamps = (stamps[start : start + step] if len(values) > step else stamps) or None
            payload = encode_values(part, part_stamps, self._spec.type_info, self._watermark)
            self._send(channel, payload)
            self._records_a_block = max(1, min(1 << 20, len(part) * self._block_bytes // len(payload)))

    def _flush_batches(self, channel: Channel) -> None:
        pending = self._pending_batches.pop(channel, [])
        self._pending_bytes.pop(channel, None)
        if pending:
            batch = pa.concat_batches([part for part, _ in pending])
            stamps = None if pending[0][1] is None else pa.concat_arrays([part for _, part in pending])
            self._send(channel, encode_batch(batch, stamps, self._watermark))

    def _send(self, channel: Channel, payload: bytes) -> None:
        target, group = channel
        order = group if self._batch_mode else self._watermark
        if self._spec.first:
            order = FIRST_OF_ALL
        for one in self._chooser.targets if target < 0 else (target,):
            self._emit(Row(self._spec.edge, one, order, self._subtask, self._sequence, payload))
            self._sequence += 1
            self.bytes += len(payload)
