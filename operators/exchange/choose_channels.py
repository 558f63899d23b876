"""Chooses the consumer's subtask for each record: Flink's partitioners over lists of records.

Source: org.apache.flink.streaming.runtime.partitioner.{Forward,Rebalance,Rescale,Shuffle,Broadcast,Global,
KeyGroupStream,CustomPartitionerWrapper}Partitioner.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from penstock.operators.chain.describe_error import NO_RECORD
from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.common.key_groups import key_groups, key_groups_of_column, operator_index
from penstock.operators.exchange.output_spec import OutputSpec
from penstock.operators.records.key_selection import keys_of_records

#: A channel and what goes there. A channel is (consumer subtask, key group or -1).
Channel = tuple[int, int]
Portion = tuple[Channel, Values, Timestamps]
BatchPortion = tuple[Channel, pa.RecordBatch, pa.Int64Array | None]


class ChannelChooser:
    """Splits lists of records over the channels of one JobEdge of one subtask."""

    def __init__(self, spec: OutputSpec, subtask: int, seed: int) -> None:
        self._spec = spec
        self._random = random.Random(f"{seed}/{spec.edge}/{subtask}")
        self.current: Any = NO_RECORD  #: the record that a function of the author's has failed for
        self._targets = _reachable_subtasks(spec, subtask)
        # Flink's RebalancePartitioner starts anywhere: here, producers start at different consumers
        self._next = subtask % len(self._targets) if spec.partitioner == "rebalance" else 0
        self._target_of_group = [
            operator_index(group, spec.consumer_max_parallelism, spec.consumers)
            for group in range(spec.consumer_max_parallelism if spec.partitioner == "hash" else 0)
        ]

    @property
    def what(self) -> str:
        """The function that chooses, for error messages."""
        reader = f" of {self._spec.consumer_name!r}" if self._spec.consumer_name else ""
        return ("partitioner" if self._spec.partitioner == "custom" else "key selector") + reader

    @property
    def broadcast(self) -> bool:
        """Every record goes to all channels."""
        return self._spec.partitioner == "broadcast"

    @property
    def needs_values(self) -> bool:
        """Channels follow from Python values: there are keys, and they are not columns."""
        by_key = self._spec.partitioner == "hash" and not hasattr(self._spec.key_selector, "columns")
        return by_key or self._spec.partitioner == "custom"

    @property
    def targets(self) -> list[int]:
        """The consumer's subtasks that this subtask can write to."""
        return self._targets

    def split(self, values: Values, timestamps: Timestamps) -> Iterator[Portion]:
        """`values` by channel; within a channel in their order. Not for broadcast."""
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
        """The rows of `batch` by channel. Not for broadcast; keys are columns (`key_selector.columns`)."""
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
            answer = spec.custom_partitioner(select(value), spec.consumers)
            if not hasattr(answer, "__int__"):
                kind = type(answer).__name__
                raise TypeError(f"the partitioner gave an object of class {kind}: an integer is required")
            chosen = int(answer)
            if not 0 <= chosen < spec.consumers:
                raise ValueError(
                    f"the partitioner gave channel {chosen}; allowed are 0 to {spec.consumers - 1}"
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
