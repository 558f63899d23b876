"""Write the records of one JobEdge of one subtask as blocks, each for one subtask of the consumer."""

import errno
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from penstock.operators.chain.errors import NO_RECORD, EnoughResults, misfit
from penstock.operators.chain.operator import MIN_WATERMARK, OperatorContext, Timestamps, Values, failure
from penstock.operators.common.entry_size import value_bytes
from penstock.operators.common.key_groups import key_groups, key_groups_of_column, operator_index
from penstock.operators.exchange.blocks import OutputSpec, encode_batch, encode_values, values_of_batch
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.records.key_selection import keys_of_records, opened_functions

# Choice of the consumer's subtask for each record: Flink's partitioners over lists of records
#
# Source: org.apache.flink.streaming.runtime.partitioner.{Forward,Rebalance,Rescale,Shuffle,Broadcast,Global,
# KeyGroupStream,CustomPartitionerWrapper}Partitioner.


#: A channel is (consumer subtask, key group or -1); a portion is a channel and its records.
Channel = tuple[int, int]
Portion = tuple[Channel, Values, Timestamps]
BatchPortion = tuple[Channel, pa.RecordBatch, pa.Int64Array | None]


class ChannelChooser:
    """Splits lists of records over the channels of one JobEdge of one subtask."""

    def __init__(self, spec: OutputSpec, subtask: int, seed: int) -> None:
        self._spec = spec
        self._random = random.Random(f"{seed}/{spec.edge}/{subtask}")
        self.current: Any = NO_RECORD  #: the record on which a function of the author failed
        self._targets = _reachable_subtasks(spec, subtask)
        # Flink's RebalancePartitioner starts anywhere: here, producers start at different consumers
        self._next = subtask % len(self._targets) if spec.partitioner == "rebalance" else 0
        self._target_of_group = [
            operator_index(group, spec.consumer_max_parallelism, spec.consumers)
            for group in range(spec.consumer_max_parallelism if spec.partitioner == "hash" else 0)
        ]

    @property
    def function_name(self) -> str:
        """Return the role of the function that chooses, for error messages."""
        reader = f" of {self._spec.consumer_name!r}" if self._spec.consumer_name else ""
        return ("partitioner" if self._spec.partitioner == "custom" else "key selector") + reader

    @property
    def broadcast(self) -> bool:
        """Whether every record goes to all channels."""
        return self._spec.partitioner == "broadcast"

    @property
    def needs_values(self) -> bool:
        """Whether Python values decide the channel.

        They do if a key is not in columns, or the partitioner is custom.
        """
        by_key = self._spec.partitioner == "hash" and not hasattr(self._spec.key_selector, "columns")
        return by_key or self._spec.partitioner == "custom"

    @property
    def targets(self) -> list[int]:
        """Return the consumer's subtasks that this subtask can write to."""
        return self._targets

    def split(self, values: Values, timestamps: Timestamps) -> Iterator[Portion]:
        """Yield `values` by channel, in their order within a channel. Not for broadcast."""
        partitioner = self._spec.partitioner
        if partitioner == "hash":
            yield from self._by_key(values, timestamps)
        elif len(self._targets) == 1 and partitioner != "custom":
            yield (self._targets[0], -1), values, timestamps
        elif partitioner in ("rebalance", "rescale"):
            yield from self._round_robin(values, timestamps)
        else:
            chosen = self._custom(values) if partitioner == "custom" else self._any(len(values))
            yield from _portions(values, timestamps, chosen, lambda target: (target, -1))

    def split_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> Iterator[BatchPortion]:
        """Yield the rows of `batch` by channel. Keys are columns of the key selector. Not for broadcast."""
        partitioner = self._spec.partitioner
        if len(self._targets) == 1 and partitioner not in ("hash", "custom"):
            yield (self._targets[0], -1), batch, timestamps
            return
        if partitioner == "hash":
            groups = np.asarray(self._groups_of(batch))
            chosen = groups if self._spec.grouped else np.asarray(self._target_of_group)[groups]
        elif partitioner in ("rebalance", "rescale"):
            places = (self._next + np.arange(batch.num_rows)) % len(self._targets)
            self._next = (self._next + batch.num_rows) % len(self._targets)
            chosen = np.asarray(self._targets)[places]
        else:
            chosen = np.asarray(list(self._any(batch.num_rows)))
        order = np.argsort(chosen, kind="stable")
        sorted_rows = batch.take(pa.array(order))
        stamps = None if timestamps is None else timestamps.take(pa.array(order))
        numbers, starts = np.unique(chosen[order], return_index=True)
        ends = [*starts[1:].tolist(), batch.num_rows]
        for number, start, end in zip(numbers.tolist(), starts.tolist(), ends, strict=True):
            grouped = partitioner == "hash" and self._spec.grouped
            channel = (self._target_of_group[number], number) if grouped else (number, -1)
            part = None if stamps is None else stamps.slice(start, end - start)
            yield channel, sorted_rows.slice(start, end - start), part

    def _groups_of(self, batch: pa.RecordBatch) -> Any:
        columns = self._spec.key_selector.columns  # type: ignore[union-attr]
        if len(columns) == 1:
            keys = batch.column(columns[0])
        else:
            keys = pa.StructArray.from_arrays([batch.column(name) for name in columns], names=list(columns))
        return key_groups_of_column(keys, self._spec.key_type, self._spec.consumer_max_parallelism)

    def _by_key(self, values: Values, timestamps: Timestamps) -> Iterator[Portion]:
        spec = self._spec
        assert spec.key_selector is not None
        select = spec.key_selector
        if len(self._targets) == 1 and not spec.grouped:
            yield (self._targets[0], -1), values, timestamps
            return
        keys = keys_of_records(select, values, self._failed)
        groups = self._key_groups(values, keys)
        target_of = self._target_of_group
        if spec.grouped:
            yield from _portions(values, timestamps, iter(groups), lambda group: (target_of[group], group))
        else:
            chosen = map(target_of.__getitem__, groups)
            yield from _portions(values, timestamps, chosen, lambda target: (target, -1))

    def _failed(self, error: BaseException, record: Any) -> NoReturn:
        self.current = record
        raise error

    def _key_groups(self, values: Values, keys: list[Any]) -> list[int]:
        key_type, maximum = self._spec.key_type, self._spec.consumer_max_parallelism
        try:
            return key_groups(keys, key_type, maximum)
        except Exception:
            for value, key in zip(values, keys, strict=True):
                try:
                    key_groups([key], key_type, maximum)
                except Exception:
                    self.current = value
                    raise
            raise

    def _round_robin(self, values: Values, timestamps: Timestamps) -> Iterator[Portion]:
        count, first = len(self._targets), self._next
        self._next = (first + len(values)) % count
        for offset in range(min(count, len(values))):
            stamps = None if timestamps is None else timestamps[offset::count]
            yield (self._targets[(first + offset) % count], -1), values[offset::count], stamps

    def _any(self, number: int) -> Iterator[int]:
        if self._spec.partitioner == "shuffle":
            return iter(self._random.choices(self._targets, k=number))
        return iter([0] * number)  # global

    def _custom(self, values: Values) -> Iterator[int]:
        spec = self._spec
        assert spec.custom_partitioner is not None
        select = spec.key_selector or (lambda value: value)
        for value in values:
            self.current = value
            result = spec.custom_partitioner(select(value), spec.consumers)
            if not hasattr(result, "__int__"):
                kind = type(result).__name__
                raise TypeError(f"the partitioner must return an integer, got an object of class {kind}")
            chosen = int(result)
            if not 0 <= chosen < spec.consumers:
                raise ValueError(
                    f"the partitioner must return a channel from 0 to {spec.consumers - 1}, got {chosen}"
                )
            yield chosen


def _reachable_subtasks(spec: OutputSpec, subtask: int) -> list[int]:
    if spec.partitioner == "global":
        return [0]
    first, count = spec.reading[subtask]
    return list(range(first, first + count))


def _portions(
    values: Values, timestamps: Timestamps, chosen: Iterator[int], channel: Callable[[int], Channel]
) -> Iterator[Portion]:
    buckets: dict[int, Values] = {}
    if timestamps is None:
        for value, place in zip(values, chosen, strict=True):
            if place in buckets:
                buckets[place].append(value)
            else:
                buckets[place] = [value]
        for place, bucket in buckets.items():
            yield channel(place), bucket, None
        return
    stamps: dict[int, list[int | None]] = {}
    for value, stamp, place in zip(values, timestamps, chosen, strict=True):
        if place in buckets:
            buckets[place].append(value)
            stamps[place].append(stamp)
        else:
            buckets[place] = [value]
            stamps[place] = [stamp]
    for place, bucket in buckets.items():
        yield channel(place), bucket, stamps[place]


# A guard that stops a subtask before its output to an exchange fills the disk
#
# An exchange is a barrier on Spark: all of it is on disk before its first reader begins. A function that
# never ends would fill the disk and stop everything else on the machine.


#: Bytes that must stay free, and bytes that one writer may write between checks.
_RESERVE_BYTES, _BYTES_BETWEEN_CHECKS = 1 << 30, 64 << 20


class DiskGuard:
    """Checks the disk regularly while results for the operator `consumer` are written."""

    def __init__(self, consumer: str) -> None:
        self._consumer = consumer
        self._next_check = _BYTES_BETWEEN_CHECKS

    def check(self, written: int) -> None:
        """Check the disk if enough bytes are `written`. Raises OSError if less than 1 GiB is free."""
        if written < self._next_check:
            return
        self._next_check = written + _BYTES_BETWEEN_CHECKS
        for folder in (os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()).split(","):
            try:
                free = shutil.disk_usage(folder).free
            except OSError:
                continue
            if free < _RESERVE_BYTES:
                raise OSError(errno.ENOSPC, self._message(written, free, folder))

    def _message(self, written: int, free: int, folder: str) -> str:
        reader = repr(self._consumer)
        return (
            f"{os.strerror(errno.ENOSPC)}: {written / 2**30:.1f} GiB of results for operator {reader} are "
            f"written, and only {free / 2**30:.1f} GiB are free in {folder}. {reader} begins when all of its "
            "input is written: a function that never ends needs execute_and_collect(limit=n) in STREAMING "
            "mode, or nothing after it that exchanges records (key_by, rebalance, another parallelism). "
            "For large input set spark.local.dir to a larger disk"
        )


#: The order of rows that are read before all others; see `ChannelRow.order`.
FIRST_OF_ALL = -(2**63)


#: The failed step, in error messages, if a value cannot be written as its declared type.
MISFIT = "emitting its results"
#: Records that promise this many blocks' bytes, judged by the last one, are written at once.
_LARGE_BLOCKS = 4


FLUSH_SECONDS = 0.1
"""Maximum time that records for the driver wait for others (Flink's buffer timeout)."""

#: The payload that announces to a reader that its producer was cut off: later records may be missing.
CUT_OFF = b"."


class ChannelRow(NamedTuple):
    """A block on its way, with the consumer's JobEdge and subtask, and its place in that subtask's input."""

    edge: int
    target: int
    order: int  #: STREAMING: watermark; BATCH: key group, -1 if there are none
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
    """Buffers records by channel up to the bytes of a block; a block never spans a watermark."""

    def __init__(
        self,
        spec: OutputSpec,
        *,
        subtask: int,
        batch_mode: bool,
        seed: int,
        block_bytes: int,
        emit: Callable[[ChannelRow], None],
        context: OperatorContext | None = None,
    ) -> None:
        """Set up the writer; `context` belongs to the operator that emits the records."""
        self._context = context or OperatorContext(subtask=subtask)
        self._spec, self._subtask, self._batch_mode = spec, subtask, batch_mode
        self._chooser = ChannelChooser(spec, subtask, seed)
        self._functions = opened_functions(spec.key_selector, spec.custom_partitioner)
        self._block_bytes, self._emit = block_bytes, emit
        self._watermark = MIN_WATERMARK
        self._sequence = 0
        self._buffers: dict[Channel, tuple[Values, list[int | None]]] = {}
        self._stamped = False
        self._buffered = 0
        self._records_a_block = 1024  # until the first blocks show the length of records
        self._pending_batches: dict[Channel, list[tuple[pa.RecordBatch, pa.Int64Array | None]]] = {}
        self._pending_bytes: dict[Channel, int] = {}
        self.records = 0
        self.bytes = 0
        self.cut_off = False  #: whether the budget is used up
        self._disk = DiskGuard(spec.consumer_name)
        self._flushed_at = monotonic()
        if spec.partitioner == "forward":
            # greet the reader, which without a shuffle has no other way to learn its subtask number
            emit(ChannelRow(spec.edge, self._chooser.targets[0], FIRST_OF_ALL, subtask, -1, b""))

    def open(self) -> None:
        """Open the functions that choose subtasks."""
        for function in self._functions:
            try:
                function.open(RuntimeContext(self._context))
            except BaseException as error:
                raise failure(
                    self._context, error, NO_RECORD, f"open of {self._chooser.function_name}"
                ) from error

    def close(self) -> None:
        """Close the functions that choose subtasks."""
        for function in self._functions:
            try:
                function.close()
            except BaseException as error:
                raise failure(
                    self._context, error, NO_RECORD, f"close of {self._chooser.function_name}"
                ) from error

    def collect(self, values: Values, timestamps: Timestamps) -> None:
        """Buffer records, and send full blocks.

        Raises EnoughResults once the limit is reached or the budget is used up.
        """
        if self._spec.limit is not None and self.records + len(values) >= self._spec.limit:
            count = self._spec.limit - self.records
            self._collect(values[:count], None if timestamps is None else timestamps[:count])
            self.flush()
            raise EnoughResults
        self._collect(values, timestamps)
        self._check_budget()
        self._flush_in_time()

    def _collect(self, values: Values, timestamps: Timestamps) -> None:
        self.records += len(values)
        if (timestamps is not None) != self._stamped and self._buffered:
            self.flush()  # either all records of a block have timestamps or none
        self._stamped = timestamps is not None
        if self._chooser.broadcast:
            self._add((-1, -1), values, timestamps)
            return
        try:
            portions = list(self._chooser.split(values, timestamps))
        except BaseException as error:
            raise failure(self._context, error, self._chooser.current, self._chooser.function_name) from error
        for channel, portion, stamps in portions:
            self._add(channel, portion, stamps)

    def collect_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Buffer a record batch, and send full blocks.

        If a function chooses the subtasks, records are converted to Python values first.
        """
        if self._chooser.needs_values:
            stamps = None if timestamps is None else timestamps.to_pylist()
            self.collect(values_of_batch(batch, self._spec.type_info), stamps)
            return
        enough = self._spec.limit is not None and self.records + batch.num_rows >= self._spec.limit
        if enough:
            count = self._spec.limit - self.records  # type: ignore[operator] # not None here
            batch, timestamps = (
                batch.slice(0, count),
                None if timestamps is None else timestamps.slice(0, count),
            )
        self._collect_batch(batch, timestamps)
        if enough:
            self.flush()
            raise EnoughResults
        self._check_budget()
        self._flush_in_time()

    def _collect_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
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
        """Set the watermark after which the next records come."""
        self.flush()
        self._watermark = timestamp

    def _flush_in_time(self) -> None:
        if self._spec.to_driver and monotonic() - self._flushed_at >= FLUSH_SECONDS:
            self.flush()
            self._flushed_at = monotonic()

    def _check_budget(self) -> None:
        if self._spec.budget_bytes is not None and self.bytes >= self._spec.budget_bytes:
            self.cut_off = True
            raise EnoughResults

    def current_watermark(self) -> int:
        """Return the watermark that the channel has reached."""
        return self._watermark

    def tell_cut_off(self) -> None:
        """Send all buffered records, and mark for every reader that later ones may be missing."""
        self.flush()
        self.announce(CUT_OFF)

    def announce(self, payload: bytes) -> None:
        """Send a payload other than records to every reader, which reads it first."""
        readers = (
            self._chooser.targets if self._spec.partitioner == "forward" else range(self._spec.consumers)
        )
        for target in readers:
            self._emit(ChannelRow(self._spec.edge, target, FIRST_OF_ALL, self._subtask, -1, payload))

    def flush(self) -> None:
        """Send all buffered records."""
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
        if not values:
            return
        large = value_bytes(values[-1]) * len(buffer[0]) >= _LARGE_BLOCKS * self._block_bytes
        if large or len(buffer[0]) >= self._records_a_block:
            self._flush_values(channel)
        elif self._buffered >= 32 * self._records_a_block:
            self.flush()  # many key groups: none is full, but together they are large

    def _flush_values(self, channel: Channel) -> None:
        values, stamps = self._buffers.pop(channel)
        self._buffered -= len(values)
        # one input list can become any number of results; a block keeps its size
        for start in range(0, len(values), step := max(self._records_a_block, 1)):
            part = values[start : start + step] if len(values) > step else values
            part_stamps = (stamps[start : start + step] if len(values) > step else stamps) or None
            payload = self._encoded(part, part_stamps)
            self._send(channel, payload)
            self._records_a_block = max(1, min(1 << 20, len(part) * self._block_bytes // len(payload)))

    def _encoded(self, values: Values, timestamps: Timestamps) -> bytes:
        type_info = self._spec.type_info
        try:
            return encode_values(values, timestamps, type_info, self._watermark)
        except Exception as error:
            record = misfit(values, lambda part: encode_values(part, None, type_info, self._watermark))
            raise failure(self._context, error, record, MISFIT) from error

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
        for consumer in self._chooser.targets if target < 0 else (target,):
            self._emit(ChannelRow(self._spec.edge, consumer, order, self._subtask, self._sequence, payload))
            self._sequence += 1
            self.bytes += len(payload)
        if self._spec.partitioner != "forward" and not self._spec.to_driver:
            try:
                self._disk.check(self.bytes)
            except OSError as error:
                raise failure(self._context, error, NO_RECORD, MISFIT) from error
