"""Errors of a job as its author reads them: their own lines first, then operator and record."""

import traceback
from pathlib import Path

from penstock.operators.chain.errors import UserFunctionError

_OWN = Path(__file__).resolve().parents[2]
_OURS = ("operators", "engine", "plans", "penstock")
_FOREIGN = ("pyspark", "py4j", "pyarrow")
_LOOPS = {"map", "filter", "flat_map", "flat map", "frozen importlib._bootstrap"}
"""Names of the steps of compiled loops over functions (loops_of_functions)."""
_MOST_FRAMES = 5


class FunctionError(RuntimeError):
    """A function of the author's raised, in a DataFrame that is being computed."""


def user_frames(error: BaseException) -> list[str]:
    """Where `error` was raised in the author's code, the innermost line first; empty if it was not."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if not _is_ours(one.filename)]
    return [
        f'File "{one.filename}", line {one.lineno}, in {one.name}' + (f": {one.line}" if one.line else "")
        for one in reversed(own[-_MOST_FRAMES:])
    ]


def for_author(error: UserFunctionError) -> FunctionError:
    """`error` as it leaves a DataFrame: the author's lines, what was raised, operator and record."""
    lines = [*user_frames(error.__cause__ or error), error.cause]
    during = f", {error.during}" if error.during else ""
    lines.append(f"  operator: {error.operator!r}, subtask {error.subtask}{during} (job {error.job!r})")
    lines += [
        f"  {label}: {text}" for label, text in (("record", error.record), ("hint", error.hint)) if text
    ]
    return FunctionError("\n".join(lines))


def _is_ours(filename: str) -> bool:
    if filename.startswith("<"):
        return set(filename[1:-1].split(", ")) <= _LOOPS
    path = Path(filename)
    if path.is_relative_to(_OWN) and path.relative_to(_OWN).parts[0] in _OURS:
        return True
    return any(one in path.parts for one in _FOREIGN)
