"""Keyed aggregation over columns: two operators and an exchange between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.engine.datastream.arrow_schemas import schema_of_type, type_of_schema
from penstock.operators.records.aggregate_batches import (
    FUNCTIONS,
    Aggregation,
    FinalAggregateOperator,
    PartialAggregateOperator,
    final_schema,
    partial_schema,
)
from penstock.operators.records.key_selection import ColumnKeys

if TYPE_CHECKING:
    from penstock.engine.datastream.data_stream import DataStream


def aggregated(
    keyed: Any, select: Callable[[Any], Any], aggregations: Sequence[tuple[str, str]]
) -> DataStream:
    """The aggregates of a KeyedStream by key. TypeError and ValueError as KeyedStream.aggregate says."""
    if not isinstance(select, ColumnKeys):
        raise TypeError("aggregate needs keys by name: key_by of names of fields")
    origin: DataStream = keyed._origin_stream
    schema = schema_of_type(origin._transformation.output_type)
    wanted = [Aggregation(column, function) for column, function in aggregations]
    wrong = [f"{one.function} of {one.column}" for one in wanted if one.function not in FUNCTIONS]
    wrong += [f"{one.function} of {one.column}" for one in wanted if one.column not in schema.names]
    if wrong or not wanted:
        raise ValueError(
            f"aggregations {', '.join(wrong) or '(none)'}: functions are {', '.join(FUNCTIONS)}, "
            f"fields {', '.join(schema.names)}"
        )
    keys = list(select.columns)
    partial = origin._of_one_input(
        "Local Aggregate",
        PartialAggregateOperator(keys, wanted),
        type_of_schema(partial_schema(schema, keys, wanted)),
    )
    return partial.key_by(keys)._of_one_input(
        "Aggregate", FinalAggregateOperator(keys, wanted), type_of_schema(final_schema(schema, keys, wanted))
    )
