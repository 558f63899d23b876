"""Keyed aggregation over record batches, with partial results before the exchange, final ones after it.

Source: Flink SQL's two-phase aggregation (TwoStageOptimizedAggregateRule), for the shape.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.operators.chain.operator import Operator
from penstock.operators.common.row import Row

# Sums, minima and maxima of a field, as functions that make one record from two
#
# Source: pyflink.datastream.data_stream.KeyedStream._accumulate;
# org.apache.flink.streaming.api.functions.aggregation.{SumAggregator,ComparableAggregator}.


#: A field by number or name.
Field = int | str
Kind = Literal["sum", "min", "max", "min_by", "max_by"]
Reduce = Callable[[Any, Any], Any]


class FieldAggregate:
    """Aggregates two records to one by a field of tuples, lists and rows, or by their values.

    sum, min and max return the first record with the field replaced; min_by and max_by return one of the two,
    the first if their fields are equal. Records are never changed in place. Raises TypeError for a field that
    is neither a number nor a name, and, at the first record without fields, for any field except 0.
    """

    def __init__(self, kind: Kind, field: Field) -> None:
        if not isinstance(field, int | str):
            raise TypeError(f"{kind}: field must be a number or a name, got {field!r}")
        self.kind, self.field = kind, field
        self._reduce: Reduce | None = None

    def __call__(self, first: Any, second: Any) -> Any:
        """Return one record for two."""
        if self._reduce is None:
            self._reduce = _reduce_for(self.kind, self.field, second)
        return self._reduce(first, second)

    def __getstate__(self) -> dict[str, Any]:
        return {"kind": self.kind, "field": self.field, "_reduce": None}


def _reduce_for(kind: Kind, field: Any, example: Any) -> Reduce:
    choose = _CHOOSE[kind]
    if isinstance(example, tuple | list | Row):
        if kind in ("min_by", "max_by"):
            return lambda first, second: second if choose(first[field], second[field]) else first
        if kind == "sum":
            replaced = _replaced_in(example, field)
            return lambda first, second: replaced(first, first[field] + second[field])
        replaced = _replaced_in(example, field)
        return lambda first, second: (
            replaced(first, second[field]) if choose(first[field], second[field]) else first
        )
    if field != 0:
        raise TypeError(
            f"{kind}: field must be 0, since {type(example).__name__} values have no fields, got {field!r}"
        )
    if kind == "sum":
        return lambda first, second: first + second
    return lambda first, second: second if choose(first, second) else first


#: Whether to take the second of two records.
_CHOOSE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda first, second: False,
    "min": lambda first, second: second < first,
    "min_by": lambda first, second: second < first,
    "max": lambda first, second: second > first,
    "max_by": lambda first, second: second > first,
}


def _replaced_in(example: Any, field: Any) -> Reduce:
    """Return a function that returns a record with another value in `field`."""
    if isinstance(example, tuple):

        def in_tuple(record: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
            fields = list(record)
            fields[field] = value
            return tuple(fields)

        return in_tuple

    def in_copy(record: Any, value: Any) -> Any:
        record = copy.copy(record)
        record[field] = value
        return record

    return in_copy


#: Rows that are collected before they are aggregated, and rows of partial results in one batch.
_GROUPED_ROWS = 1 << 20
_OUTPUT_ROWS = 1 << 16

#: Function to its partial results of a column, as (partial function, function that merges its results).
_PARTIALS = {
    "sum": (("sum", "sum"),),
    "min": (("min", "min"),),
    "max": (("max", "max"),),
    "count": (("count", "sum"),),
    "mean": (("sum", "sum"), ("count", "sum")),
}
FUNCTIONS = tuple(_PARTIALS)


class Aggregation(NamedTuple):
    """One column of the result, named `<column>_<function>`; nulls do not count."""

    column: str
    function: str  #: one of FUNCTIONS

    @property
    def name(self) -> str:
        """Return the column's name in the result."""
        return f"{self.column}_{self.function}"


class PartialAggregateOperator(Operator):
    """Emits one row of partial results for each key of this subtask, at the end of the input or earlier.

    Takes record batches with the columns of `keys` and `aggregations`. Emits `keys`, and the partial results
    of each aggregation (`_PARTIALS`) as columns `<column>$<function>`.
    """

    columnar = True

    def __init__(self, keys: Sequence[str], aggregations: Sequence[Aggregation]) -> None:
        self.keys, self.aggregations = list(keys), list(aggregations)

    def open(self) -> None:
        """Start without rows."""
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._partials: list[pa.RecordBatch] = []
        self._rows = 0

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Store the batch; aggregate the stored batches once they have enough rows."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        if self._waiting_rows >= _GROUPED_ROWS:
            self._aggregate_waiting()

    def finish(self) -> None:
        """Emit the results."""
        self._aggregate_waiting()
        if self._partials:
            self._emit(self._merged())
            self._partials = []

    def _aggregate_waiting(self) -> None:
        if self._waiting:
            batches, self._waiting, self._waiting_rows = self._waiting, [], 0
            self._add_partial(self._first(pa.Table.from_batches(batches)))

    def _add_partial(self, partial: pa.Table) -> None:
        self._partials.extend(partial.to_batches())
        self._rows += partial.num_rows
        if self._rows > _GROUPED_ROWS:
            merged = self._merged()
            # keys that hardly repeat: merging again and again would be quadratic, so they go on
            if merged.num_rows > _GROUPED_ROWS // 2:
                self._full(merged)
            else:
                self._partials, self._rows = merged.to_batches(), merged.num_rows

    def _full(self, merged: pa.Table) -> None:
        self._emit(merged)
        self._partials, self._rows = [], 0

    def _first(self, table: pa.Table) -> pa.Table:
        partial_functions = [
            (aggregation.column, function)
            for aggregation in self.aggregations
            for function, _ in _PARTIALS[aggregation.function]
        ]
        partial_functions = list(dict.fromkeys(partial_functions))
        grouped = table.group_by(self.keys, use_threads=False).aggregate(partial_functions)
        return pa.table(
            {
                **{key: grouped[key] for key in self.keys},
                **{
                    f"{column}${function}": grouped[f"{column}_{function}"]
                    for column, function in partial_functions
                },
            }
        )

    def _merged(self) -> pa.Table:
        table = pa.Table.from_batches(self._partials)
        merges = {
            f"{aggregation.column}${partial_function}": merge
            for aggregation in self.aggregations
            for partial_function, merge in _PARTIALS[aggregation.function]
        }
        grouped = table.group_by(self.keys, use_threads=False).aggregate(list(merges.items()))
        return pa.table(
            {
                **{key: grouped[key] for key in self.keys},
                **{column: grouped[f"{column}_{merge}"] for column, merge in merges.items()},
            }
        )

    def _emit(self, table: pa.Table) -> None:
        for batch in table.combine_chunks().to_batches(max_chunksize=_OUTPUT_ROWS):
            self.output.collect_batch(batch, None)


class FinalAggregateOperator(PartialAggregateOperator):
    """Emits one row for each key at the end of the input, with `keys`, then one column per aggregation.

    Takes the output of PartialAggregateOperator, with all rows of a key in one subtask.
    """

    def _first(self, table: pa.Table) -> pa.Table:
        return table

    def _full(self, merged: pa.Table) -> None:
        self._partials, self._rows = merged.to_batches(), 0

    def finish(self) -> None:
        """Emit the results."""
        self._aggregate_waiting()
        if self._partials:
            self._emit(self._results(self._merged()))
            self._partials = []

    def _results(self, merged: pa.Table) -> pa.Table:
        columns = {key: merged[key] for key in self.keys}
        for aggregation in self.aggregations:
            if aggregation.function == "mean":
                total, count = merged[f"{aggregation.column}$sum"], merged[f"{aggregation.column}$count"]
                columns[aggregation.name] = pc.divide(total.cast(pa.float64()), count.cast(pa.float64()))
            else:
                columns[aggregation.name] = merged[f"{aggregation.column}${aggregation.function}"]
        return pa.table(columns)


def partial_schema(schema: pa.Schema, keys: Sequence[str], aggregations: Sequence[Aggregation]) -> pa.Schema:
    """Return the columns of PartialAggregateOperator's output for an input of `schema`."""
    return _schema_of(PartialAggregateOperator(keys, aggregations)._first, schema)


def final_schema(schema: pa.Schema, keys: Sequence[str], aggregations: Sequence[Aggregation]) -> pa.Schema:
    """Return the columns of FinalAggregateOperator's output if the partial operator's input has `schema`."""
    first, last = PartialAggregateOperator(keys, aggregations), FinalAggregateOperator(keys, aggregations)

    def both(table: pa.Table) -> pa.Table:
        last._partials = [_empty(first._first(table).schema)]
        return last._results(last._merged())

    return _schema_of(both, schema)


def _schema_of(derive: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> pa.Schema:
    return derive(pa.Table.from_batches([_empty(schema)])).schema


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
