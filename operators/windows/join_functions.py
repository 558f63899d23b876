"""The functions of window joins, coGroups and interval joins, with the Java API's names; PyFlink has none.

Source: org.apache.flink.api.common.functions.{JoinFunction,FlatJoinFunction,CoGroupFunction};
org.apache.flink.streaming.api.functions.co.ProcessJoinFunction.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from penstock.operators.functions.functions import Function


class JoinFunction(Function):
    """One result for each pair of records that join."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """The result for a record of the first input and one of the second."""


class FlatJoinFunction(Function):
    """Any number of results for each pair of records that join."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """The results, returned or yielded, for a record of the first input and one of the second."""


class CoGroupFunction(Function):
    """Any number of results for what a key has in a window on both sides; either may be empty, not both."""

    @abstractmethod
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any] | None:
        """The results, returned or yielded, for the records of the first and of the second input."""


class ProcessJoinFunction(Function):
    """Any number of results, some perhaps for side outputs, for each pair of records that join."""

    class Context(ABC):
        """The times of the pair. Milliseconds since the epoch."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """The timestamp of the first input's record."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """The timestamp of the second input's record."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """The timestamp of the results: the later of the two."""

    @abstractmethod
    def process_element(
        self, left: Any, right: Any, ctx: "ProcessJoinFunction.Context"
    ) -> Iterable[Any] | None:
        """The results, returned or yielded, for a pair of records; `yield tag, value` for side outputs."""
