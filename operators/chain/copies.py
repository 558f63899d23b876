"""Copies of records for readers of their own.

In Flink every reader of an operator gets records of its own, because the operator's results are serialised
for each of them. A reader that changes a record in place does not change it for the others.

Source: org.apache.flink.streaming.runtime.tasks.{BroadcastingOutputCollector,CopyingChainingOutput}.
"""

from collections.abc import Iterable
from itertools import chain
from sys import getrefcount
from typing import Any

from penstock.operators.chain.operator import Values
from penstock.operators.chain.results import UNCHANGING, frozen
from penstock.operators.common.row import Row
from penstock.operators.common.typeinfo import (
    BasicTypeInfo,
    DateTypeInfo,
    LocalTimeTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)


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
