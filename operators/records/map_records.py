"""Map, filter and flat map over records."""

from collections.abc import Callable, Iterable
from itertools import islice
from sys import getrefcount
from typing import Any

from operators.chain.copies import never_change, own
from operators.chain.operator import Operator, Timestamps, Values, repeated
from operators.process.results import UNCHANGING, frozen
from operators.records.user_function import FunctionOperator, method


class MapOperator(FunctionOperator):
    """One result a record. Source: org.apache.flink.streaming.api.operators.StreamMap."""

    def open(self) -> None:
        """Open the function."""
        super().open()
        self._map = method(self.function, "map")
        self._changing = False  # whether it gives what can be changed later
        self._never_change = _are_constant if self.context.plain_results else never_change

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Map all values, then put them out."""
        self.output.collect(self._mapped(values), timestamps)

    def _mapped(self, values: Values) -> Values:
        function, rest = self._map, iter(values)
        try:
            if not self._changing:
                results = [function(value) for value in islice(rest, 1)]
                self._changing = not self._never_change(results)
                if not self._changing:
                    results += [function(value) for value in rest]
                    self._changing = not self._never_change(results)
                    return results
                results = list(map(frozen, results))
            else:
                results = []
            unchanging, only_unchanging = UNCHANGING, UNCHANGING.issuperset
            for value in rest:
                result = function(value)
                kind = type(result)
                if kind not in unchanging and not (kind is tuple and only_unchanging(map(type, result))):
                    # an object that the function still refers to may be changed before it goes on
                    shared = result is not value and getrefcount(result) > _UNSHARED
                    if shared:
                        result = frozen(result)
                    elif kind is not list or not only_unchanging(map(type, result)):
                        result = own(result)
                results.append(result)
        except Exception as error:
            raise self.failed(error, current(values, rest)) from error
        return results


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
    plain = operator.context.plain_results
    if timestamps is None:
        try:
            for value in rest:
                some = function(value)
                if some is not None:
                    results.extend(kept(some, plain))
        except Exception as error:
            raise operator.failed(error, current(values, rest)) from error
        return results, None
    counts = []
    try:
        for value in rest:
            before = len(results)
            some = function(value)
            if some is not None:
                results.extend(kept(some, plain))
            counts.append(len(results) - before)
    except Exception as error:
        raise operator.failed(error, current(values, rest)) from error
    return results, repeated(timestamps, counts)


def kept(some: Iterable[Any], plain: bool) -> Iterable[Any]:
    """Results of one call; copies of those that can be changed before they go on.

    `plain`: they are declared as single values or tuples of these.
    """
    if plain:
        return [one if type(one) in CONSTANT else frozen(one) for one in some]
    unchanging, only_unchanging = UNCHANGING, UNCHANGING.issuperset
    return [
        one
        if (kind := type(one)) in unchanging or (kind is tuple and only_unchanging(map(type, one)))
        else frozen(one)
        for one in some
    ]


def _are_constant(results: Values) -> bool:
    return CONSTANT.issuperset(map(type, results))


#: Types of results that go on as they are where single values or tuples of these are declared.
CONSTANT = UNCHANGING | {tuple}


def _references(value: Any) -> int:
    result = value
    return getrefcount(result)


#: How many references a result has that nobody but the loop refers to: `value` of `_references` is one more.
_UNSHARED = _references(object()) - 1


def current(values: Values, rest: object) -> object:
    """The value that a loop over `rest`, an iterator over the list `values`, is at."""
    if not values:
        return None
    left: int = rest.__length_hint__()  # type: ignore[attr-defined]
    return values[len(values) - left - 1]
