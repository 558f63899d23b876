"""The base of all operators of a chain: records in, records out, watermarks in between.

Records travel in lists, not one by one: a list of values with a parallel list of timestamps. So an operator
is called once per list, not once per record. It handles the records of a list in order, so only the time of
side effects differs.

Source: org.apache.flink.streaming.api.operators.{AbstractStreamOperator,Output,OneInputStreamOperator,
TwoInputStreamOperator} and OperatorChain, for the calls and their order.
"""

import copy
import datetime
import decimal
import enum
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from sys import getrefcount
from time import monotonic
from types import GeneratorType
from typing import Any, ClassVar, Protocol
from uuid import UUID

import pyarrow as pa

from penstock.operators.chain.describe_error import (
    NO_RECORD,
    EnoughResults,
    UserFunctionError,
    describe_error,
    describe_record,
    hint_for,
)
from penstock.operators.common.entry_size import value_bytes
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.row import Row, create_row
from penstock.operators.common.typeinfo import (
    BasicTypeInfo,
    DateTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)

Values = list[Any]
#: Milliseconds since the epoch, one per value; None instead of a list: no value has one.
Timestamps = list[int | None] | None

MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1


def _now() -> int:
    return time.time_ns() // 1_000_000


class Output(Protocol):
    """The receiver of an operator's results: the operators chained to it, side outputs and the network."""

    def collect(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the main output; the lists are the receiver's from here on."""

    def collect_side(self, tag: str, values: Values, timestamps: Timestamps) -> None:
        """Records of a side output, by the tag's id."""

    def collect_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Records of the main output that never became Python objects."""

    def watermark(self, timestamp: int) -> None:
        """No record below `timestamp` (milliseconds) follows."""


@dataclass(kw_only=True)
class OperatorContext:
    """The facts that an operator may know about where it runs."""

    job_name: str = "job"
    task_name: str = "task"
    operator_name: str = "operator"
    function_name: str = ""  #: the function of an operator that was fused of several
    subtask: int = 0
    parallelism: int = 1
    max_parallelism: int = 128
    attempt_number: int = 0
    batch: bool = False  #: BATCH runtime mode: keyed operators see one key after the other
    job_parameters: Mapping[str, str] = field(default_factory=dict)
    cached_files: Mapping[str, str] = field(default_factory=dict)  #: distributed cache: name to local path
    state_memory_bytes: int = 256 << 20  #: keyed state beyond this goes to disk
    auto_watermark_interval_milliseconds: int = 200
    #: results are declared as single values or tuples of these, which are immutable
    plain_results: bool = False
    metrics: dict[str, Any] = field(default_factory=dict)  #: of the user's functions, by name
    #: milliseconds since the epoch; tests put a clock of their own here
    processing_time: Callable[[], int] = field(default=_now)


class Operator:
    """One operator of a chain: made on the driver, then per subtask setup, open, process…, finish, close.

    Subclasses hold the user's function and what else describes them in attributes set by `__init__` (all of
    it picklable), and keep what is only alive in a subtask out of them until `open`.
    """

    #: True: takes record batches (`process_batch`); records are converted before they reach it.
    columnar: ClassVar[bool] = False
    #: True: has a key selector per input, and keeps state by key.
    keyed: ClassVar[bool] = False
    #: True: its records have to be of their declared type, though nothing encodes them on their way to it.
    wants_declared_types: bool = False

    context: OperatorContext
    output: Output

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Called once in the subtask, before `open` of any operator of the chain."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Called tail first: the operators that read this one are open already."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the only input, or of the first of two."""
        raise NotImplementedError

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Records of the second of two inputs."""
        raise NotImplementedError

    def process_input(self, number: int, values: Values, timestamps: Timestamps) -> None:
        """Records of input `number`, from 1."""
        if number == 1:
            self.process(values, timestamps)
        else:
            self.process_second(values, timestamps)

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """A record batch of the only input, of operators that are `columnar`."""
        raise NotImplementedError

    def process_watermark(self, watermark: int) -> None:
        """The watermark of all inputs together has risen to this (milliseconds)."""
        self.output.watermark(watermark)

    def end_key(self) -> None:
        """BATCH mode, keyed operators: no record of the current key follows; forget its state."""

    def finish(self) -> None:
        """No input follows; called head first, after the last watermark. Results may still be put out."""

    def close(self) -> None:
        """Release everything. Called at the end, head first, also after a failure."""

    def failed(self, error: BaseException, value: Any, during: str = "") -> UserFunctionError:
        """As `failure` does, for this operator."""
        return failure(self.context, error, value, during)


def failure(
    context: OperatorContext, error: BaseException, value: Any, during: str = ""
) -> UserFunctionError:
    """`error` with the job, operator, subtask and record (`value`; NO_RECORD: none) it happened at.

    `during` says what the operator was about where that is not its function. Raises `error` itself where it
    has been described before, and where it only ends the chain's calls.
    """
    if isinstance(error, (UserFunctionError, EnoughResults)):
        raise error
    if context.function_name:
        during = f"{context.function_name}: {during}" if during else f"{context.function_name} raised"
    return UserFunctionError(
        job=context.job_name,
        operator=context.operator_name,
        subtask=context.subtask,
        record="" if value is NO_RECORD else describe_record(value),
        cause=describe_error(error),
        during=during,
        hint=hint_for(error),
    )


# Results of user functions on their way out.
#
# In Flink a result is serialised the moment it is put out, so what a function does to the object later (a
# list
# kept in state, a Row that a reduce function changes) does not show. Here results wait until the list of
# records has been handled; so values that can be changed are copied, unless nothing else refers to them.


# Limits how many results leave an operator together: a bounded number of bytes, and without long waits.
#
# The number and size of a function's results for one record are not known in advance. So an operator checks
# the
# waiting results while it still takes more from the function, and emits them once there are enough.


_PIECE_BYTES = 8 << 20
#: How long results wait for others, about (Flink's buffer timeout).
_PIECE_SECONDS = 0.1
_MOST_RESULTS = 1 << 16
#: Results before the first look: of an operator, and of a piece once its results are known to be small.
_FIRST, _FIRST_OF_PIECE = 1, 64
_GROWTH = 4
#: Results from one look to the next at most: this many may wait when a quick function becomes slow.
_MOST_BETWEEN_LOOKS = 1024
_SAMPLE = 8


class PieceSize:
    """Says when the results that wait in an operator are enough: to be asked once `limit` of them wait."""

    __slots__ = ("_began", "_first", "limit")

    def __init__(self) -> None:
        self.limit = self._first = _FIRST
        self._began = monotonic()

    def is_full(self, waiting: list[Any], taken: int | None = None) -> bool:
        """Whether the results that wait are to be put out; if not, `limit` is higher now.

        `taken`: of how many records they are, where that is what is counted; each has one result at most.
        """
        count = len(waiting) if taken is None else taken
        sample = waiting[:: len(waiting) // _SAMPLE + 1]
        fitting = _MOST_RESULTS
        if sample:
            fitting = max(1, _PIECE_BYTES * len(sample) // sum(map(value_bytes, sample)))
        seconds = monotonic() - self._began
        timely = int(count * _PIECE_SECONDS / max(seconds, 1e-6))
        self._first = max(1, min(_FIRST_OF_PIECE, fitting, timely))
        if count >= fitting or count >= _MOST_RESULTS or seconds >= _PIECE_SECONDS:
            self.limit = self._first
            return True
        next_look = min(count * _GROWTH, count + _MOST_BETWEEN_LOOKS)
        self.limit = max(count + 1, min(_MOST_RESULTS, fitting, timely, next_look))
        return False

    def begin(self) -> None:
        """Start with no waiting results; time counts from here."""
        self.limit = self._first
        self._began = monotonic()


#: Types whose values never change.
UNCHANGING = frozenset(
    {
        int,
        float,
        str,
        bool,
        type(None),
        bytes,
        complex,
        decimal.Decimal,
        datetime.datetime,
        datetime.date,
        datetime.time,
        datetime.timedelta,
        UUID,
    }
)


def _references(result: Any, timestamp: int | None) -> int:
    return getrefcount(result)


def _references_of_new() -> int:
    counts = [_references(result, None) for result in (object() for _ in range(1))]
    return counts[0]


#: How many references an object has in `add_other` if only the loop that calls it has one.
_UNSHARED = _references_of_new()


class Results:
    """Results of a list of records (or of some timers), main and side, with their timestamps.

    They go to `output` when `flush` says so, and in between as soon as there are enough for a piece, also
    while a function still has results for one record.
    """

    __slots__ = ("_in_sides", "_output", "piece", "sides", "stamps", "values")

    def __init__(self, output: Output) -> None:
        self._output = output
        self.values: Values = []
        self.stamps: list[int | None] = []
        self.sides: dict[str, tuple[Values, list[int | None]]] = {}
        self._in_sides = 0
        self.piece = PieceSize()

    def count(self) -> int:
        """The number of results that wait to be emitted."""
        return len(self.values) + self._in_sides

    def add(self, results: Iterable[Any] | None, timestamp: int | None) -> None:
        """Take the results of one call: None, or what it returned or yields.

        A pair of an OutputTag and a value goes to that side output.
        """
        if not results:
            return
        rest = iter(results)
        try:
            for result in rest:
                kind = type(result)
                stays = kind in UNCHANGING
                if kind is tuple:
                    # a loop: a call for the few items of a tuple would take longer
                    for item in result:
                        if type(item) not in UNCHANGING:
                            break
                    else:
                        stays = True
                if stays:
                    self.values.append(result)
                    self.stamps.append(timestamp)
                else:
                    self.add_other(result, timestamp)
                if len(self.values) >= self.piece.limit:
                    self.relieve()
        except BaseException:
            close_iterator(rest)
            raise

    def add_other(self, result: Any, timestamp: int | None) -> None:
        """Take one result that is neither of a type of UNCHANGING nor a tuple of those."""
        if isinstance(result, tuple) and result and isinstance(result[0], OutputTag):
            self._add_side(result[0].tag_id, result[1], timestamp)
            return
        # A Row that was made to be put out.
        if (
            type(result) is not Row
            or getrefcount(result) != _UNSHARED
            or not UNCHANGING.issuperset(map(type, result._values))
        ):
            result = frozen(result)
        self.values.append(result)
        self.stamps.append(timestamp)

    def _add_side(self, tag: str, value: Any, timestamp: int | None) -> None:
        side = self.sides.get(tag)
        if side is None:
            side = self.sides[tag] = ([], [])
        self._in_sides += 1
        side[0].append(frozen(value))
        side[1].append(timestamp)
        if self._in_sides >= self.piece.limit and self.piece.is_full(side[0]):
            self._flush_sides()

    def relieve(self) -> None:
        """Put out the results of the main output if they are enough; to be called after `room` results."""
        if len(self.values) >= self.piece.limit and self.piece.is_full(self.values):
            self.flush()

    def room(self) -> int:
        """After how many further results of the main output, at least one, to call `relieve`."""
        return max(1, self.piece.limit - len(self.values))

    def flush(self) -> None:
        if self.values:
            values, stamps = self.values, self.stamps
            self.values, self.stamps = [], []
            self._output.collect(values, stamps_or_none(stamps))
            self.piece.begin()
        if self.sides:
            self._flush_sides()

    def _flush_sides(self) -> None:
        sides, self.sides, self._in_sides = self.sides, {}, 0
        for tag, (values, stamps) in sides.items():
            self._output.collect_side(tag, values, stamps_or_none(stamps))
        self.piece.begin()


def close_iterator(rest: Iterable[Any] | None) -> None:
    """End a generator whose further results are not wanted; what it raises on the way is dropped."""
    if isinstance(rest, GeneratorType):
        with suppress(BaseException):
            rest.close()


def stamps_or_none(stamps: list[int | None]) -> Timestamps:
    """The list, or None if no record has a timestamp."""
    # The first one mostly tells.
    return None if stamps[0] is None and stamps.count(None) == len(stamps) else stamps


def frozen(value: Any) -> Any:
    """A value that no later change to `value` shows in: itself, or a copy all the way down."""
    try:
        return _frozen(value)
    except RecursionError:  # it holds itself
        return _copy(value)


def _frozen(value: Any) -> Any:
    kind = type(value)
    if kind in UNCHANGING or isinstance(value, enum.Enum):
        return value
    copy_of = _COPIES.get(kind)
    return _copy(value) if copy_of is None else copy_of(value)


def _tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return value if UNCHANGING.issuperset(map(type, value)) else tuple([_frozen(item) for item in value])


def _row(value: Row) -> Row:
    return create_row(value._names, [_frozen(item) for item in value._values], value._row_kind)


def _copy(value: Any) -> Any:
    if isinstance(value, tuple) and UNCHANGING.issuperset(map(type, value)):
        # A NamedTuple.
        return value
    try:
        return copy.deepcopy(value)
    except Exception:
        # A value that cannot be copied could not leave an operator in PyFlink; within a chain here it may.
        return value


_COPIES: dict[type, Callable[[Any], Any]] = {
    tuple: _tuple,
    list: lambda value: [_frozen(item) for item in value],
    dict: lambda value: {_frozen(key): _frozen(item) for key, item in value.items()},
    set: set,
    Row: _row,
}


# Copies of records for readers of their own.
#
# In Flink every reader of an operator gets records of its own, because the operator's results are serialised
# for each of them. A reader that changes a record in place does not change it for the others.
#
# Source: org.apache.flink.streaming.runtime.tasks.{BroadcastingOutputCollector,CopyingChainingOutput}.


def copies(values: Values) -> Values:
    """A new list of the values. Those that can be changed in place are copied, all the way down."""
    if never_change(values):
        return list(values)
    return [frozen(value) for value in values]


def never_change(values: Values) -> bool:
    """Whether all values are of types that cannot be changed in place, or are tuples of such values."""
    kinds = set(map(type, values))
    if tuple not in kinds:
        return kinds <= UNCHANGING
    if len(kinds) == 1:
        return UNCHANGING.issuperset(map(type, chain.from_iterable(values)))
    tuples = [value for value in values if type(value) is tuple]
    kinds.remove(tuple)
    return kinds <= UNCHANGING and UNCHANGING.issuperset(map(type, chain.from_iterable(tuples)))


def is_plain(type_info: TypeInformation | None) -> bool:
    """Whether a type is that of single values, or of tuples of them, which cannot be changed in place."""
    if isinstance(type_info, TupleTypeInfo):
        return all(map(is_plain, type_info.get_field_types()))
    return isinstance(type_info, _PLAIN)


def own(result: Any) -> Any:
    """`result`, or a copy of it if it holds something changeable that others hold too.

    A function may keep a list, return it inside one result after another, and go on changing it.
    """
    return frozen(result) if _holds_shared(result) else result


def _holds_shared(value: Any) -> bool:
    items = _items(value)
    if UNCHANGING.issuperset(map(type, items)):
        return False
    for item in items:
        kind = type(item)
        if kind in UNCHANGING or (kind is tuple and UNCHANGING.issuperset(map(type, item))):
            continue
        if getrefcount(item) > _HELD_ONCE or _holds_shared(item):
            return True
    return False


def _items(value: Any) -> Iterable[Any]:
    kind = type(value)
    if kind is tuple or kind is list:
        items: Iterable[Any] = value
    elif kind is dict:
        items = value.values()
    else:
        items = value._values if kind is Row else ()
    return items


_PLAIN = (BasicTypeInfo, DateTypeInfo, TimeTypeInfo, TimestampTypeInfo, LocalTimeTypeInfo)


def _references_of_held() -> int:
    counts = [getrefcount(item) for item in [object()]]
    return counts[0]


#: How many references an item has in a loop over its container if nothing else holds it.
_HELD_ONCE = _references_of_held()
