"""The loop that process operators spend their time in."""

from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any, Protocol

from penstock.operators.chain.describe_error import NO_RECORD
from penstock.operators.chain.operator import Operator, Timestamps, Values
from penstock.operators.chain.results import UNCHANGING, Results, close_iterator


class Stamped(Protocol):
    """A context that is told the timestamp of the record at hand."""

    stamp: int | None


class Keyed(Protocol):
    """A state backend, or what stands for it, that is told the key of the record at hand."""

    key: Any


class NoKey:
    """Takes the place of a state backend for operators without one."""

    key: Any = None


def call_function(
    function: Callable[[Any, Any], Iterable[Any] | None],
    values: Values,
    timestamps: Timestamps,
    keys: Iterable[Any],
    *,
    context: Stamped,
    backend: Keyed,
    results: Results,
    operator: Operator,
) -> None:
    """Call `function(value, context)` for each value, with `context.stamp` and `backend.key` set before.

    Its results go to `results`. Raises UserFunctionError with the record it failed at.
    """
    append, append_stamp, add_other = results.values.append, results.stamps.append, results.add_other
    room = results.room()
    unchanging, only_unchanging = UNCHANGING, UNCHANGING.issuperset
    stamps = repeat(None, len(values)) if timestamps is None else timestamps
    value: Any = NO_RECORD
    outputs: Iterable[Any] | None = None
    try:
        for value, stamp, backend.key in zip(values, stamps, keys, strict=True):
            context.stamp = stamp
            outputs = function(value, context)
            if outputs:
                # What most functions give is dealt with here, to spare a call.
                for result in outputs:
                    kind = type(result)
                    if kind in unchanging or (kind is tuple and only_unchanging(map(type, result))):
                        append(result)
                        append_stamp(stamp)
                    else:
                        add_other(result, stamp)
                    room -= 1
                    if not room:
                        results.relieve()
                        append, append_stamp = results.values.append, results.stamps.append
                        room = results.room()
    except BaseException as error:
        close_iterator(outputs)
        raise operator.failed(error, value) from error
