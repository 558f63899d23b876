"""Reduce on a keyed stream: every update in STREAMING mode, the final value in BATCH mode.

Source: org.apache.flink.streaming.api.operators.{StreamGroupedReduceOperator,BatchGroupedReduceOperator};
pyflink.datastream.data_stream.KeyedStream.reduce.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from penstock.operators.chain.describe_error import NO_RECORD
from penstock.operators.chain.operator import MAX_WATERMARK, Timestamps, Values
from penstock.operators.chain.piece_size import PieceSize
from penstock.operators.chain.results import UNCHANGING, frozen
from penstock.operators.common.basic_types import TypeInformation
from penstock.operators.process.keyed_process_operators import KeyedFunctionOperator
from penstock.operators.records.map_records import current, span
from penstock.operators.records.user_function import method
from penstock.operators.state.value_check import record_check


class ReduceOperator(KeyedFunctionOperator):
    """A ReduceFunction or a callable of two values."""

    def __init__(
        self, function: Any, key_selector: Callable[[Any], Any], output_type: TypeInformation | None = None
    ) -> None:
        super().__init__(function, key_selector)
        self._output_type = output_type

    def open(self) -> None:
        """Make the state, open the function."""
        super().open()
        self._reduce = method(self.function, "reduce")
        self._piece = PieceSize()
        self._table = self.backend.table("_reduce_state")
        self._table.check = record_check(self._output_type)

    def handle(self, number: int, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        """Reduce each key's value with its records."""
        if self.context.batch:
            self._handle_one_key(values)
        else:
            self._handle(values, timestamps, keys)
        if self._table.check is not None:
            self._table.written.update(keys)

    def _handle(self, values: Values, timestamps: Timestamps, keys: Iterable[Any]) -> None:
        function, entries, unchanging = self._reduce, self._table.entries, UNCHANGING
        backend = self.backend
        updates: Values = []
        value: Any = NO_RECORD
        done = 0
        piece = self._piece
        limit = piece.limit
        try:
            for value, key in zip(values, keys, strict=True):
                backend.key = key
                before = entries.get(key)
                after = value if before is None else function(before, value)
                entries[key] = after
                kind = type(after)
                if kind in unchanging or (kind is tuple and unchanging.issuperset(map(type, after))):
                    updates.append(after)
                else:
                    # The function may change what it is given the next time.
                    updates.append(frozen(after))
                if len(updates) >= limit:
                    if piece.is_full(updates):
                        self.output.collect(updates, span(timestamps, done, len(updates)))
                        done += len(updates)
                        updates = []
                    limit = piece.limit
        except BaseException as error:
            raise self.failed(error, value) from error
        piece.begin()
        if updates:
            self.output.collect(updates, span(timestamps, done, len(updates)))

    def _handle_one_key(self, values: Values) -> None:
        entries, key = self._table.entries, self.backend.key
        rest = iter(values)
        before = entries.get(key)
        try:
            if before is None:
                before = next(rest)
            entries[key] = reduce(self._reduce, rest, before)
        except BaseException as error:
            raise self.failed(error, current(values, rest)) from error

    def on_end_of_key(self) -> None:
        """Put out the final value; its timestamp is the last there is, as that of the timer in PyFlink."""
        value = self._table.entries.get(self.backend.key)
        if value is not None:
            self.results.add((value,), MAX_WATERMARK)
