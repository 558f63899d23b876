"""How a window's contents grow by a record and become the window function's input, without state.

Does what the reducing, aggregating and list state of a window do: None stands for no contents.
"""

from collections.abc import Callable
from operator import concat
from typing import Any, NamedTuple

from operators.functions.functions import ReduceFunctionWrapper
from operators.process.results import frozen
from operators.state.descriptors import AggregatingStateDescriptor, ReducingStateDescriptor, StateDescriptor


class Fold(NamedTuple):
    """`first` makes contents of a record, `step` of contents and a record, `merge` of contents and contents.

    `result` makes the window function's input of contents.
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
        return Fold(frozen, reduce, reduce, _same)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return _aggregation(descriptor.get_agg_function())
    return Fold(_list_of, _appended, concat, _same)


def _aggregation(function: Any) -> Fold:
    add, create = function.add, function.create_accumulator

    def first(value: Any) -> Any:
        return None if value is None else add(value, create())

    def step(accumulator: Any, value: Any) -> Any:
        return None if value is None else add(value, accumulator)

    return Fold(first, step, function.merge, function.get_result)


def _same(value: Any) -> Any:
    return value


def _list_of(value: Any) -> list[Any]:
    return [value]


def _appended(values: list[Any], value: Any) -> list[Any]:
    values.append(value)
    return values
