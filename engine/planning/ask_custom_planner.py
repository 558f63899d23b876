"""Asking a custom planner about a batch of topologies, within a time limit."""

import ctypes
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import chdir, redirect_stdout
from typing import Any

import polars as pl

from penstock.engine.planning.find_custom_planners import CustomPlanner, place_of_error, place_of_function
from penstock.engine.planning.planner_program import PlannerProgram, ProgramFailedError
from penstock.plans.custom_planners.find_omissions import NO_VIOLATION, Invariant, violations
from penstock.plans.errors import SchemaError
from penstock.plans.tables.column_types import TOPOLOGY

MOST_CALLS = 64
"""Calls for one batch: halves of what raised are tried, to find the topologies that it raises for."""

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
    arguments = {
        name: tables[name].to_arrow(compat_level=pl.CompatLevel.oldest()) if arrow else tables[name].clone()
        for name, arrow in custom_planner.reads.items()
    }
    returned: list[Any] = []
    raised: list[SchemaError | FailedPolicyError] = []

    def run() -> None:
        try:
            returned.append(read(custom_planner.function(**arguments)))
        # Only texts are kept: the exception would keep all that the planner holds.
        except SchemaError as error:
            raised.append(SchemaError(error.message))
        except BaseException as error:
            raised.append(FailedPolicyError(Invariant.PLANNER_RAISED, f"{_said(error)}{_where(error)}"))

    thread = threading.Thread(target=run, name=f"planner {custom_planner.name}", daemon=True)
    with redirect_stdout(sys.stderr), chdir(os.getcwd()):
        thread.start()
        thread.join(seconds)
    if returned:
        return returned[0]
    if raised:
        raise raised[0]
    if isinstance(custom_planner.function, PlannerProgram):
        custom_planner.function.stop()
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    )
    raise FailedPolicyError(
        Invariant.PLANNER_TIMED_OUT,
        f"no answer within {seconds:g} s ({place_of_function(custom_planner.function)})",
    )


def ask_custom_planner(
    custom_planner: CustomPlanner,
    tables: Mapping[str, pl.DataFrame],
    topologies: pl.Series,
    seconds: float,
    read: Any,
    calls: list[int] | None = None,
) -> _Answer:
    """The answer about `topologies` as `read` (returned to table) gives it, and violations of those without.

    `tables` hold these topologies only. Where a call raises, each half is asked again, so that one topology
    does not cost the others their answers; a planner that takes too long or returns no such table loses the
    whole batch.
    """
    calls = [0] if calls is None else calls
    calls[0] += 1
    try:
        answer = call_custom_planner(custom_planner, tables, seconds, read)
        _require_topologies(answer, topologies)
        return answer, NO_VIOLATION
    except SchemaError as error:
        place = place_of_function(custom_planner.function)
        failed = FailedPolicyError(
            Invariant.PLANNER_SCHEMA, f"{error.message} ({place})" if place else error.message
        )
    except FailedPolicyError as error:
        failed = error
    if failed.rule is Invariant.PLANNER_RAISED and len(topologies) > 1 and calls[0] < MOST_CALLS:
        middle = len(topologies) // 2
        halves = [
            ask_custom_planner(custom_planner, _only(tables, half), half, seconds, read, calls)
            for half in (topologies[:middle], topologies[middle:])
        ]
        return joined([answer for answer, _ in halves]), pl.concat([wrong for _, wrong in halves])
    rows = pl.DataFrame({TOPOLOGY: topologies})
    allowed = {
        Invariant.PLANNER_RAISED: "an answer",
        Invariant.PLANNER_TIMED_OUT: "an answer within the time limit of a batch",
        Invariant.PLANNER_SCHEMA: "the columns of the decision",
    }[failed.rule]
    wrong = violations(
        rows,
        failed.rule,
        pl.lit("the batch of the topology"),
        pl.lit(str(failed).removeprefix("found ")),
        allowed,
    )
    return joined([]), wrong


def _said(error: BaseException) -> str:
    if isinstance(error, ProgramFailedError):
        return str(error)
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # its __str__ raises too
        return type(error).__name__


def _where(error: BaseException) -> str:
    """The file and line of the planner that raised."""
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
