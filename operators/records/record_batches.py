"""Vectorised operators from record batches to record batches, without a Python object per record."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK, Operator, Timestamps, Values
from penstock.operators.common.adapt_columns import as_arrow_type, require_values
from penstock.operators.records.key_selection import OneKeyedInput
from penstock.operators.records.map_records import FlatMapResults, FunctionOperator, current

# Unchanged records


class PassOperator(Operator):
    """Emits its records unchanged; it replaces an operator that only prepares an exchange."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Pass on the values."""
        self.output.collect(values, timestamps)


# Projections of tuples
#
# Source: org.apache.flink.streaming.api.operators.StreamProject.


class Projection:
    """A function that returns the fields `indexes` of a tuple, in that order."""

    def __init__(self, indexes: Sequence[int]) -> None:
        self.indexes = tuple(indexes)
        self._get: Callable[[Any], Any] = itemgetter(*self.indexes)

    def __call__(self, record: Sequence[Any]) -> tuple[Any, ...]:
        fields = self._get(record)
        # for a single index itemgetter returns the item itself
        return fields if len(self.indexes) > 1 else (fields,)


# Map and flat map of two connected streams, with one function for each stream


class CoMapOperator(OneKeyedInput):
    """One result per record, by `map1` or `map2`; as in PyFlink, None is not a result.

    Source: org.apache.flink.streaming.api.operators.co.CoStreamMap.
    """

    def open(self) -> None:
        super().open()
        self._results = FlatMapResults(self)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the first stream."""
        self._map(self.function.map1, self.records(1, values), timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the second stream."""
        self._map(self.function.map2, self.records(2, values), timestamps)

    def _map(self, function: Callable[[Any], Any], values: Values, timestamps: Timestamps) -> None:
        self._results.call(
            lambda value: None if (result := function(value)) is None else (result,), values, timestamps
        )


class CoFlatMapOperator(OneKeyedInput):
    """Any number of results per record, by `flat_map1` or `flat_map2`.

    Source: org.apache.flink.streaming.api.operators.co.CoStreamFlatMap.
    """

    def open(self) -> None:
        super().open()
        self._results = FlatMapResults(self)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the first stream."""
        self._results.call(self.function.flat_map1, self.records(1, values), timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the second stream."""
        self._results.call(self.function.flat_map2, self.records(2, values), timestamps)


# Event time of records, and watermarks


class ExtractTimestampsOperator(Operator):
    """Gives records the timestamps that `assigner` extracts.

    Source: pyflink.datastream.data_stream.DataStream.assign_timestamps_and_watermarks, whose operator emits
    pairs of record and timestamp.
    """

    def __init__(self, assigner: Any) -> None:
        self.assigner = assigner

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Emit the values with their new timestamps."""
        self.output.collect(values, extracted(self, self.assigner, values, timestamps))


class TimestampsAndWatermarksOperator(Operator):
    """Gives records timestamps by the strategy's assigner, and emits watermarks after the largest one.

    `strategy` has `timestamp_assigner` (None: records retain their timestamps) and
    `out_of_orderness_milliseconds` (None: only the last watermark). In STREAMING mode a watermark comes every
    `auto_watermark_interval_milliseconds` of the subtask's own processor time, which for a short input is
    never: results of small jobs then do not depend on the load of the machine. BATCH mode has none before the
    end. Watermarks from upstream end here, except the last.

    Source: org.apache.flink.streaming.runtime.operators.TimestampsAndWatermarksOperator,
    BoundedOutOfOrdernessWatermarks.
    """

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy

    def open(self) -> None:
        """Look up the settings that every list needs."""
        self._lag = self.strategy.out_of_orderness_milliseconds
        self._largest = MIN_WATERMARK
        self._emitted = MIN_WATERMARK
        periodic = self._lag is not None and not self.context.batch
        interval = self.context.auto_watermark_interval_milliseconds
        self._interval_seconds = interval / 1000 if periodic and interval > 0 else None
        self._last_watermark_at = time.thread_time()
        self._has_records = False

    def begin_at(self, watermark: int) -> None:
        """Begin with the watermark at the end of the batch before."""
        self._emitted = watermark
        self.output.watermark(watermark)

    def end_batch(self) -> int | None:
        """Emit the watermark at the end of a batch, and return it; None if there were no records."""
        if self._lag is not None:
            self._emit()
        return self._emitted if self._has_records else None

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Emit the values with their new timestamps, then perhaps a watermark."""
        self._has_records = True
        if self.strategy.timestamp_assigner is not None:
            timestamps = extracted(self, self.strategy.timestamp_assigner, values, timestamps)
        if self._interval_seconds is None:
            self.output.collect(values, timestamps)
            return
        if timestamps is not None:
            stamped = [stamp for stamp in timestamps if stamp is not None]
            self._largest = max(self._largest, max(stamped, default=MIN_WATERMARK))
        self.output.collect(values, timestamps)
        now = time.thread_time()
        if now - self._last_watermark_at >= self._interval_seconds:
            self._last_watermark_at = now
            self._emit()

    def process_watermark(self, watermark: int) -> None:
        """Pass on only the watermark at the end of the input."""
        if watermark == MAX_WATERMARK:
            self.output.watermark(watermark)

    def _emit(self) -> None:
        assert self._lag is not None
        watermark = self._largest - self._lag - 1
        if self._largest != MIN_WATERMARK and watermark > self._emitted:
            self._emitted = watermark
            self.output.watermark(watermark)


def extracted(operator: Operator, assigner: Any, values: Values, timestamps: Timestamps) -> Timestamps:
    """Return the timestamps that an assigner extracts from values, whose current ones are `timestamps`."""
    extract, rest = assigner.extract_timestamp, iter(values)
    try:
        if timestamps is None:
            return _as_longs([extract(value, MIN_WATERMARK) for value in rest])
        before = [MIN_WATERMARK if stamp is None else stamp for stamp in timestamps]
        return _as_longs([extract(value, stamp) for value, stamp in zip(rest, before, strict=True)])
    except BaseException as error:
        raise operator.failed(error, current(values, rest)) from error


def _as_longs(stamps: list[Any]) -> Timestamps:
    """Return timestamps as ints; floats lose their fraction, as in PyFlink.

    Raises TypeError for any other type.
    """
    if {int}.issuperset(map(type, stamps)):
        return stamps
    for stamp in stamps:
        if not isinstance(stamp, (int, float)):
            raise TypeError(f"the timestamp assigner must return an integer, got {stamp!r}")
    return list(map(int, stamps))


_STAMPS = "$timestamp"


class MapBatchesOperator(FunctionOperator):
    """Emits the batches that the function returns for a batch.

    The function maps a RecordBatch of `input_schema` to a RecordBatch (or several, as an iterable) of
    `output_schema`; if `names` is given, its columns have these names instead. Timestamps are retained if the
    number of rows is, and dropped otherwise.
    """

    columnar = True

    def __init__(
        self,
        function: Callable[[pa.RecordBatch], pa.RecordBatch | Iterable[pa.RecordBatch]],
        input_schema: pa.Schema,
        output_schema: pa.Schema,
        names: list[str] | None = None,
    ) -> None:
        super().__init__(function)
        self.input_schema, self.output_schema = input_schema, output_schema
        self.names = output_schema.names if names is None else names

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Emit the result of the function for `batch`."""
        try:
            # inputs of a union may have their columns in other types
            for result in _batches(self.function(_of_schema(batch, self.input_schema))):
                declared = self._as_declared(result)
                if declared.num_rows:
                    self.output.collect_batch(
                        declared, timestamps if declared.num_rows == batch.num_rows else None
                    )
        except BaseException as error:
            raise self.failed(error, _first_row(batch)) from error

    def _as_declared(self, batch: Any) -> pa.RecordBatch:
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"the function must return a pyarrow RecordBatch, got {type(batch).__name__}")
        if batch.schema.names != self.names:
            raise TypeError(
                f"the columns must be {', '.join(self.names)}, got {', '.join(batch.schema.names)}"
            )
        declared = _of_schema(batch, self.output_schema)
        for column, field in zip(declared.columns, self.output_schema, strict=True):
            require_values(column, field)
        return declared


def _batches(results: Any) -> Iterable[Any]:
    if isinstance(results, pa.Table):
        return results.to_batches()  # type: ignore[no-any-return]
    if isinstance(results, pa.RecordBatch) or not isinstance(results, Iterable):
        return [results]
    return [results] if isinstance(results, Mapping) or hasattr(results, "columns") else results


def _of_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return `batch` with the columns of `schema`. Raises TypeError that names a column of another type."""
    if batch.schema.equals(schema):
        return batch
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if _zoned(column.type) != _zoned(field.type) and kinds.is_timestamp(column.type):
            raise TypeError(f"column {field.name!r} must be {field.type}, got {column.type}")
        try:
            columns.append(as_arrow_type(column, field.type))
        except (pa.ArrowException, OverflowError) as error:
            raise TypeError(
                f"column {field.name!r} must be {field.type}, got {column.type}: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _zoned(data_type: pa.DataType) -> bool:
    return getattr(data_type, "tz", None) is not None


def _first_row(batch: pa.RecordBatch) -> Any:
    first = batch.slice(0, 1)
    try:
        return first.to_pylist()
    except Exception:  # a value that Python cannot hold
        return [{name: str(column) for name, column in zip(first.schema.names, first.columns, strict=True)}]


class FilterBatchesOperator(Operator):
    """Passes on the rows for which a pyarrow compute expression is true; null is not true."""

    columnar = True

    def __init__(self, expression: pc.Expression) -> None:
        self.expression = expression

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Emit the rows for which the expression is true."""
        rows = batch if timestamps is None else batch.append_column(_STAMPS, timestamps)
        try:
            passing = rows.filter(self.expression)
        except BaseException as error:
            raise self.failed(error, _first_row(batch)) from error
        if not passing.num_rows:
            return
        if timestamps is None:
            self.output.collect_batch(passing, None)
        else:
            last = passing.num_columns - 1
            self.output.collect_batch(passing.select(list(range(last))), passing.column(last))
