"""Describe exceptions and records as text of bounded length, even if their own methods fail.

The text of an author's exception or record comes from the author's code: it may raise, and it may have any
length. A message about a failure must get through nevertheless.
"""

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import FunctionType, TracebackType
from typing import Any

import pyarrow as pa

from penstock.operators.common.row import Row, create_row

_ERROR_CHARACTERS = 2000
_RECORD_CHARACTERS = 200
_DEPTH = 6


#: In place of a record, if none was being handled.
NO_RECORD: Any = object()


class DescribedError(str):
    """A text that describes the timer or window that was being handled, in place of a record."""


def describe_error(error: BaseException) -> str:
    """Return the type and message of an exception, or the reason why its __str__ fails.

    The form is `Type: message`; a long message is cut.
    """
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as failure:
        text = (
            f"(its text cannot be shown: __str__ raised {type(failure).__name__}) {_arguments(error)}".strip()
        )
    return encodable(f"{name}: {shortened(text, _ERROR_CHARACTERS)}" if text else name)


def encodable(text: str) -> str:
    """Return `text` with lone surrogates and control codes escaped, except line ends and tabs.

    UTF-8 has no lone surrogates, and Spark waits forever for a message with one; terminals obey control
    codes.
    """
    return _NOT_SENT.sub(lambda match: repr(match[0])[1:-1], text)


_NOT_SENT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def describe_record(value: Any) -> str:
    """Return the record's repr, cut if it is long; if repr fails, the name of its type."""
    if isinstance(value, DescribedError):
        return encodable(shortened(str(value), _RECORD_CHARACTERS))
    try:
        text = repr(_cut(value, _RECORD_CHARACTERS, _DEPTH))
    except BaseException:
        return encodable(f"<{type(value).__name__}>")
    return encodable(shortened(text, _RECORD_CHARACTERS))


def misfit(values: list[Any], convert: Callable[[list[Any]], object]) -> Any:
    """Return the first of `values` for which `convert` raises on its own; NO_RECORD if it raises for none."""
    for value in values:
        try:
            convert([value])
        except Exception:
            return value
    return NO_RECORD


def hint_for(error: BaseException) -> str:
    """Return a hint for the author on an exception of this type; empty if its own message must suffice."""
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
    """Return `text`, cut to `limit` characters if it is longer; the last one is then an ellipsis."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _arguments(error: BaseException) -> str:
    described = describe_record(getattr(error, "args", ()))
    return "" if described == "()" else f"arguments {described}"


def _cut(value: Any, limit: int, depth: int) -> Any:
    """Return `value` with every part cut to the visible length, as the whole repr may not fit in memory."""
    kind = type(value)
    if kind is str or kind is bytes:
        return value[:limit]
    is_row = isinstance(value, Row)  # rows of a declared type have a class of their own
    if depth == 0 or not (is_row or kind in (list, tuple, dict, set, frozenset)):
        return value
    if is_row:
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


# Errors of a job, as its author reads them: the author's lines first, then operator and record
#
# They travel from a Spark worker to the driver as data, not as pickles.


# Errors of a running job; they travel from a Spark worker to the driver as data, not as pickles.


class UserFunctionError(Exception):
    """An operator failed, usually because a function of the job's author raised.

    `during` describes the failed step if it is not the operator's function on a record, such as its key
    selector or its open. `record` is the record that was being handled, as text; empty if there was none.
    `cause` is the exception as text.
    """

    def __init__(
        self,
        *,
        job: str,
        operator: str,
        subtask: int,
        record: str,
        cause: str,
        during: str = "",
        hint: str = "",
    ) -> None:
        self.job, self.operator, self.subtask = job, operator, subtask
        self.record, self.cause, self.during, self.hint = record, cause, during, hint
        super().__init__(
            f"job {job!r}, operator {operator!r}, subtask {subtask}: {during + ': ' if during else ''}{cause}"
            + (f"\nwhile it handled the record {record}" if record else "")
            + (f"\nhint: {hint}" if hint else "")
        )


class EnoughResults(BaseException):
    """Raised if no further results are wanted, to end the calls of a chain up to its head.

    A BaseException, so that no function of the job's author that catches Exception stops it.
    """


_OWN = Path(__file__).resolve().parents[2]
_OURS = ("operators", "engine", "plans", "penstock")
_FOREIGN = ("pyspark", "py4j", "pyarrow")
_LOOPS = {"map", "filter", "flat_map", "flat map", "frozen importlib._bootstrap"}
"""Names of the steps of compiled loops over functions (see records/map_records.py)."""
_MAX_FRAMES = 5
_MAX_LINE_CHARACTERS = 500
_MAX_CHARACTERS = 20_000


class FunctionError(RuntimeError):
    """A function of the author raised while a DataFrame was computed."""


def user_frames(error: BaseException) -> list[str]:
    """Return the lines of the author's code where `error` was raised, the innermost first; empty if none."""
    frames = traceback.extract_tb(error.__traceback__)
    author_frames = [frame for frame in frames if not _is_ours(frame.filename)]
    return [
        encodable(
            f'File "{frame.filename}", line {frame.lineno}, in {frame.name}'
            + (f": {shortened(frame.line, _MAX_LINE_CHARACTERS)}" if frame.line else "")
        )
        for frame in reversed(author_frames[-_MAX_FRAMES:])
    ]


def author_first(results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield `results` for a Python worker of Spark, with errors that begin with the author's lines.

    A UserFunctionError becomes a FunctionError whose traceback has only the author's frames. Spark leaves
    frames of its own files out of its message; the frame that raises here counts as one of them. An exception
    that Spark cannot send becomes a FunctionError as well: Spark announces a message to the driver before it
    encodes it, and if encoding fails, worker and driver wait for each other.
    """
    spark = sys.modules.get("pyspark")
    if spark is None or spark.__file__ is None:
        return _raising(results)
    code = _raising.__code__.replace(co_filename=os.path.join(os.path.dirname(spark.__file__), "penstock"))
    hidden = FunctionType(code, globals())
    return hidden(results)  # type: ignore[no-any-return]


def _raising(results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    try:
        yield from results
    except UserFunctionError as error:
        raise _for_author(error) from None
    except BaseException as error:
        if _can_be_sent(error):
            raise
        raise FunctionError(_with_lines(error, [describe_error(error)])) from None


def _can_be_sent(error: BaseException) -> bool:
    """Whether Spark can send the text that it makes of an exception."""
    try:
        text = "".join(traceback.format_exception(error))
        return len(text.encode("utf-8")) <= _MAX_CHARACTERS
    except Exception:
        return False


def _with_lines(error: BaseException, lines: list[str]) -> str:
    return "\n".join([*user_frames(error), *lines])


def _for_author(error: UserFunctionError) -> FunctionError:
    """Return the error, operator and record as text, with a traceback of the author's frames.

    The author's lines are part of the text if Spark shows no tracebacks, or cannot send this one.
    """
    cause = error.__cause__ or error
    text = _text_for_author(error)
    for_author = FunctionError(text).with_traceback(_author_traceback(cause))
    if os.environ.get("SPARK_HIDE_TRACEBACK") or not _can_be_sent(for_author):
        return FunctionError(_with_lines(cause, [text]))
    return for_author


def _text_for_author(error: UserFunctionError) -> str:
    during = f", {error.during}" if error.during else ""
    names = {name: shortened(getattr(error, name), _MAX_LINE_CHARACTERS) for name in ("operator", "job")}
    lines = [
        error.cause,
        f"  operator: {names['operator']!r}, subtask {error.subtask}{during} (job {names['job']!r})",
    ]
    lines += [
        f"  {label}: {text}" for label, text in (("record", error.record), ("hint", error.hint)) if text
    ]
    return encodable("\n".join(lines))


def _author_traceback(error: BaseException) -> TracebackType | None:
    """Return the author's innermost frames, or the innermost frame of all if the author has none."""
    entries = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    author_frames = [
        frame for frame in entries if not _is_ours(frame.tb_frame.f_code.co_filename)
    ] or entries[-1:]
    for frame in reversed(author_frames[-_MAX_FRAMES:]):
        entry = TracebackType(entry, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return entry


def _is_ours(filename: str) -> bool:
    if filename.startswith("<"):
        return set(filename[1:-1].split(", ")) <= _LOOPS
    path = Path(filename)
    if path.is_relative_to(_OWN) and path.relative_to(_OWN).parts[0] in _OURS:
        return True
    return any(folder in path.parts for folder in _FOREIGN)
