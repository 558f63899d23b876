"""Map, filter and flat map over records."""

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from sys import getrefcount
from typing import Any, ClassVar, NamedTuple, TypeGuard

from penstock.operators.chain.operator import (
    UNCHANGING,
    Operator,
    OperatorContext,
    PieceSize,
    Timestamps,
    Values,
    close_iterator,
    frozen,
    own,
)
from penstock.operators.common.row import Row
from penstock.operators.functions.functions import Function
from penstock.operators.functions.runtime_context import RuntimeContext

# Loops that run map, filter and flat map functions over records, as generated Python source
#
# A record goes through all functions before the next one does, as in Flink's chains of operators.
#
# Source: org.apache.flink.streaming.runtime.tasks.ChainingOutput.


class LoopStep(StrEnum):
    """The step of a function on a record; the value is the method's name in function objects."""

    MAP = "map"
    FILTER = "filter"
    FLAT_MAP = "flat_map"


class CopyPolicy(StrEnum):
    """The results that are copied before they go on, since their function could change them."""

    NOTHING = "nothing"  #: results are the records themselves, or the caller checks them
    PLAIN = "plain"  #: results that are neither plain values nor tuples
    ALL = "all"  #: results that can be changed, and to which others refer


CONSTANT = UNCHANGING | {tuple}
"""Types of results that go on uncopied if single values or tuples of these are declared."""

MOST_FLAT_MAPS = 8
"""Maximum in one loop: Python nests at most 20 blocks."""


class Loop(NamedTuple):
    """`run(function_run, rest, stamps)`; `steps`: line of the loop to step and to place among its records."""

    run: Callable[[Any, Iterator[Any], Iterator[int | None] | None], None]
    steps: dict[int, tuple[int, int]]


def _references(value: Any) -> int:
    result = value
    return getrefcount(result)


_NAMES = {
    "UNCHANGING": UNCHANGING,
    "CONSTANT": CONSTANT,
    "all_unchanging": UNCHANGING.issuperset,
    "all_constant": CONSTANT.issuperset,
    "frozen": frozen,
    "own": own,
    "getrefcount": getrefcount,
    # References to a result to which only the loop refers: `value` of `_references` is one more.
    "UNSHARED": _references(object()) - 1,
}


@lru_cache(256)
def _loop_of(steps: tuple[LoopStep, ...], stamped: bool, copy_policy: CopyPolicy) -> Loop:
    """Return the loop over records for functions that do `steps`.

    `stamped`: each result gets its record's timestamp. The loop adds to `function_run.results` (and
    `.stamps`). If a flat map is among the steps, it calls `function_run.relieve` once there are
    `function_run.piece.limit` results. It calls `function_run.failed` for an exception, and raises its
    result.
    """
    loop_writer = _LoopWriter(steps, stamped, copy_policy)
    source = "\n".join(loop_writer.lines())
    namespace = dict(_NAMES)
    exec(compile(source, f"<{', '.join(steps)}>", "exec"), namespace)
    run: Any = namespace["loop"]
    return Loop(run, loop_writer.steps)


class _LoopWriter:
    """Writes the lines of a loop."""

    def __init__(self, steps: Sequence[LoopStep], stamped: bool, copy_policy: CopyPolicy) -> None:
        self._kinds, self._stamped, self._copy_policy = steps, stamped, copy_policy
        self._flat = LoopStep.FLAT_MAP in steps
        self._lines: list[str] = []
        self._depth = 0
        self._records = ["value"]
        self.steps: dict[int, tuple[int, int]] = {}

    def lines(self) -> list[str]:
        functions = "".join(f"f{number}, " for number in range(len(self._kinds)))
        self._add("def loop(function_run, rest, stamps):", 1)
        self._add(f"{functions.strip()} = function_run.functions")
        self._bind()
        levels = self._kinds.count(LoopStep.FLAT_MAP)
        names = ["value", "r0", *(f"{kind}{level}" for level in range(1, levels + 1) for kind in "rs")]
        self._add(f"{' = '.join(names)} = None")
        self._add("try:", 1)
        pairs = "for value, stamp in zip(rest, stamps):" if self._stamped else "for value in rest:"
        self._add(pairs, 1)
        self._write_steps()
        self._depth = 1
        self._add("except BaseException as error:", 1)
        sources = "".join(f"s{level}, " for level in range(levels, 0, -1))
        records = ", ".join(self._records)
        line = "error.__traceback__.tb_lineno"
        self._add(f"raise function_run.failed(error, {line}, ({records},), ({sources})) from error")
        return self._lines

    def _write_steps(self) -> None:
        record, level = "value", 0
        for number, kind in enumerate(self._kinds):
            line = (number, self._records.index(record))
            if kind is LoopStep.FILTER:
                self._add(f"if not f{number}({record}): continue", step=line)
            elif kind is LoopStep.MAP:
                result = f"r{level}"
                self._add(f"{result} = f{number}({record})", step=line)
                record = self._with_record(result)
            else:
                level += 1
                self._add(f"s{level} = f{number}({record})", step=line)
                self._add(f"if s{level} is None: continue")
                if number == len(self._kinds) - 1:
                    self._take_list(f"s{level}")
                self._add(f"for r{level} in s{level}:", 1, line)
                record = self._with_record(f"r{level}")
        if self._copy_policy is not CopyPolicy.NOTHING:
            self._write_copying(record)
        self._add(f"append({record})")
        if self._stamped:
            self._add("append_stamp(stamp)")
        if self._flat:
            self._relieve()

    def _take_list(self, variable: str) -> None:
        """Take results that are a list of constant values as a whole, which is quicker than a long loop."""
        test = "all_constant" if self._copy_policy is CopyPolicy.PLAIN else "all_unchanging"
        self._add(
            f"if type({variable}) is list and len({variable}) > 4 and {test}(map(type, {variable})):", 1
        )
        self._add(f"results += {variable}")
        if self._stamped:
            self._add(f"function_run.stamps += [stamp] * len({variable})")
        self._add(f"{variable} = ()")
        self._relieve()
        self._add("continue")
        self._depth -= 1

    def _write_copying(self, record: str) -> None:
        if self._copy_policy is CopyPolicy.PLAIN:
            self._add(f"if type({record}) not in CONSTANT: {record} = frozen({record})")
            return
        self._add(f"kind = type({record})")
        self._add("if kind is tuple:", 1)
        # a loop: a call for the few items of a tuple would take longer
        self._add(f"for item in {record}:", 1)
        self._add("if type(item) not in UNCHANGING:", 1)
        self._copy_shared(record)
        self._add("break")
        self._depth -= 3
        self._add("elif kind not in UNCHANGING:", 1)
        self._copy_shared(record)
        self._depth -= 1

    def _copy_shared(self, record: str) -> None:
        # An object to which the function still refers may be changed before it goes on. An unchanged record
        # belongs to this loop alone, unless a flat map may have returned it twice.
        same = "" if self._flat else f"{record} is not value and "
        self._add(f"if {same}getrefcount({record}) > UNSHARED: {record} = frozen({record})")
        self._add(f"elif kind is not list or not all_unchanging(map(type, {record})):", 1)
        self._add(f"{record} = own({record})")
        self._depth -= 1

    def _relieve(self) -> None:
        self._add("if len(results) >= limit:", 1)
        self._add("function_run.relieve()")
        self._bind()
        self._depth -= 1

    def _bind(self) -> None:
        self._add("results, limit = function_run.results, function_run.piece.limit")
        self._add("append = results.append")
        if self._stamped:
            self._add("append_stamp = function_run.stamps.append")

    def _with_record(self, record: str) -> str:
        if record not in self._records:
            self._records.append(record)
        return record

    def _add(self, line: str, deeper: int = 0, step: tuple[int, int] | None = None) -> None:
        self._lines.append(" " * self._depth + line)
        self._depth += deeper
        if step is not None:
            self.steps[len(self._lines)] = step


# Functions of a job's author: objects with open and close, or plain callables


class FunctionOperator(Operator):
    """An operator around one function, which it opens and closes if the function has these methods.

    Source: org.apache.flink.streaming.api.operators.AbstractUdfStreamOperator.
    """

    def __init__(self, function: Any) -> None:
        self.function = function

    def open(self) -> None:
        """Open the function with its RuntimeContext."""
        open_function(self.function, self.context)

    def close(self) -> None:
        close_function(self.function)


def open_function(function: Any, context: OperatorContext) -> None:
    """Call `function.open(RuntimeContext)` if it is a function object with that method."""
    if has_method(function, "open"):
        function.open(RuntimeContext(context))


def close_function(function: Any) -> None:
    """Call `function.close()` if it is a function object with that method."""
    if has_method(function, "close"):
        function.close()


def method(function: Any, name: str) -> Callable[..., Any]:
    """Return `function.name` of a function object, or a plain callable itself."""
    if has_method(function, name):
        bound: Callable[..., Any] = getattr(function, name)
        return bound
    if not callable(function):
        raise TypeError(f"{type(function).__name__} must be callable or have a method {name!r}")
    plain: Callable[..., Any] = function
    return plain


def has_method(function: Any, name: str) -> TypeGuard[Any]:
    """Whether `function` is a function object with that method.

    Other callables are called even if they have such an attribute: pathlib.Path has `open`, pandas.Series
    `map`.
    """
    plain = callable(function) and not isinstance(function, Function)
    return not plain and hasattr(function, name)


# Functions of the operators that PyFlink adds to a job
#
# Source: pyflink.datastream.data_stream.DataStream.{get_side_output,_align_output_type}, KeyedStream._values.


def same_record(value: Any) -> Any:
    """Return the record."""
    return value


def object_text(value: Any) -> str | bytes:
    """Return the text that `print` writes for an object without a declared type."""
    return value if isinstance(value, str | bytes) else str(value)


def row_text(value: Row) -> str:
    """Return the text that `print` writes for a row, its kind and its fields as Python's text."""
    return f"{value.get_row_kind()}[{','.join(map(str, value))}]"


class RecordFunctionOperator(FunctionOperator):
    """An operator that calls its function with one record after the other.

    Operators that follow one another in a chain run in one loop; the first one calls the others.
    """

    step: ClassVar[LoopStep]
    _followers: Sequence["RecordFunctionOperator"] = ()

    def lead(self, followers: Sequence["RecordFunctionOperator"]) -> None:
        """Run the functions of the operators chained after this one as well; call it before `open`."""
        self._followers = followers

    def open(self) -> None:
        super().open()
        self._run = FunctionRun((self, *self._followers))

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Call the functions with all values; emit the results together, or in pieces."""
        self._run.process(values, timestamps)


class MapOperator(RecordFunctionOperator):
    """One result per record. Source: org.apache.flink.streaming.api.operators.StreamMap."""

    step = LoopStep.MAP


class FilterOperator(RecordFunctionOperator):
    """Passes on the records for which the function is true.

    Source: org.apache.flink.streaming.api.operators.StreamFilter.
    """

    step = LoopStep.FILTER


class FlatMapOperator(RecordFunctionOperator):
    """Any number of results per record, which the function returns or yields; it may return None for none.

    Source: org.apache.flink.streaming.api.operators.StreamFlatMap.
    """

    step = LoopStep.FLAT_MAP


class FunctionRun:
    """The functions of open operators that follow one another, called in one loop.

    Results go to the output of the last one, in pieces if they are large or slow.
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
            self._copy_policy = CopyPolicy.NOTHING
            self._checks_results = False
        else:
            # undeclared types do not predict the next result
            plain = self._last.context.plain_results
            self._checks_results = plain and not self._flat
            self._copy_policy = (
                (CopyPolicy.NOTHING if self._checks_results else CopyPolicy.PLAIN)
                if plain
                else CopyPolicy.ALL
            )

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Call the functions with all values, and emit all results."""
        self._stamped = timestamps is not None and not self._one_each
        rest, stamps = iter(values), iter(timestamps or ()) if self._stamped else None
        self.piece.begin()
        remaining, waiting, done = len(values), 0, 0
        while remaining:
            # the number of a flat map's results is not known beforehand: its loop checks them itself
            count = remaining if self._flat else min(remaining, max(1, self.piece.limit - waiting))
            self._call(rest if count == remaining else islice(rest, count), stamps)
            remaining, waiting = remaining - count, waiting + count
            if remaining and self.piece.is_full(self.results, waiting):
                self._emit(span(timestamps, done, waiting))
                done, waiting = done + waiting, 0
        self._emit(span(timestamps, done, waiting))

    def relieve(self) -> None:
        """Emit the results if they are enough; called by loops with a flat map."""
        if self.piece.is_full(self.results):
            self._emit(None)

    def failed(
        self, error: BaseException, line: int, records: Sequence[Any], iterators: Sequence[Any]
    ) -> BaseException:
        """Return an `error` of a line of the loop as the failure of its operator and record."""
        for rest in iterators:
            close_iterator(rest)
        step, place = self._loop.steps.get(line, (-1, 0))
        return self._operators[step].failed(error, records[place])

    def _call(self, rest: Iterator[Any], stamps: Iterator[int | None] | None) -> None:
        self._loop = _loop_of(self._steps, stamps is not None, self._copy_policy)
        before = len(self.results)
        self._loop.run(self, rest, stamps)
        if self._checks_results and not CONSTANT.issuperset(map(type, islice(self.results, before, None))):
            # not of the declared type: from here on each result is checked before the next call
            self.results[before:] = map(frozen, self.results[before:])
            self._checks_results, self._copy_policy = False, CopyPolicy.ALL

    def _emit(self, timestamps: Timestamps) -> None:
        """Emit all results; `timestamps` are theirs if each record has one result."""
        results, stamps = self.results, self.stamps
        self.results, self.stamps = [], []
        if results:
            self._last.output.collect(results, stamps if self._stamped else timestamps)
        self.piece.begin()


class FlatMapResults:
    """Emits the results of an operator's flat map functions in pieces, as soon as one is full."""

    def __init__(self, operator: Operator) -> None:
        self._operator, self._piece = operator, PieceSize()
        self._results: Values = []
        self._stamps: list[int | None] = []

    def call(self, function: Callable[[Any], Any], values: Values, timestamps: Timestamps) -> None:
        """Emit all results of `function` over `values`, with the timestamps of their records.

        Results that could be changed before they go on are copied.
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
                # a loop checks a few items faster than calls would
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
        self._emit(stamped)

    def _relieved(self, stamp: int | None, stamped: bool) -> tuple[Values, int]:
        """Emit the waiting results if they are enough; `stamp` is the timestamp of the current record."""
        if self._piece.is_full(self._results):
            if stamped:
                self._stamps += [stamp] * (len(self._results) - len(self._stamps))
            self._emit(stamped)
        return self._results, self._piece.limit

    def _emit(self, stamped: bool) -> None:
        results, stamps = self._results, self._stamps
        self._results, self._stamps = [], []
        if results:
            self._operator.output.collect(results, stamps if stamped else None)
        self._piece.begin()


def span(timestamps: Timestamps, start: int, count: int) -> Timestamps:
    """Return the timestamps of `count` records from number `start` on; if these are all, the list itself."""
    if timestamps is None or count == len(timestamps):
        return timestamps
    return timestamps[start : start + count]


#: Up to this number of results, a loop over them is quicker than calls for all of them.
_FEW = 4


def current(values: Values, rest: object) -> object:
    """Return the current value of a loop over `rest`, an iterator over the list `values`."""
    if not values:
        return None
    remaining: int = rest.__length_hint__()  # type: ignore[attr-defined]
    return values[len(values) - remaining - 1]
