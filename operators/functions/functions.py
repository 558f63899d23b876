"""Base classes of the functions that need no context of their own.

Source: pyflink.datastream.functions; org.apache.flink.api.common.functions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from penstock.operators.common.no_java import no_java
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.operators.state.interfaces import Aggregator, Reducer

# Functions that PyFlink takes from Java. They have a name here, but cannot be made.
#
# Source: pyflink.datastream.functions.


class JavaFunctionWrapper:
    """A function written in Java. Raises NoJavaError when made."""

    def __init__(self, j_function: Any) -> None:
        no_java(f"{type(self).__name__}({j_function!r})")

    def get_java_function(self) -> NoReturn:
        no_java("JavaFunctionWrapper.get_java_function")


class SourceFunction(JavaFunctionWrapper):
    """A source written in Java. Raises NoJavaError when made."""

    def __init__(self, source_func: Any) -> None:
        super().__init__(source_func)


class SinkFunction(JavaFunctionWrapper):
    """A sink written in Java. Raises NoJavaError when made."""

    def __init__(self, sink_func: Any) -> None:
        super().__init__(sink_func)


class Function(ABC):  # noqa: B024 what functions have to do differs
    """Anything written by a job's author that an operator runs; opened and closed in each subtask."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 may be left out
        """Called before the first record."""

    def close(self) -> None:  # noqa: B027 may be left out
        """Called after the last record, and after a failure."""


class MapFunction(Function):
    """One result per record."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """The result for `value`."""


class CoMapFunction(Function):
    """One result per record of either of two connected streams."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """The result for a record of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """The result for a record of the second stream."""


class FlatMapFunction(Function):
    """Any number of results per record."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """The results for `value`, returned or yielded; None is no result."""


class CoFlatMapFunction(Function):
    """Any number of results per record of either of two connected streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """The results for a record of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """The results for a record of the second stream."""


class ReduceFunction(Function, Reducer):
    """Combines two values of one type into one; called again and again until one is left."""


class AggregateFunction(Function, Aggregator):
    """Adds values to an accumulator, whose type may be another than that of values and result."""


class KeySelector(Function):
    """Gives the key of a record."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """The key: always the same for equal values."""


class NullByteKeySelector(KeySelector):
    """The same key for all records: keyed operators then work on streams without keys."""

    def get_key(self, value: Any) -> int:
        return 0


class FilterFunction(Function):
    """Says which records stay."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Whether `value` stays; it must not be changed."""


class Partitioner(Function):
    """Says which subtask a record goes to."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """The subtask for `key`, from 0 to below `num_partitions`."""


class FunctionWrapper(Function):
    """A plain callable as a Function."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self._func = func
