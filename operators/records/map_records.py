"""Map, filter and flat map over records."""

from collections.abc import Callable, Iterator
from itertools import islice
from sys import getrefcount
from typing import Any

from operators.chain.copies import own
from operators.chain.operator import Operator, Timestamps, Values
from operators.chain.piece_size import PieceSize
from operators.chain.results import UNCHANGING, close_iterator, frozen
from operators.records.user_function import FunctionOperator, method


class MapOperator(FunctionOperator):
    """One result per record. Source: org.apache.flink.streaming.api.operators.StreamMap."""

    def open(self) -> None:
        """Open the function."""
        super().open()
        self._map = method(self.function, "map")
        self._piece = PieceSize()
        # whether it may give what can be changed later; undeclared types say nothing of the next result
        self._changing = not self.context.plain_results

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Map all values; put the results out together, or in pieces where they are large."""
        rest, piece = iter(values), self._piece
        results: Values = []
        done = 0
        piece.begin()
        while done + len(results) < len(values):
            room = piece.limit - len(results)
            fits = room >= len(values) - done - len(results)
            try:
                some = self._mapped(rest if fits else islice(rest, room))
            except BaseException as error:
                raise self.failed(error, current(values, rest)) from error
            results = results + some if results else some
            if len(results) >= piece.limit and piece.is_full(results):
                self.output.collect(results, span(timestamps, done, len(results)))
                done += len(results)
                results = []
        if results:
            self.output.collect(results, span(timestamps, done, len(results)))

    def _mapped(self, rest: Iterator[Any]) -> Values:
        function = self._map
        if not self._changing:
            # the first one alone: whether results may change has to be known before the next call
            results = [function(value) for value in islice(rest, 1)]
            self._changing = not _are_constant(results)
            if not self._changing:
                results += [function(value) for value in rest]
                self._changing = not _are_constant(results)
                return results
            results = list(map(frozen, results))
        else:
            results = []
        unchanging, only_unchanging = UNCHANGING, UNCHANGING.issuperset
        for value in rest:
            result = function(value)
            kind = type(result)
            changing = kind not in unchanging
            if kind is tuple:
                # a loop: a call for the few items of a tuple would take longer
                for item in result:
                    if type(item) not in unchanging:
                        break
                else:
                    changing = False
            if changing:
                # an object that the function still refers to may be changed before it goes on
                shared = result is not value and getrefcount(result) > _UNSHARED
                if shared:
                    result = frozen(result)
                elif kind is not list or not only_unchanging(map(type, result)):
                    result = own(result)
            results.append(result)
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
        except BaseException as error:
            raise self.failed(error, current(values, rest)) from error
        if kept:
            self.output.collect(kept, stamps)


class FlatMapOperator(FunctionOperator):
    """Any number of results per record: what the function returns or yields; None is no result.

    Source: org.apache.flink.streaming.api.operators.StreamFlatMap.
    """

    def open(self) -> None:
        """Open the function."""
        super().open()
        self._flat_map = method(self.function, "flat_map")
        self._results = FlatMapResults(self)

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Flat map all values, and put the results out in pieces."""
        self._results.of(self._flat_map, values, timestamps)


class FlatMapResults:
    """The results of an operator's flat map functions on their way out: in pieces, as soon as one is full."""

    def __init__(self, operator: Operator) -> None:
        self._operator, self._piece = operator, PieceSize()
        self._results: Values = []
        self._stamps: list[int | None] = []

    def of(self, function: Callable[[Any], Any], values: Values, timestamps: Timestamps) -> None:
        """Put out all results of `function` over `values`, with the timestamps of the records they come from.

        What can be changed before it goes on is copied.
        """
        rest = iter(values)
        some: Any = None
        stamp: int | None = None
        stamps = iter(timestamps or ())
        stamped = timestamps is not None
        results, limit = self._results, self._piece.limit
        constant = CONSTANT if self._operator.context.plain_results else UNCHANGING
        try:
            for value in rest:
                if stamped:
                    stamp = next(stamps)
                some = function(value)
                if some is None:
                    continue
                if type(some) is list and len(some) > _FEW and constant.issuperset(map(type, some)):
                    results += some
                    some = ()
                    if len(results) >= limit:
                        results, limit = self._relieved(stamp, stamped)
                # few items are looked at in loops: calls would take longer
                for one in some:
                    kind = type(one)
                    if kind not in constant:
                        if kind is tuple:
                            for item in one:
                                if type(item) not in UNCHANGING:
                                    one = frozen(one)  # noqa: PLW2901
                                    break
                        else:
                            one = frozen(one)  # noqa: PLW2901
                    results.append(one)
                    if len(results) >= limit:
                        results, limit = self._relieved(stamp, stamped)
                if stamped:
                    self._stamps += [stamp] * (len(results) - len(self._stamps))
        except BaseException as error:
            close_iterator(some)
            raise self._operator.failed(error, current(values, rest)) from error
        self._put_out(stamped)

    def _relieved(self, stamp: int | None, stamped: bool) -> tuple[Values, int]:
        """Put out what waits if it is enough; `stamp` is the timestamp of the record at hand."""
        if self._piece.is_full(self._results):
            if stamped:
                self._stamps += [stamp] * (len(self._results) - len(self._stamps))
            self._put_out(stamped)
        return self._results, self._piece.limit

    def _put_out(self, stamped: bool) -> None:
        results, stamps = self._results, self._stamps
        self._results, self._stamps = [], []
        if results:
            self._operator.output.collect(results, stamps if stamped else None)
        self._piece.begin()


def span(timestamps: Timestamps, start: int, count: int) -> Timestamps:
    """The timestamps of `count` records from number `start` on; the very list where that is all of them."""
    if timestamps is None or count == len(timestamps):
        return timestamps
    return timestamps[start : start + count]


def _are_constant(results: Values) -> bool:
    return CONSTANT.issuperset(map(type, results))


#: Results up to which a loop over them is quicker than calls for all of them.
_FEW = 4

#: Types of results that go on as they are where single values or tuples of these are declared.
CONSTANT = UNCHANGING | {tuple}


def _references(value: Any) -> int:
    result = value
    return getrefcount(result)


#: How many references a result has that only the loop refers to: `value` of `_references` is one more.
_UNSHARED = _references(object()) - 1


def current(values: Values, rest: object) -> object:
    """The value that a loop over `rest`, an iterator over the list `values`, is at."""
    if not values:
        return None
    left: int = rest.__length_hint__()  # type: ignore[attr-defined]
    return values[len(values) - left - 1]
