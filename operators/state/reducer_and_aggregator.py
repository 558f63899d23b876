"""The calls of reduce and aggregate functions by state, which never opens or closes them (as in Flink).

Source: org.apache.flink.api.common.functions.{ReduceFunction,AggregateFunction}.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class Reducer(ABC):
    """Combines two values of one type into one; called again and again until one is left."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """The combined value. `value1` may be changed and returned."""


class Aggregator(ABC):
    """Adds values to an accumulator, whose type may be another than that of values and result."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """An accumulator that nothing was added to."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with `value` added; it may be the one given, changed."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """The result for what was added."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """One accumulator of two; either may be changed and returned."""


class ReduceFunctionWrapper(Reducer):
    """A callable of two values as a Reducer."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self._func = func

    def reduce(self, value1: Any, value2: Any) -> Any:
        """The callable's result for the two."""
        return self._func(value1, value2)
