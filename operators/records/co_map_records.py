"""Map and flat map of two connected streams: one function for each stream."""

from collections.abc import Callable
from typing import Any

from penstock.operators.chain.operator import Timestamps, Values
from penstock.operators.records.map_records import FlatMapResults
from penstock.operators.records.one_keyed_input import OneKeyedInput


class CoMapOperator(OneKeyedInput):
    """One result per record, by `map1` or `map2`; as in PyFlink, None is no result.

    Source: org.apache.flink.streaming.api.operators.co.CoStreamMap.
    """

    def open(self) -> None:
        super().open()
        self._results = FlatMapResults(self)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the first stream."""
        self._map(self.function.map1, self.records(1, values), timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the second stream."""
        self._map(self.function.map2, self.records(2, values), timestamps)

    def _map(self, function: Callable[[Any], Any], values: Values, timestamps: Timestamps) -> None:
        self._results.call(
            lambda value: None if (result := function(value)) is None else (result,), values, timestamps
        )


class CoFlatMapOperator(OneKeyedInput):
    """Any number of results per record, by `flat_map1` or `flat_map2`.

    Source: org.apache.flink.streaming.api.operators.co.CoStreamFlatMap.
    """

    def open(self) -> None:
        super().open()
        self._results = FlatMapResults(self)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the first stream."""
        self._results.call(self.function.flat_map1, self.records(1, values), timestamps)

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the second stream."""
        self._results.call(self.function.flat_map2, self.records(2, values), timestamps)
