"""Map, filter and flat map over records."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar

from penstock.operators.chain.operator import Operator, Timestamps, Values
from penstock.operators.chain.piece_size import PieceSize
from penstock.operators.chain.results import UNCHANGING, close_iterator, frozen
from penstock.operators.records.loops_of_functions import CONSTANT, LoopStep, Settle, loop_of
from penstock.operators.records.user_function import FunctionOperator, method


class RecordFunctionOperator(FunctionOperator):
    """An operator that calls its function with one record after the other.

    In a chain, several that follow one another run in one loop, which the first one leads.
    """

    step: ClassVar[LoopStep]
    _followers: Sequence["RecordFunctionOperator"] = ()

    def lead(self, followers: Sequence["RecordFunctionOperator"]) -> None:
        """Run the functions of those chained after this one, too; to be called before `open`."""
        self._followers = followers

    def open(self) -> None:
        super().open()
        self._run = FunctionRun((self, *self._followers))

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Call the functions with all values; put the results out together, or in pieces."""
        self._run.process(values, timestamps)


class MapOperator(RecordFunctionOperator):
    """One result per record. Source: org.apache.flink.streaming.api.operators.StreamMap."""

    step = LoopStep.MAP


class FilterOperator(RecordFunctionOperator):
    """Keeps the records for which the function is true.

    Source: org.apache.flink.streaming.api.operators.StreamFilter.
    """

    step = LoopStep.FILTER


class FlatMapOperator(RecordFunctionOperator):
    """Any number of results per record: what the function returns or yields; None is no result.

    Source: org.apache.flink.streaming.api.operators.StreamFlatMap.
    """

    step = LoopStep.FLAT_MAP


class FunctionRun:
    """The functions of operators that follow one another, called in one loop; open operators.

    Results go to the output of the last one, in pieces where they are large or slow.
    """

    def __init__(self, operators: Sequence[RecordFunctionOperator]) -> None:
        self._operators = operators
        self.functions = tuple(method(operator.function, operator.step) for operator in operators)
        self._steps = tuple(operator.step for operator in operators)
        self._last = operators[-1]
        self.piece = PieceSize()
        self.results: Values = []
        self.stamps: list[int | None] = []
        self._flat = LoopStep.FLAT_MAP in self._steps
        self._one_each = set(self._steps) == {LoopStep.MAP}
        if set(self._steps) == {LoopStep.FILTER}:
            self._settle = Settle.NOTHING
            self._looks = False
        else:
            # undeclared types say nothing of the next result
            plain = self._last.context.plain_results
            self._looks = plain and not self._flat
            self._settle = (Settle.NOTHING if self._looks else Settle.PLAIN) if plain else Settle.ALL

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Call the functions with all values, and put all results out."""
        self._stamped = timestamps is not None and not self._one_each
        rest, stamps = iter(values), iter(timestamps or ()) if self._stamped else None
        self.piece.begin()
        remaining, waiting, done = len(values), 0, 0
        while remaining:
            # how many results a flat map has for a record is not known: its loop looks at them itself
            count = remaining if self._flat else min(remaining, max(1, self.piece.limit - waiting))
            self._call(rest if count == remaining else islice(rest, count), stamps)
            remaining, waiting = remaining - count, waiting + count
            if remaining and self.piece.is_full(self.results, waiting):
                self._put_out(span(timestamps, done, waiting))
                done, waiting = done + waiting, 0
        self._put_out(span(timestamps, done, waiting))

    def relieve(self) -> None:
        """Put the results out if they are enough; called by loops with a flat map."""
        if self.piece.is_full(self.results):
            self._put_out(None)

    def failed(
        self, error: BaseException, line: int, records: Sequence[Any], iterators: Sequence[Any]
    ) -> BaseException:
        """`error`, raised at a line of the loop, as that of its operator and record."""
        for rest in iterators:
            close_iterator(rest)
        step, place = self._loop.steps.get(line, (-1, 0))
        return self._operators[step].failed(error, records[place])

    def _call(self, rest: Iterator[Any], stamps: Iterator[int | None] | None) -> None:
        self._loop = loop_of(self._steps, stamps is not None, self._settle)
        before = len(self.results)
        self._loop.run(self, rest, stamps)
        if self._looks and not CONSTANT.issuperset(map(type, islice(self.results, before, None))):
            # not the declared type: from here on each result is checked before the next call
            self.results[before:] = map(frozen, self.results[before:])
            self._looks, self._settle = False, Settle.ALL

    def _put_out(self, timestamps: Timestamps) -> None:
        """Hand on all results; `timestamps`: theirs, where each record has one result."""
        results, stamps = self.results, self.stamps
        self.results, self.stamps = [], []
        if results:
            self._last.output.collect(results, stamps if self._stamped else timestamps)
        self.piece.begin()


class FlatMapResults:
    """The results of an operator's flat map functions on their way out: in pieces, as soon as one is full."""

    def __init__(self, operator: Operator) -> None:
        self._operator, self._piece = operator, PieceSize()
        self._results: Values = []
        self._stamps: list[int | None] = []

    def call(self, function: Callable[[Any], Any], values: Values, timestamps: Timestamps) -> None:
        """Put out all results of `function` over `values`, with the timestamps of the records they come from.

        What can be changed before it goes on is copied.
        """
        rest = iter(values)
        outputs: Any = None
        stamp: int | None = None
        stamps = iter(timestamps or ())
        stamped = timestamps is not None
        results, limit = self._results, self._piece.limit
        constant = CONSTANT if self._operator.context.plain_results else UNCHANGING
        try:
            for value in rest:
                if stamped:
                    stamp = next(stamps)
                outputs = function(value)
                if outputs is None:
                    continue
                if type(outputs) is list and len(outputs) > _FEW and constant.issuperset(map(type, outputs)):
                    results += outputs
                    outputs = ()
                    if len(results) >= limit:
                        results, limit = self._relieved(stamp, stamped)
                # a loop checks few items faster than calls would
                for result in outputs:
                    kind = type(result)
                    if kind not in constant:
                        if kind is tuple:
                            for item in result:
                                if type(item) not in UNCHANGING:
                                    result = frozen(result)  # noqa: PLW2901
                                    break
                        else:
                            result = frozen(result)  # noqa: PLW2901
                    results.append(result)
                    if len(results) >= limit:
                        results, limit = self._relieved(stamp, stamped)
                if stamped:
                    self._stamps += [stamp] * (len(results) - len(self._stamps))
        except BaseException as error:
            close_iterator(outputs)
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


#: Results up to which a loop over them is quicker than calls for all of them.
_FEW = 4


def current(values: Values, rest: object) -> object:
    """The value that a loop over `rest`, an iterator over the list `values`, is at."""
    if not values:
        return None
    remaining: int = rest.__length_hint__()  # type: ignore[attr-defined]
    return values[len(values) - remaining - 1]
