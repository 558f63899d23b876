"""Run a named custom planner in its own process, so that only this ends, breaks or blocks with it."""

import atexit
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from penstock.plans.errors import ConfigurationError, SchemaError

_MOST_RUNNING = 4
"""Processes that stay alive for the next call."""

_SECONDS_TO_START = 600.0
"""A module may load a model before it can decide."""


class PlannerEndedError(Exception):
    """The process of a planner ended without an answer, or the planner raised; the text is the reason."""


class PlannerProcess:
    """The process of the planner `name`, which is started once and answers call after call.

    A class because it holds a process. Raises ConfigurationError if the planner cannot be loaded.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._path = [os.getcwd() if folder == "" else folder for folder in sys.path]
        self._folder = os.getcwd()
        self._process: subprocess.Popen[bytes] | None = None
        self.greeting = self._start()
        atexit.register(self.stop)

    def call(self, place: int, tables: Mapping[str, pa.Table]) -> Any:
        """Return the answer (an Arrow table, or a dict of tables) of the planner's function number `place`.

        Raises SchemaError if the answer is malformed, and PlannerEndedError.
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
                streams = [read_table(process.stdout) for _ in answer["tables"]]
        except (pa.ArrowException, OSError, ValueError):
            raise PlannerEndedError(self._end(process)) from None
        writer.join()
        if answer["error"] is not None:
            raise (SchemaError if answer["is_schema"] else PlannerEndedError)(answer["error"])
        return dict(zip(answer["tables"], streams, strict=True)) if answer["is_dict"] else streams[0]

    def stop(self) -> None:
        """Kill the process and its children; the next call starts it again."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]

    def _end(self, process: "subprocess.Popen[bytes]") -> str:
        """Return why `process` did not answer. A newer process, if started since, goes on."""
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(1)
        if self._process is process:
            self.stop()
        if code is None:
            return "its process wrote output that is not an answer"
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"its process ended ({ended}) without an answer"

    def _start(self) -> dict[str, Any]:
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "penstock.engine.planning.answer_planner_calls", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self._folder if os.path.isdir(self._folder) else "/",
            env={**os.environ, "PYTHONPATH": os.pathsep.join(self._path)},
            start_new_session=True,
        )
        timer = threading.Timer(_SECONDS_TO_START, process.kill)
        timer.daemon = True  # an interrupted command does not wait for it
        timer.start()
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
        except BaseException:  # an interrupt: no other code knows this process yet and could end it
            self.stop()
            raise
        finally:
            timer.cancel()
        try:
            greeting: dict[str, Any] = json.loads(line)
        except ValueError:
            raise ConfigurationError(
                f"--planner {self.name}: the planner cannot be loaded: {self._end(process)}",
                "package.module:function, importable here or in the working folder",
            ) from None
        if greeting["error"] is not None:
            self.stop()
            raise ConfigurationError(greeting["error"], greeting["hint"])
        return greeting


class RemoteFunction:
    """A function of a planner, called in the planner's process.

    A class because it is callable and knows where the function is defined. Pickled, it is a name and number.
    """

    def __init__(self, name: str, place: int) -> None:
        self.name, self.place = name, place
        described = process_of(name).greeting["functions"][place]
        self.__module__ = described["module"]
        self.described = described

    def __call__(self, **tables: pa.Table) -> Any:
        """Return the answer about a batch. Raises SchemaError and PlannerEndedError."""
        return process_of(self.name).call(self.place, tables)

    def stop(self) -> None:
        """End the planner's process."""
        process_of(self.name).stop()

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFunction, (self.name, self.place)


_running: dict[tuple[Any, ...], PlannerProcess] = {}


def process_of(name: str) -> PlannerProcess:
    """Return the process of a planner, started if necessary; beyond _MOST_RUNNING the least used one ends."""
    key = (name, os.getcwd(), tuple(sys.path), _modified(name))
    process = _running.pop(key, None) or PlannerProcess(name)
    _running[key] = process
    for oldest in list(_running)[:-_MOST_RUNNING]:
        _running.pop(oldest).stop()
    return process


def _modified(name: str) -> float:
    """Return when the planner's module was last modified, because a changed module is loaded again."""
    module = name.partition(":")[0].partition(".")[0]
    with suppress(ImportError, ValueError, AttributeError, OSError):
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            return os.stat(spec.origin).st_mtime
    return 0.0


def _write(pipe: Any, place: int, tables: Mapping[str, pa.Table]) -> None:
    """Write a call. If the process has ended, the missing answer shows it."""
    with suppress(OSError, ValueError, pa.ArrowException):
        pipe.write(f"{json.dumps({'function': place, 'tables': list(tables)})}\n".encode())
        for table in tables.values():
            write_table(pipe, table)
        pipe.flush()


def write_table(pipe: Any, table: pa.Table) -> None:
    """Write a table as an Arrow IPC stream."""
    with pa.ipc.new_stream(pa.PythonFile(pipe, mode="w"), table.schema) as stream:
        stream.write_table(table)


def read_table(pipe: Any) -> pa.Table:
    """Read an Arrow IPC stream to its end, and no further."""
    with pa.ipc.open_stream(pa.PythonFile(pipe, mode="r")) as reader:
        return reader.read_all()
