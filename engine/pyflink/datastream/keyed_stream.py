"""Operations on keyed streams.

Source: pyflink.datastream.data_stream.KeyedStream; org.apache.flink.streaming.api.datastream.KeyedStream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from penstock.engine.pyflink.common.typeinfo import TypeInformation
from penstock.engine.pyflink.datastream.arrow_schemas import schema_of_type
from penstock.engine.pyflink.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    MapFunction,
    ReduceFunction,
)
from penstock.engine.pyflink.datastream.operator_settings import (
    as_output_type,
    check_function,
    check_function_object,
)
from penstock.engine.pyflink.datastream.stream_settings import StreamSettings
from penstock.engine.run.runtime.transformations import Call
from penstock.operators.common.declared_types import DeclaredType, declared_type
from penstock.operators.process.keyed_function_operators import (
    KeyedFilterOperator,
    KeyedFlatMapOperator,
    KeyedMapOperator,
)
from penstock.operators.process.keyed_process_operators import KeyedProcessOperator
from penstock.operators.process.reduce_operator import ReduceOperator
from penstock.operators.records.aggregate_batches import (
    FUNCTIONS,
    Aggregation,
    FinalAggregateOperator,
    PartialAggregateOperator,
    final_schema,
    partial_schema,
)
from penstock.operators.records.field_aggregates import Field, FieldAggregate
from penstock.operators.records.key_selection import ColumnKeys

if TYPE_CHECKING:
    from penstock.engine.pyflink.datastream.data_stream import DataStream


class KeyedOperations(StreamSettings):
    """map, flat_map, filter, process, reduce, sum and its like."""

    _key_selector: Callable[[Any], Any]

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """One result for each record; a MapFunction may use keyed state."""
        check_function(func, MapFunction, "map's function")
        return self._keyed("Map", KeyedMapOperator(func, self._key_selector), as_output_type(output_type))

    def flat_map(
        self, func: Callable[[Any], Any] | FlatMapFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Any number of results for each record; a FlatMapFunction may use keyed state."""
        check_function(func, FlatMapFunction, "flat_map's function")
        operator = KeyedFlatMapOperator(func, self._key_selector)
        return self._keyed("FlatMap", operator, as_output_type(output_type))

    def filter(self, func: Callable[[Any], Any] | FilterFunction | pc.Expression) -> DataStream:
        """The records for which the function is true; a FilterFunction may use keyed state."""
        if isinstance(func, pc.Expression):
            raise TypeError("an expression needs no keys: filter by it before key_by")
        check_function(func, FilterFunction, "filter's function")
        operator = KeyedFilterOperator(func, self._key_selector)
        return self._keyed("Filter", operator, self._transformation.output_type)

    def process(self, func: KeyedProcessFunction, output_type: DeclaredType | None = None) -> DataStream:
        """Any number of results for each record, with state and timers by key."""
        check_function_object(func, KeyedProcessFunction, "process's function on a KeyedStream")
        operator = KeyedProcessOperator(func, self._key_selector)
        return self._keyed("KEYED PROCESS", operator, as_output_type(output_type))

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Records of a key combined: every update in STREAMING mode, the last one in BATCH mode."""
        check_function(func, ReduceFunction, "reduce's function")
        output_type = self._transformation.output_type
        return self._keyed("Reduce", ReduceOperator(func, self._key_selector, output_type), output_type)

    def sum(self, position_to_sum: Field = 0) -> DataStream:
        """The sum of a field (by number or name; of the value itself where it has none) by key so far."""
        return self.reduce(FieldAggregate("sum", position_to_sum))

    def min(self, position_to_min: Field = 0) -> DataStream:
        """The least value of a field by key so far, in the first record of its key."""
        return self.reduce(FieldAggregate("min", position_to_min))

    def max(self, position_to_max: Field = 0) -> DataStream:
        """The largest value of a field by key so far, in the first record of its key."""
        return self.reduce(FieldAggregate("max", position_to_max))

    def min_by(self, position_to_min_by: Field = 0) -> DataStream:
        """The record with the least value of a field by key so far, the first of equals."""
        return self.reduce(FieldAggregate("min_by", position_to_min_by))

    def max_by(self, position_to_max_by: Field = 0) -> DataStream:
        """The record with the largest value of a field by key so far, the first of equals."""
        return self.reduce(FieldAggregate("max_by", position_to_max_by))

    def aggregate(self, aggregations: Sequence[tuple[str, str]]) -> DataStream:
        """Aggregate columns: one row for each key, at the end of the input. Penstock's own, vectorised.

        `aggregations`: pairs of a field and a function (sum, min, max, count or mean). Each becomes a field
        `<field>_<function>` after the key's fields. Nulls do not count. Partial results are made before
        the exchange. TypeError unless the keys are names of fields, ValueError for another function.
        """
        return aggregated(self, self._key_selector, aggregations)

    def _keyed(
        self,
        name: str,
        operator: Any,
        output_type: TypeInformation | None,
        call: Call = Call.KEYED_PROCESS,
    ) -> DataStream:
        return self._append_operator(
            name, operator, output_type, key_selectors=(self._key_selector,), call=call
        )


# Keyed aggregation over columns: two operators and an exchange between them.


def aggregated(
    keyed: Any, select: Callable[[Any], Any], aggregations: Sequence[tuple[str, str]]
) -> DataStream:
    """The aggregates of a KeyedStream by key. TypeError and ValueError as KeyedStream.aggregate says."""
    if not isinstance(select, ColumnKeys):
        raise TypeError("aggregate needs keys by name: key_by of names of fields")
    origin: DataStream = keyed._origin_stream
    schema = schema_of_type(origin._transformation.output_type)
    wanted = [Aggregation(column, function) for column, function in aggregations]
    wrong = [
        f"{aggregation.function} of {aggregation.column}"
        for aggregation in wanted
        if aggregation.function not in FUNCTIONS
    ]
    wrong += [
        f"{aggregation.function} of {aggregation.column}"
        for aggregation in wanted
        if aggregation.column not in schema.names
    ]
    if wrong or not wanted:
        raise ValueError(
            f"aggregations {', '.join(wrong) or '(none)'}: functions are {', '.join(FUNCTIONS)}, "
            f"fields {', '.join(schema.names)}"
        )
    keys = list(select.columns)
    partial = origin._append_operator(
        "Local Aggregate",
        PartialAggregateOperator(keys, wanted),
        declared_type(partial_schema(schema, keys, wanted)),
    )
    return partial.key_by(keys)._append_operator(
        "Aggregate", FinalAggregateOperator(keys, wanted), declared_type(final_schema(schema, keys, wanted))
    )
