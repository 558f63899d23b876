"""Map, filter and flat map over records."""

from collections.abc import Callable
from typing import Any

from operators.chain.operator import Operator, Timestamps, Values, repeated
from operators.records.user_function import FunctionOperator, method


class MapOperator(FunctionOperator):
    """One result a record. Source: org.apache.flink.streaming.api.operators.StreamMap."""

    def open(self) -> None:
        """Open the function."""
        super().open()
        self._map = method(self.function, "map")

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Map all values, then put them out."""
        function, rest = self._map, iter(values)
        try:
            results = [function(value) for value in rest]
        except Exception as error:
            raise self.failed(error, current(values, rest)) from error
        self.output.collect(results, timestamps)


class FilterOperator(FunctionOperator):
    """Keeps the records for which the function is true.

    Source: org.apache.flink.streaming.api.operators.StreamFilter.
    """

    def open(self) -> None:
        """Open the function."""
        super().open()
        self._filter = method(self.function, "filter")

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Put out what passes."""
        function, rest = self._filter, iter(values)
        stamps: Timestamps = None
        try:
            if timestamps is None:
                kept = [value for value in rest if function(value)]
            else:
                passes = [function(value) for value in rest]
                kept = [value for value, passed in zip(values, passes, strict=True) if passed]
                stamps = [stamp for stamp, passed in zip(timestamps, passes, strict=True) if passed]
        except Exception as error:
            raise self.failed(error, current(values, rest)) from error
        if kept:
            self.output.collect(kept, stamps)


class FlatMapOperator(FunctionOperator):
    """Any number of results a record: what the function returns or yields; None is no result.

    Source: org.apache.flink.streaming.api.operators.StreamFlatMap.
    """

    def open(self) -> None:
        """Open the function."""
        super().open()
        self._flat_map = method(self.function, "flat_map")

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Flat map all values, then put the results out."""
        results, stamps = flat_mapped(self, self._flat_map, values, timestamps)
        if results:
            self.output.collect(results, stamps)


def flat_mapped(
    operator: Operator, function: Callable[[Any], Any], values: Values, timestamps: Timestamps
) -> tuple[Values, Timestamps]:
    """All results of `function` over `values`, with the timestamps of the records they come from."""
    results: Values = []
    rest = iter(values)
    if timestamps is None:
        try:
            for value in rest:
                some = function(value)
                if some is not None:
                    results.extend(some)
        except Exception as error:
            raise operator.failed(error, current(values, rest)) from error
        return results, None
    counts = []
    try:
        for value in rest:
            before = len(results)
            some = function(value)
            if some is not None:
                results.extend(some)
            counts.append(len(results) - before)
    except Exception as error:
        raise operator.failed(error, current(values, rest)) from error
    return results, repeated(timestamps, counts)


def current(values: Values, rest: object) -> object:
    """The value that a loop over `rest`, an iterator over the list `values`, is at."""
    if not values:
        return None
    left: int = rest.__length_hint__()  # type: ignore[attr-defined]
    return values[len(values) - left - 1]
