"""Answer calls in the process of a custom planner.

`python -m penstock.engine.planning.answer_planner_calls NAME` first writes a line of JSON (its functions, or
an error), then answers calls. A call arrives on standard input as a line of JSON and one Arrow stream for
each table; the answer has the same form.
"""

import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir, suppress
from functools import cache
from typing import Any, BinaryIO

import polars as pl
import pyarrow as pa

from penstock.engine.machine.available_memory import available_memory, shown_bytes
from penstock.engine.machine.operating_system import end_first_if_memory_is_short
from penstock.engine.planning.find_custom_planners import find_planners_here, place_of_function
from penstock.engine.planning.plan_by_custom_planners import describe_raised
from penstock.engine.planning.planner_process import read_table, write_table
from penstock.engine.planning.planner_program import PlannerProgram
from penstock.plans.custom_planners.check_answer import reader_of
from penstock.plans.errors import ConfigurationError, SchemaError
from penstock.plans.frames.polars_frames import from_arrow

_LEAST_BYTES = 2**30


def main() -> None:
    """Write the greeting, then answer calls until the input ends."""
    calls, answers = _private_pipes()
    _end_with(os.getppid())
    _limit_memory()
    (name,) = sys.argv[1:]
    try:
        planners = find_planners_here(name)
    except ConfigurationError as error:
        _send(answers, {"error": error.message, "hint": error.hint})
        return
    described = [
        {
            "decision": planner.decision.value,
            "reads": planner.reads,
            "layer": planner.layer.value,
            "module": planner.function.__module__,
            "files": list(planner.function.files()) if isinstance(planner.function, PlannerProgram) else [],
            "place": place_of_function(planner.function),
        }
        for planner in planners
    ]
    _send(answers, {"error": None, "functions": described})
    while line := calls.readline():
        call = json.loads(line)
        tables = {table: read_table(calls) for table in call["tables"]}
        answer, streams = _answer(planners[call["function"]], tables)
        _send(answers, answer)
        for stream in streams:
            write_table(answers, stream)
        answers.flush()
    os._exit(0)  # does not wait for threads of the planner that still run


def _answer(planner: Any, tables: Mapping[str, pa.Table]) -> tuple[dict[str, Any], Sequence[pa.Table]]:
    """Return the header and the tables of an answer."""
    header: dict[str, Any] = {"error": None, "is_schema": False, "is_dict": False, "tables": []}
    try:
        arguments = {name: _argument(tables[name], arrow) for name, arrow in planner.reads.items()}
        with chdir(os.getcwd()):
            returned = _called(planner.function, arguments)
        answer = reader_of(planner.decision)(returned)
        frames = answer if isinstance(answer, dict) else {"": answer}
        arrow = [frame.to_arrow(compat_level=pl.CompatLevel.oldest()) for frame in frames.values()]
        size_bytes, most_bytes = sum(table.nbytes for table in arrow), _memory_limit() // 4
        if size_bytes > most_bytes:
            raise SchemaError(
                f"an answer must be at most {shown_bytes(most_bytes)}, got {shown_bytes(size_bytes)}"
            )
        return {**header, "is_dict": isinstance(answer, dict), "tables": list(frames)}, arrow
    except SchemaError as error:
        return {**header, "error": error.message, "is_schema": True}, []
    except BaseException as error:
        return {**header, "error": describe_raised(error)}, []


def _called(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return the planner's result. A process that the planner forks ends here: only this one answers."""
    own = os.getpid()
    try:
        return function(**arguments)
    finally:
        if os.getpid() != own:
            os._exit(0)


def _argument(table: pa.Table, arrow: bool) -> Any:
    return table if arrow else from_arrow(table)


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Duplicate standard input and output, and redirect a planner's output to standard error."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return calls, answers


def _end_with(parent: int) -> None:
    """End when the parent has ended. It polls: a parent-death signal would follow one of its threads."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


@cache
def _memory_limit() -> int:
    """Return the memory that was available when the process started, in bytes."""
    return max(_LEAST_BYTES, available_memory().size_bytes)


def _limit_memory() -> None:
    """Make exceeding the memory an error of the planner, and this process the first that the kernel ends."""
    with suppress(ValueError, OSError):
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (_memory_limit(), most))
    end_first_if_memory_is_short()


def _send(answers: BinaryIO, message: Mapping[str, Any]) -> None:
    answers.write(f"{json.dumps(message)}\n".encode())
    answers.flush()


if __name__ == "__main__":
    main()
