"""Folds records into a window's contents, and these into the window function's input, without state.

Does what the reducing, aggregating and list state of a window do: None stands for no contents.
"""

from collections.abc import Callable
from operator import concat
from typing import Any, NamedTuple

from penstock.operators.chain.results import frozen
from penstock.operators.state.descriptors import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.operators.state.reducer_and_aggregator import ReduceFunctionWrapper
from penstock.operators.state.value_check import Check, value_check


class Fold(NamedTuple):
    """`first` makes contents from a record, `step` from contents and a record, `merge` from two contents.

    `result` makes the window function's input from contents.
    """

    first: Callable[[Any], Any]
    step: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any]
    result: Callable[[Any], Any]


def fold_of(descriptor: StateDescriptor) -> Fold:
    """The fold that stands for a window's state. The result of a list is the list itself, not a copy."""
    if isinstance(descriptor, ReducingStateDescriptor):
        reduce_function = descriptor.get_reduce_function()
        plain = type(reduce_function) is ReduceFunctionWrapper
        reduce = reduce_function._func if plain else reduce_function.reduce
        # Reducing may change the first record in place, which other windows hold as well.
        check = value_check(descriptor.type_info)
        return Fold(frozen, reduce, reduce, _same if check is None else _checked(_same, check))
    if isinstance(descriptor, AggregatingStateDescriptor):
        return _aggregation(descriptor.get_agg_function(), value_check(descriptor.type_info))
    return Fold(_list_of, _appended, concat, _same)


def _aggregation(function: Any, check: Check | None) -> Fold:
    add, create = function.add, function.create_accumulator

    def first(value: Any) -> Any:
        return None if value is None else step(create(), value)

    def step(accumulator: Any, value: Any) -> Any:
        if value is None:
            return None
        after = add(value, accumulator)
        if after is None and check is not None:
            check(after)
        return after

    result = function.get_result
    return Fold(first, step, function.merge, result if check is None else _checked(result, check))


def _checked(result: Callable[[Any], Any], check: Check) -> Callable[[Any], Any]:
    # contents are checked when they are read, not record by record: a wrong value mostly stays wrong
    def checked(contents: Any) -> Any:
        check(contents)
        return result(contents)

    return checked


def _same(value: Any) -> Any:
    return value


def _list_of(value: Any) -> list[Any]:
    return [value]


def _appended(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values
