"""Two streams that one operator reads.

Source: pyflink.datastream.data_stream.ConnectedStreams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.engine.pyflink.common.typeinfo import TypeInformation
from penstock.engine.pyflink.datastream.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    KeySelector,
)
from penstock.engine.pyflink.datastream.operator_settings import as_output_type, check_methods
from penstock.engine.run.runtime.transformations import Call
from penstock.operators.common.declared_types import DeclaredType
from penstock.operators.process.keyed_function_operators import KeyedCoFlatMapOperator, KeyedCoMapOperator
from penstock.operators.process.keyed_process_operators import KeyedCoProcessOperator
from penstock.operators.process.process_operators import CoProcessOperator
from penstock.operators.records.co_map_records import CoFlatMapOperator, CoMapOperator
from penstock.operators.records.key_selection import KeyedRow

if TYPE_CHECKING:
    from penstock.engine.pyflink.datastream.data_stream import DataStream

_Selectors = tuple[Callable[[Any], Any], Callable[[Any], Any]]


class ConnectedStreams:
    """`stream1` and `stream2`, whose types may differ; keyed where both are keyed streams.

    If only one of them is, its records are rows of key and record, and there is no state by key.
    """

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: Callable[[Any], Any] | KeySelector,
        key_selector2: Callable[[Any], Any] | KeySelector,
        key_type: DeclaredType | None = None,
    ) -> ConnectedStreams:
        """Both streams by keys of one type; records of the same key meet in the same subtask."""
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    def map(self, func: CoMapFunction, output_type: DeclaredType | None = None) -> DataStream:
        """At most one result for each record, by `map1` or `map2`; None is no result."""
        check_methods(func, CoMapFunction, "map's function on two streams")
        selectors = self._selectors()
        operator = KeyedCoMapOperator(func, *selectors) if selectors else CoMapOperator(func)
        return self._result("Co-Map", operator, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: DeclaredType | None = None) -> DataStream:
        """Any number of results for each record, by `flat_map1` or `flat_map2`."""
        check_methods(func, CoFlatMapFunction, "flat_map's function on two streams")
        selectors = self._selectors()
        operator = KeyedCoFlatMapOperator(func, *selectors) if selectors else CoFlatMapOperator(func)
        return self._result("Co-Flat Map", operator, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: DeclaredType | None = None
    ) -> DataStream:
        """Any number of results for each record, with side outputs and, on keyed streams, state and timers.

        Either class of function goes with either kind of streams, as in PyFlink.
        """
        check_methods(func, (CoProcessFunction, KeyedCoProcessFunction), "process's function")
        selectors = self._selectors()
        if selectors is None:
            return self._result("Co-Process", CoProcessOperator(func), output_type)
        return self._result("Keyed Co-Process", KeyedCoProcessOperator(func, *selectors), output_type)

    def _selectors(self) -> _Selectors | None:
        first, second = self.stream1._key_selector_or_none(), self.stream2._key_selector_or_none()
        if first is None or second is None:
            return None
        types = [stream._transformation.key_type for stream in (self.stream1, self.stream2)]
        if types[0] != types[1]:
            raise TypeError(f"keyed streams of two key types cannot be connected: {types[0]} and {types[1]}")
        return first, second

    def _result(self, name: str, operator: Any, output_type: TypeInformation | None) -> DataStream:
        selectors = self._selectors()
        if selectors is None:
            operator.rows = tuple(
                None if (selector := stream._key_selector_or_none()) is None else KeyedRow(selector)
                for stream in (self.stream1, self.stream2)
            )
        return self.stream1._connected_with(
            self.stream2,
            name,
            operator,
            as_output_type(output_type),
            key_selectors=selectors or (),
            call=Call.CO_PROCESS,
        )
