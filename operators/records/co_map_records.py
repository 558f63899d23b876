"""Map and flat map of two connected streams: one function a stream."""

from collections.abc import Callable
from typing import Any

from operators.chain.operator import Timestamps, Values
from operators.process.results import UNCHANGING, frozen
from operators.records.map_records import current, flat_mapped
from operators.records.user_function import FunctionOperator


class CoMapOperator(FunctionOperator):
    """One result a record, by `map1` or `map2`; as in PyFlink, None is no result.

    Source: org.apache.flink.streaming.api.operators.co.CoStreamMap.
    """

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the first stream."""
        self._map(self.function.map1, values, timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the second stream."""
        self._map(self.function.map2, values, timestamps)

    def _map(self, function: Callable[[Any], Any], values: Values, timestamps: Timestamps) -> None:
        rest = iter(values)
        try:
            results = [
                result if type(result := function(value)) in UNCHANGING else frozen(result) for value in rest
            ]
        except Exception as error:
            raise self.failed(error, current(values, rest)) from error
        if any(result is None for result in results):
            kept = [place for place, result in enumerate(results) if result is not None]
            results = [results[place] for place in kept]
            timestamps = None if timestamps is None else [timestamps[place] for place in kept]
        if results:
            self.output.collect(results, timestamps)


class CoFlatMapOperator(FunctionOperator):
    """Any number of results a record, by `flat_map1` or `flat_map2`.

    Source: org.apache.flink.streaming.api.operators.co.CoStreamFlatMap.
    """

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the first stream."""
        results, stamps = flat_mapped(self, self.function.flat_map1, values, timestamps)
        if results:
            self.output.collect(results, stamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the second stream."""
        results, stamps = flat_mapped(self, self.function.flat_map2, values, timestamps)
        if results:
            self.output.collect(results, stamps)
