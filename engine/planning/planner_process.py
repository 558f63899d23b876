"""A custom planner that is named, in a process of its own: it can end, break or block only that process.

    python -m penstock.engine.planning.planner_process NAME SYS_PATH

The process greets with a line of JSON, and answers calls: a line of JSON and one Arrow stream for each
table come in, a line of JSON and one Arrow stream for each table of the answer go out.
"""

import atexit
import importlib.util
import json
import os
import resource
import signal
import subprocess
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
from penstock.plans.errors import ConfigurationError, SchemaError

_MOST_RUNNING = 4
"""Processes that are kept for the next call."""

_LEAST_BYTES = 2**30
_SECONDS_TO_START = 600.0
"""A module may load a model before it can decide."""


class PlannerEndedError(Exception):
    """The process of a planner ended without an answer, or the planner raised: the reason."""


class PlannerProcess:
    """The process of the planner `name`, which is started once and answers call after call.

    A class, since it holds a process. Raises ConfigurationError if the planner cannot be loaded.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._path = [os.getcwd() if folder == "" else folder for folder in sys.path]
        self._folder = os.getcwd()
        self._process: subprocess.Popen[bytes] | None = None
        self.greeting = self._start()
        atexit.register(self.stop)

    def call(self, place: int, tables: Mapping[str, pa.Table]) -> Any:
        """The answer of the planner's function number `place`: an Arrow table, or a dict of them.

        Raises SchemaError for an answer of another form, and PlannerEndedError.
        """
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        writer = threading.Thread(target=_write, args=(process.stdin, place, tables), daemon=True)
        writer.start()
        try:
            answer = json.loads(process.stdout.readline())
            if answer["error"] is None:
                streams = [_read_table(process.stdout) for _ in answer["tables"]]
        except (pa.ArrowException, OSError, ValueError):
            raise PlannerEndedError(self._end()) from None
        writer.join()
        if answer["error"] is not None:
            raise (SchemaError if answer["is_schema"] else PlannerEndedError)(answer["error"])
        return dict(zip(answer["tables"], streams, strict=True)) if answer["is_dict"] else streams[0]

    def stop(self) -> None:
        """End the process, whatever it does, with all that it has started; the next call starts it again."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]

    def _end(self) -> str:
        process, code = self._process, None
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(1)
        self.stop()
        if code is None:
            return "its process wrote something else than an answer"
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"its process ended ({ended}) without an answer"

    def _start(self) -> dict[str, Any]:
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "penstock.engine.planning.planner_process", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self._folder if os.path.isdir(self._folder) else "/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(self._path)},
            start_new_session=True,
        )
        timer = threading.Timer(_SECONDS_TO_START, process.kill)
        timer.start()
        assert process.stdout is not None
        line = process.stdout.readline()
        timer.cancel()
        try:
            greeting: dict[str, Any] = json.loads(line)
        except ValueError:
            raise ConfigurationError(
                f"--planner {self.name}: the planner cannot be loaded: {self._end()}",
                "package.module:function, importable here or in the working folder",
            ) from None
        if greeting["error"] is not None:
            self.stop()
            raise ConfigurationError(greeting["error"], greeting["hint"])
        return greeting


class RemoteFunction:
    """A function of a planner, called in the planner's process.

    A class, since it is callable and says where the function is. Pickled, it is its name and number.
    """

    def __init__(self, name: str, place: int) -> None:
        self.name, self.place = name, place
        described = process_of(name).greeting["functions"][place]
        self.__module__ = described["module"]
        self.described = described

    def __call__(self, **tables: pa.Table) -> Any:
        """The answer about a batch. Raises SchemaError and PlannerEndedError."""
        return process_of(self.name).call(self.place, tables)

    def stop(self) -> None:
        """End the planner's process."""
        process_of(self.name).stop()

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFunction, (self.name, self.place)


_running: dict[tuple[Any, ...], PlannerProcess] = {}


def process_of(name: str) -> PlannerProcess:
    """The process of a planner, started unless it runs; the least used of many ends."""
    key = (name, os.getcwd(), tuple(sys.path), _written(name))
    process = _running.pop(key, None) or PlannerProcess(name)
    _running[key] = process
    for oldest in list(_running)[:-_MOST_RUNNING]:
        _running.pop(oldest).stop()
    return process


def _written(name: str) -> float:
    """When the planner's module was written: one that has changed is loaded again."""
    module = name.partition(":")[0].partition(".")[0]
    with suppress(ImportError, ValueError, AttributeError, OSError):
        found = importlib.util.find_spec(module)
        if found is not None and found.origin is not None:
            return os.stat(found.origin).st_mtime
    return 0.0


def _write(pipe: Any, place: int, tables: Mapping[str, pa.Table]) -> None:
    """Write a call. If the process has ended, its missing answer shows it."""
    with suppress(OSError, ValueError, pa.ArrowException):
        pipe.write(f"{json.dumps({'function': place, 'tables': list(tables)})}\n".encode())
        for table in tables.values():
            _write_table(pipe, table)
        pipe.flush()


def _write_table(pipe: Any, table: pa.Table) -> None:
    with pa.ipc.new_stream(pa.PythonFile(pipe, mode="w"), table.schema) as stream:
        stream.write_table(table)


def _read_table(pipe: Any) -> pa.Table:
    with pa.ipc.open_stream(pa.PythonFile(pipe, mode="r")) as reader:
        return reader.read_all()


# The process itself.


def main() -> None:
    """Greet, then answer calls up to the end of the input."""
    calls, answers = _private_pipes()
    _end_with(os.getppid())
    _limit_memory()
    # What planners can patch is imported, and bound here, before they are.
    from penstock.engine.planning.find_custom_planners import find_planners_here

    (name,) = sys.argv[1:]
    try:
        planners = find_planners_here(name)
    except ConfigurationError as error:
        _say(answers, {"error": error.message, "hint": error.hint})
        return
    from penstock.engine.planning.find_custom_planners import place_of_function
    from penstock.engine.planning.planner_program import PlannerProgram

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
    _say(answers, {"error": None, "functions": described})
    while line := calls.readline():
        call = json.loads(line)
        tables = {table: _read_table(calls) for table in call["tables"]}
        answer, streams = _answer(planners[call["function"]], tables)
        _say(answers, answer)
        for stream in streams:
            _write_table(answers, stream)
        answers.flush()
    os._exit(0)  # threads that the planner has left behind do not count


def _answer(planner: Any, tables: Mapping[str, pa.Table]) -> tuple[dict[str, Any], Sequence[pa.Table]]:
    """The header and the tables of an answer."""
    from penstock.engine.planning.ask_custom_planner import describe_raised
    from penstock.plans.custom_planners.check_answer import reader_of

    header = {"error": None, "is_schema": False, "is_dict": False, "tables": []}
    try:
        arguments = {name: _argument(tables[name], arrow) for name, arrow in planner.reads.items()}
        with chdir(os.getcwd()):
            returned = _called(planner.function, arguments)
        answer = reader_of(planner.decision)(returned)
        frames = answer if isinstance(answer, dict) else {"": answer}
        arrow = [frame.to_arrow(compat_level=pl.CompatLevel.oldest()) for frame in frames.values()]
        size_bytes, most_bytes = sum(table.nbytes for table in arrow), _memory_limit() // 4
        if size_bytes > most_bytes:
            raise SchemaError(f"an answer of {shown_bytes(size_bytes)}, allowed {shown_bytes(most_bytes)}")
        return {**header, "is_dict": isinstance(answer, dict), "tables": list(frames)}, arrow
    except SchemaError as error:
        return {**header, "error": error.message, "is_schema": True}, []
    except BaseException as error:
        return {**header, "error": describe_raised(error)}, []


def _called(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """The value that the planner returns. A process that it forks ends here: only this one answers."""
    own = os.getpid()
    try:
        return function(**arguments)
    finally:
        if os.getpid() != own:
            os._exit(0)


def _argument(table: pa.Table, arrow: bool) -> Any:
    from penstock.plans.columnar.frames import from_arrow

    return table if arrow else from_arrow(table)


def _private_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output under other numbers; whatever a planner writes goes to standard error."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    return calls, answers


def _end_with(parent: int) -> None:
    """End when the parent has ended; asked again and again, since its threads come and go."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


@cache
def _memory_limit() -> int:
    """The memory that is available when the process starts."""
    return max(_LEAST_BYTES, available_memory().size_bytes)


def _limit_memory() -> None:
    """Too much memory is an error of the planner, not the end of other processes."""
    with suppress(ValueError, OSError):
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        resource.setrlimit(resource.RLIMIT_DATA, (_memory_limit(), most))
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")


def _say(answers: BinaryIO, message: Mapping[str, Any]) -> None:
    answers.write(f"{json.dumps(message)}\n".encode())
    answers.flush()


if __name__ == "__main__":
    main()
