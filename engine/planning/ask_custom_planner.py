"""Asking a custom planner about a batch of topologies, within a time limit."""

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from penstock.engine.planning.find_custom_planners import CustomPlanner, place_of_error, place_of_function
from penstock.engine.planning.planner_process import PlannerEndedError, RemoteFunction
from penstock.engine.planning.planner_program import PlannerProgram, ProgramFailedError
from penstock.plans.custom_planners.find_omissions import NO_VIOLATION, Invariant, violations
from penstock.plans.errors import SchemaError
from penstock.plans.tables.column_types import TOPOLOGY

MOST_CALLS = 1_000
SEARCH_SECONDS = 30.0
"""Calls and time for one batch to find the topologies that the planner raises for, by halves."""

_Answer = tuple[Any, pl.DataFrame]


class FailedPolicyError(Exception):
    """A planner gave no answer; `rule` says in which way."""

    def __init__(self, rule: Invariant, violation: str) -> None:
        super().__init__(violation)
        self.rule = rule


def call_custom_planner(
    custom_planner: CustomPlanner, tables: Mapping[str, pl.DataFrame], seconds: float, read: Any
) -> Any:
    """What the planner returns for these tables, as `read` gives it.

    It runs in a thread of its own, with copies of the tables, and what it prints goes to standard error. One
    that is still running after `seconds` is left behind with an exception pending; it ends with the process
    at the latest. Raises FailedPolicyError if it raises or takes longer, SchemaError as `read` does.
    """
    function = custom_planner.function
    is_remote = isinstance(function, RemoteFunction)
    arguments = {
        name: tables[name].to_arrow(compat_level=pl.CompatLevel.oldest())
        if arrow or is_remote
        else tables[name].clone()
        for name, arrow in custom_planner.reads.items()
    }
    returned: list[Any] = []
    raised: list[SchemaError | FailedPolicyError] = []

    def run() -> None:
        try:
            returned.append(read(function(**arguments)))
        # Only texts are kept: the exception would keep all that the planner holds.
        except SchemaError as error:
            raised.append(SchemaError(error.message))
        except BaseException as error:
            raised.append(FailedPolicyError(Invariant.PLANNER_RAISED, describe_raised(error)))

    thread = threading.Thread(target=run, name=f"planner {custom_planner.name}", daemon=True)
    with contextlib.nullcontext() if is_remote else _process_as_before():
        thread.start()
        try:
            thread.join(seconds)
        except BaseException:  # an interrupt: nobody waits for this answer, or is to take it for the next
            if isinstance(function, PlannerProgram | RemoteFunction):
                function.stop()
            raise
    if returned:
        return returned[0]
    if raised:
        raise raised[0]
    if isinstance(function, PlannerProgram | RemoteFunction):
        function.stop()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    )
    raise FailedPolicyError(
        Invariant.PLANNER_TIMED_OUT,
        f"no answer within {seconds:g} s ({place_of_function(custom_planner.function)})",
    )


@contextlib.contextmanager
def _process_as_before() -> Iterator[None]:
    """What a function writes goes to standard error, and what it breaks of this process is put right."""
    environment, path = dict(os.environ), list(sys.path)
    patchable = {owner: dict(vars(owner)) for owner in (pl, pl.DataFrame, pl.LazyFrame, pl.Series, pl.Expr)}
    descriptors = {}
    for number in (1, 2):
        with contextlib.suppress(OSError):
            descriptors[number] = os.dup(number)
    with contextlib.redirect_stdout(sys.stderr), contextlib.chdir(os.getcwd()):
        try:
            if len(descriptors) == 2:
                if sys.__stdout__ is not None:
                    sys.__stdout__.flush()
                os.dup2(2, 1)
            yield
        finally:
            for number, copy in descriptors.items():
                os.dup2(copy, number)
                os.close(copy)
            for key in environment.keys() - os.environ.keys():
                os.environ[key] = environment[key]
            sys.path.extend(folder for folder in path if folder not in sys.path)
            for owner, values in patchable.items():
                for name, value in values.items():
                    if vars(owner).get(name, owner) is not value:
                        setattr(owner, name, value)


def ask_custom_planner(
    custom_planner: CustomPlanner,
    tables: Mapping[str, pl.DataFrame],
    topologies: pl.Series,
    seconds: float,
    read: Any,
) -> _Answer:
    """The answer about `topologies` as `read` (returned to table) gives it, and violations of those without.

    `tables` hold these topologies only. Where a call raises, each half is asked again, the largest part
    first, so that one topology does not cost the others their answers; after MOST_CALLS or SEARCH_SECONDS
    the rest is given up. A planner that takes too long or returns no such table loses the whole batch.
    """
    answers: list[Any] = []
    wrong = [NO_VIOLATION]
    parts = deque([topologies])
    failed: FailedPolicyError | None = None
    calls, end = 0, time.monotonic() + SEARCH_SECONDS
    while parts:
        part = parts.popleft()
        if failed is not None and (calls >= MOST_CALLS or time.monotonic() > end):
            given_up = [part, *parts]
            said = f"no answer: given up after {calls:,} calls, of which the last raised {failed}"
            wrong += [_violations(rest, Invariant.PLANNER_RAISED, said) for rest in given_up]
            break
        asked = tables if len(part) == len(topologies) else _only(tables, part)
        calls += 1
        try:
            answer = call_custom_planner(custom_planner, asked, seconds, read)
            _require_topologies(answer, part)
            answers.append(answer)
            continue
        except SchemaError as error:
            place = place_of_function(custom_planner.function)
            message = f"{error.message} ({place})" if place else error.message
            failed = FailedPolicyError(Invariant.PLANNER_SCHEMA, message)
        except FailedPolicyError as error:
            failed = error
        if failed.rule is Invariant.PLANNER_RAISED and len(part) > 1:
            middle = len(part) // 2
            parts += [part[:middle], part[middle:]]
        else:
            wrong.append(_violations(part, failed.rule, str(failed)))
    return joined(answers), pl.concat(wrong)


_ALLOWED = {
    Invariant.PLANNER_RAISED: "an answer",
    Invariant.PLANNER_TIMED_OUT: "an answer within the time limit of a batch",
    Invariant.PLANNER_SCHEMA: "the columns of the decision",
}


def _violations(topologies: pl.Series, rule: Invariant, message: str) -> pl.DataFrame:
    """One violation for each topology of a part."""
    place = "the topology" if len(topologies) == 1 else f"a batch of {len(topologies):,} topologies"
    rows = pl.DataFrame({TOPOLOGY: topologies})
    return violations(rows, rule, pl.lit(place), pl.lit(message.removeprefix("found ")), _ALLOWED[rule])


def describe_raised(error: BaseException) -> str:
    """Class, message and place of what a planner has raised."""
    return f"{_said(error)}{_where(error)}"


def _said(error: BaseException) -> str:
    if isinstance(error, ProgramFailedError | PlannerEndedError):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # its __str__ raises too
        return type(error).__name__


def _where(error: BaseException) -> str:
    """The file and line of the planner that raised."""
    if isinstance(error, PlannerEndedError):  # whose text has them
        return ""
    place = place_of_error(error, apart=__file__)
    return f" ({place})" if place else ""


def _require_topologies(answer: Any, topologies: pl.Series) -> None:
    """SchemaError if a table of the answer has rows of topologies that were not asked about."""
    for rows in answer.values() if isinstance(answer, dict) else [answer]:
        strange = rows.filter(~pl.col(TOPOLOGY).is_in(topologies.implode()).fill_null(False))
        if len(strange):
            raise SchemaError(f"{TOPOLOGY}: found {strange[TOPOLOGY][0]}, allowed those that were given")


def _only(tables: Mapping[str, pl.DataFrame], topologies: pl.Series) -> dict[str, pl.DataFrame]:
    asked = pl.DataFrame({TOPOLOGY: topologies})
    return {name: rows.join(asked, on=TOPOLOGY, how="semi") for name, rows in tables.items()}


def joined(answers: list[Any]) -> Any:
    """Answers about different topologies as one; None of no answer."""
    given_answers = [answer for answer in answers if answer is not None]
    if not given_answers:
        return None
    if isinstance(given_answers[0], dict):
        names = dict.fromkeys(name for answer in given_answers for name in answer)
        return {
            name: pl.concat([answer_tables[name] for answer_tables in given_answers if name in answer_tables])
            for name in names
        }
    return pl.concat(given_answers)
