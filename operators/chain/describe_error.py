"""Exceptions and records as text of bounded length, even if their own methods fail.

The text of an author's exception or record comes from that author's code: it may raise, and it may have any
length. A message about a failure must come through all the same.
"""

import re
from collections.abc import Callable
from itertools import islice
from typing import Any

from penstock.operators.common.row import Row, create_row

_ERROR_CHARACTERS = 2000
_RECORD_CHARACTERS = 200
_DEPTH = 6


#: Stands for the record if none was being handled.
NO_RECORD: Any = object()


class DescribedError(str):
    """A text that says what was being handled where that was no record: a timer, a window."""


def describe_error(error: BaseException, limit: int = _ERROR_CHARACTERS) -> str:
    """`Type: message`, the message cut to `limit` characters; of an exception whose own text fails, why."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as failure:
        text = (
            f"(its text cannot be shown: __str__ raised {type(failure).__name__}) {_arguments(error)}".strip()
        )
    return encodable(f"{name}: {shortened(text, limit)}" if text else name)


def encodable(text: str) -> str:
    """`text` with lone surrogates and control codes escaped, but for line ends and tabs.

    UTF-8 has no lone surrogates, and Spark waits forever for a message with one; terminals act on the others.
    """
    return _NOT_SENT.sub(lambda match: repr(match[0])[1:-1], text)


_NOT_SENT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def describe_record(value: Any, limit: int = _RECORD_CHARACTERS) -> str:
    """At most `limit` characters of the record's repr; its type's name where repr itself fails."""
    if isinstance(value, DescribedError):
        return encodable(shortened(str(value), limit))
    try:
        text = repr(_cut(value, limit, _DEPTH))
    except BaseException:
        return encodable(f"<{type(value).__name__}>")
    return encodable(shortened(text, limit))


def misfit(values: list[Any], convert: Callable[[list[Any]], object]) -> Any:
    """The first of `values` that `convert` raises for on its own; NO_RECORD if it raises for none."""
    for value in values:
        try:
            convert([value])
        except Exception:
            return value
    return NO_RECORD


def hint_for(error: BaseException) -> str:
    """A hint for the author on an exception of this type; empty if its own message must suffice."""
    for kind, hint in _HINTS.items():
        if isinstance(error, kind):
            return hint
    return ""


_HINTS: dict[type[BaseException], str] = {
    SystemExit: "a function must not end the worker's process; raise an exception to fail the job, return to "
    "go on",
    KeyboardInterrupt: "the function raised it itself; cancel a job from outside with its JobClient",
    GeneratorExit: "the function raised it itself; a generator ends with return",
    StopIteration: "call next() with a default, or catch StopIteration; it does not end the stream",
    MemoryError: "keep less in the function, give the workers more memory or raise the parallelism",
    RecursionError: "the function calls itself too deeply; use a loop",
}


def shortened(text: str, limit: int) -> str:
    """`text`, or its beginning and an ellipsis, `limit` characters in all."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _arguments(error: BaseException) -> str:
    described = describe_record(getattr(error, "args", ()))
    return "" if described == "()" else f"arguments {described}"


def _cut(value: Any, limit: int, depth: int) -> Any:
    """`value` with every part cut to the length that is shown: repr of the whole may not fit in memory."""
    kind = type(value)
    if kind is str or kind is bytes:
        return value[:limit]
    if depth == 0 or (kind not in (list, tuple, dict, set, frozenset) and kind is not Row):
        return value
    if kind is Row:
        if len(value._values) > limit:
            return list(islice(value._values, limit))
        return create_row(
            value._names, [_cut(item, limit, depth - 1) for item in value._values], value._row_kind
        )
    if kind is dict:
        entries = islice(value.items(), limit)
        return {key: _cut(item, limit, depth - 1) for key, item in entries}
    if kind is set or kind is frozenset:
        return value if len(value) <= limit else kind(islice(value, limit))
    return kind(_cut(item, limit, depth - 1) for item in islice(value, limit))
