"""Errors of a job as its author reads them: their own lines first, then operator and record."""

import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, TracebackType

import pyarrow as pa

from penstock.operators.chain.describe_error import describe_error, encodable, shortened

# Errors of a running job; they travel from a Spark worker to the driver as data, not as pickles.


class UserFunctionError(Exception):
    """An operator failed: mostly because a function of the job's author raised.

    `during` is what failed where it was not the operator's function on a record: its key selector, its open.
    `record` is what was being handled, as text; empty where nothing was. `cause` is the exception as text.
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
    """No further results are wanted: ends the calls of a chain, from the operator that puts out to the head.

    A BaseException, so that no function of the job's author that catches Exception keeps it.
    """


_OWN = Path(__file__).resolve().parents[2]
_OURS = ("operators", "engine", "plans", "penstock")
_FOREIGN = ("pyspark", "py4j", "pyarrow")
_LOOPS = {"map", "filter", "flat_map", "flat map", "frozen importlib._bootstrap"}
"""Names of the steps of compiled loops over functions (loops_of_functions)."""
_MOST_FRAMES = 5
_MOST_OF_A_LINE = 500
_MOST_CHARACTERS = 20_000


class FunctionError(RuntimeError):
    """A function of the author's raised, in a DataFrame that is being computed."""


def user_frames(error: BaseException) -> list[str]:
    """The lines of the author's code where `error` was raised, the innermost first; empty if none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_ours(frame.filename)]
    return [
        encodable(
            f'File "{frame.filename}", line {frame.lineno}, in {frame.name}'
            + (f": {shortened(frame.line, _MOST_OF_A_LINE)}" if frame.line else "")
        )
        for frame in reversed(own[-_MOST_FRAMES:])
    ]


def author_first(results: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`results` for a Python worker of Spark, with errors that begin with the author's lines.

    A UserFunctionError becomes a FunctionError whose traceback has only the author's frames. Spark leaves
    frames of its own files out of its message; the frame that raises here counts as one of them. What Spark
    cannot send becomes one, too: it tells the driver that a message follows before it has encoded it, and
    where that fails, both wait for each other.
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
    """Whether Spark can send what it makes of an exception."""
    try:
        text = "".join(traceback.format_exception(error))
        return len(text.encode("utf-8")) <= _MOST_CHARACTERS
    except Exception:
        return False


def _with_lines(error: BaseException, lines: list[str]) -> str:
    return "\n".join([*user_frames(error), *lines])


def _for_author(error: UserFunctionError) -> FunctionError:
    """The error, operator and record as text, with a traceback of the author's frames.

    The author's lines are a part of the text where Spark shows no tracebacks, or cannot send this one.
    """
    cause = error.__cause__ or error
    text = _text_for_author(error)
    told = FunctionError(text).with_traceback(_author_traceback(cause))
    if os.environ.get("SPARK_HIDE_TRACEBACK") or not _can_be_sent(told):
        return FunctionError(_with_lines(cause, [text]))
    return told


def _text_for_author(error: UserFunctionError) -> str:
    during = f", {error.during}" if error.during else ""
    names = {name: shortened(getattr(error, name), _MOST_OF_A_LINE) for name in ("operator", "job")}
    lines = [
        error.cause,
        f"  operator: {names['operator']!r}, subtask {error.subtask}{during} (job {names['job']!r})",
    ]
    lines += [
        f"  {label}: {text}" for label, text in (("record", error.record), ("hint", error.hint)) if text
    ]
    return encodable("\n".join(lines))


def _author_traceback(error: BaseException) -> TracebackType | None:
    """The author's innermost frames; the innermost of all where none is theirs."""
    entries = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    own = [frame for frame in entries if not _is_ours(frame.tb_frame.f_code.co_filename)] or entries[-1:]
    for frame in reversed(own[-_MOST_FRAMES:]):
        entry = TracebackType(entry, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return entry


def _is_ours(filename: str) -> bool:
    if filename.startswith("<"):
        return set(filename[1:-1].split(", ")) <= _LOOPS
    path = Path(filename)
    if path.is_relative_to(_OWN) and path.relative_to(_OWN).parts[0] in _OURS:
        return True
    return any(folder in path.parts for folder in _FOREIGN)
