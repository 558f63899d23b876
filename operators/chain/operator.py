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

from penstock.operators.chain.errors import (
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
#: Milliseconds since the epoch, one per value; None instead of a list if no value has one.
Timestamps = list[int | None] | None

MIN_WATERMARK = -(2**63)
MAX_WATERMARK = 2**63 - 1


def _now() -> int:
    return time.time_ns() // 1_000_000


class Output(Protocol):
    """The receiver of an operator's results, which go to chained operators, side outputs and the network."""

    def collect(self, values: Values, timestamps: Timestamps) -> None:
        """Take records of the main output; the receiver owns the lists from here on."""

    def collect_side(self, tag: str, values: Values, timestamps: Timestamps) -> None:
        """Take records of a side output, by the tag's id."""

    def collect_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Take records of the main output that never became Python objects."""

    def watermark(self, timestamp: int) -> None:
        """Take a watermark (milliseconds), below which no record follows."""


@dataclass(kw_only=True)
class OperatorContext:
    """The facts about its surroundings that an operator may read."""

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
    #: whether results are declared as single values or tuples of these, which are immutable
    plain_results: bool = False
    metrics: dict[str, Any] = field(default_factory=dict)  #: of the user's functions, by name
    #: its state of earlier batches, a stored_state.StoredState, if the state lasts from batch to batch
    stored_state: Any = None
    #: milliseconds since the epoch; tests replace this clock
    processing_time: Callable[[], int] = field(default=_now)


class Operator:
    """One operator of a chain.

    It is created on the driver; in each subtask setup, open, process…, finish and close follow.

    Subclasses hold the user's function and their settings in attributes that `__init__` sets (all of them
    picklable). Objects that live only in a subtask are set in `open`.
    """

    #: Whether it takes record batches (`process_batch`); records are converted before they reach it.
    columnar: ClassVar[bool] = False
    #: Whether it has a key selector per input, and state by key.
    keyed: ClassVar[bool] = False
    #: Whether records must be of their declared type although nothing encodes them on their way here.
    wants_declared_types: bool = False

    context: OperatorContext
    output: Output

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Store context and output. Called in the subtask before `open` of any operator of the chain."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Prepare for records. Called tail first: the operators that read this one are open already."""

    def process(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the only input, or of the first of two."""
        raise NotImplementedError

    def process_second(self, values: Values, timestamps: Timestamps) -> None:
        """Handle records of the second of two inputs."""
        raise NotImplementedError

    def process_input(self, number: int, values: Values, timestamps: Timestamps) -> None:
        """Handle records of input `number`, from 1."""
        if number == 1:
            self.process(values, timestamps)
        else:
            self.process_second(values, timestamps)

    def process_batch(self, batch: pa.RecordBatch, timestamps: pa.Int64Array | None) -> None:
        """Handle a record batch of the only input; called if the operator is `columnar`."""
        raise NotImplementedError

    def process_watermark(self, watermark: int) -> None:
        """Handle the combined watermark of all inputs, which has risen to this (milliseconds)."""
        self.output.watermark(watermark)

    def end_key(self) -> None:
        """Forget the state of the current key, which has no further records (BATCH mode, keyed operators)."""

    def finish(self) -> None:
        """Emit the last results. Called head first, after the last watermark and all input."""

    def close(self) -> None:
        """Release everything. Called at the end, head first, also after a failure."""

    def failed(self, error: BaseException, value: Any, during: str = "") -> UserFunctionError:
        """Call `failure` for this operator."""
        return failure(self.context, error, value, during)


def failure(
    context: OperatorContext, error: BaseException, value: Any, during: str = ""
) -> UserFunctionError:
    """Return `error` as a UserFunctionError with its job, operator, subtask and record.

    `value` is the record, or NO_RECORD. `during` describes the step that failed if it is not the operator's
    function. Raises `error` itself if it has been described before, or only ends the chain's calls.
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


# Results of user functions on their way out
#
# In Flink a result is serialised as soon as it is emitted, so later changes to the object (a list in state, a
# Row that a reduce function changes) do not show in it. Here results wait until the list of records has been
# handled; so values that can be changed are copied, unless nothing else refers to them.
#
# Results leave an operator in pieces of a bounded number of bytes, and without long waits. The number and
# size of a function's results for one record are not known in advance, so an operator checks the waiting
# results while it still takes more from the function, and emits them once there are enough.


_PIECE_BYTES = 8 << 20
#: Approximate seconds that results wait for others (Flink's buffer timeout).
_PIECE_SECONDS = 0.1
_MOST_RESULTS = 1 << 16
#: Results before the first check: of an operator, and of a piece once its results are known to be small.
_FIRST, _FIRST_OF_PIECE = 1, 64
_GROWTH = 4
#: Maximum of results from one check to the next: this many may wait when a quick function becomes slow.
_MOST_BETWEEN_LOOKS = 1024
_SAMPLE = 8


class PieceSize:
    """Decides when an operator has enough waiting results; call `is_full` once `limit` of them wait."""

    __slots__ = ("_began", "_first", "limit")

    def __init__(self) -> None:
        self.limit = self._first = _FIRST
        self._began = monotonic()

    def is_full(self, waiting: list[Any], taken: int | None = None) -> bool:
        """Whether the waiting results should be emitted; if not, raise `limit`.

        `taken`: the number of their records, if records are counted instead; each has at most one result.
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
        """Start with no waiting results, and start the clock."""
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


#: The number of references to an object in `add_other` if only the calling loop refers to it.
_UNSHARED = _references_of_new()


class Results:
    """Results of a list of records (or of some timers), main and side, with their timestamps.

    They go to `output` at `flush`, and earlier once there are enough for a piece, even while a function still
    has results for one record.
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
        """Take the iterable that one call returned, or None.

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
        """Take one result that is neither of a type of UNCHANGING nor a tuple of such values."""
        if isinstance(result, tuple) and result and isinstance(result[0], OutputTag):
            self._add_side(result[0].tag_id, result[1], timestamp)
            return
        # a Row that was made as a result
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
        """Emit the results of the main output if they are enough; call it after `room` results."""
        if len(self.values) >= self.piece.limit and self.piece.is_full(self.values):
            self.flush()

    def room(self) -> int:
        """Return the number of further results of the main output, at least one, before `relieve` is due."""
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
    """End a generator whose further results are not wanted; drop the exceptions that it raises meanwhile."""
    if isinstance(rest, GeneratorType):
        with suppress(BaseException):
            rest.close()


def stamps_or_none(stamps: list[int | None]) -> Timestamps:
    """Return the list, or None if no record has a timestamp."""
    # the first one usually decides
    return None if stamps[0] is None and stamps.count(None) == len(stamps) else stamps


def frozen(value: Any) -> Any:
    """Return `value`, or a deep copy of it if it can be changed, so that later changes do not show."""
    try:
        return _frozen(value)
    except RecursionError:  # it contains itself
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
        # a NamedTuple
        return value
    try:
        return copy.deepcopy(value)
    except Exception:
        # a value that cannot be copied could not leave an operator in PyFlink; within a chain here it may
        return value


_COPIES: dict[type, Callable[[Any], Any]] = {
    tuple: _tuple,
    list: lambda value: [_frozen(item) for item in value],
    dict: lambda value: {_frozen(key): _frozen(item) for key, item in value.items()},
    set: set,
    Row: _row,
}


# Copies of records, one for each reader
#
# In Flink every reader of an operator gets its own records, because the operator's results are serialised for
# each of them. A reader that changes a record in place does not change it for the others.
#
# Source: org.apache.flink.streaming.runtime.tasks.{BroadcastingOutputCollector,CopyingChainingOutput}.


def copies(values: Values) -> Values:
    """Return a new list of the values; values that can be changed in place are copied deeply."""
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
    """Whether all values of a type are single values, or tuples of them, which cannot be changed in place."""
    if isinstance(type_info, TupleTypeInfo):
        return all(map(is_plain, type_info.get_field_types()))
    return isinstance(type_info, _PLAIN)


def own(result: Any) -> Any:
    """Return `result`, or a copy if it holds a changeable object to which something else refers.

    A function may own a list, return it inside one result after another, and go on changing it.
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
        items = value._values if isinstance(value, Row) else ()
    return items


_PLAIN = (BasicTypeInfo, DateTypeInfo, TimeTypeInfo, TimestampTypeInfo, LocalTimeTypeInfo)


def _references_of_held() -> int:
    counts = [getrefcount(item) for item in [object()]]
    return counts[0]


#: The number of references to an item in a loop over its container if nothing else refers to it.
_HELD_ONCE = _references_of_held()
