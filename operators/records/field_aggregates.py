"""Sums, least and largest values of a field, as functions that make one record from two.

Source: pyflink.datastream.data_stream.KeyedStream._accumulate;
org.apache.flink.streaming.api.functions.aggregation.{SumAggregator,ComparableAggregator}.
"""

import copy
from collections.abc import Callable
from typing import Any, Literal

from penstock.operators.common.row import Row

#: A field by number or name.
Field = int | str
Kind = Literal["sum", "min", "max", "min_by", "max_by"]
Reduce = Callable[[Any, Any], Any]


class FieldAggregate:
    """The aggregate of two records as one; of tuples, lists and rows by their `field`, of others themselves.

    sum, min and max give the first record with the field replaced; min_by and max_by one of the two, the
    first where their fields are equal. Records themselves are never changed. TypeError for a field that is
    no number and no name, and, at the first record without fields, for any other than 0.
    """

    def __init__(self, kind: Kind, field: Field) -> None:
        if not isinstance(field, int | str):
            raise TypeError(f"{kind} of field {field!r}: a number or a name is needed")
        self.kind, self.field = kind, field
        self._reduce: Reduce | None = None

    def __call__(self, first: Any, second: Any) -> Any:
        """One record of two."""
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
            f"{kind} of field {field!r} of {type(example).__name__} values, which have no fields but "
            "themselves, field 0"
        )
    if kind == "sum":
        return lambda first, second: first + second
    return lambda first, second: second if choose(first, second) else first


#: Whether the second of two is to be taken.
_CHOOSE: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda first, second: False,
    "min": lambda first, second: second < first,
    "min_by": lambda first, second: second < first,
    "max": lambda first, second: second > first,
    "max_by": lambda first, second: second > first,
}


def _replaced_in(example: Any, field: Any) -> Reduce:
    """A function that gives a record with another value in `field`."""
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
