"""Results of user functions on their way out.

In Flink a result is serialised the moment it is put out, so what a function does to the object later (a list
kept in state, a Row that a reduce function changes) does not show. Here results wait until the list of
records has been handled; so values that can be changed are copied, unless nothing else refers to them.
"""

import copy
import datetime
import decimal
import enum
from collections.abc import Callable, Iterable
from contextlib import suppress
from sys import getrefcount
from types import GeneratorType
from typing import Any
from uuid import UUID

from penstock.operators.chain.operator import Output, Timestamps, Values
from penstock.operators.chain.piece_size import PieceSize
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.row import Row, create_row

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
