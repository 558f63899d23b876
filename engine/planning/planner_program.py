"""Use a program in any language as a custom planner.

It reads tables from standard input and writes decisions; docs/custom-planners.md describes the protocol.
"""

import atexit
import inspect
import os
import select
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, ValidationError

from penstock.plans.custom_planners.decisions import ATTRIBUTE, Decision
from penstock.plans.errors import ConfigurationError
from penstock.plans.printable import printable

PREFIX = "program:"
"""Prefix of a planner's name that is a program's command line."""

SECONDS_TO_GREET = 60.0
_MOST_GREETING_BYTES = 1 << 16
_LAST_LINES = 5
_DEVICE_SECONDS = b"penstock.device_seconds"


class Greeting(BaseModel):
    """The first line of a program's output, JSON that it writes once it is ready."""

    model_config = ConfigDict(extra="forbid", strict=True)

    decides: str
    reads: list[str]
    device: str | None = None  #: the device it computes on, for results


class ProgramFailedError(Exception):
    """A program ended, or its answer is not an Arrow stream."""


class PlannerProgram:
    """A custom planner that calls a program, which is started once and answers batch after batch.

    Raises ConfigurationError if the program cannot be started, or does not write its decision and the tables
    that it reads within 60 seconds (docs/custom-planners.md).
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.command = tuple(command)
        self.name = PREFIX + shlex.join(self.command)
        self.device_seconds = 0.0  #: time on its device, as the program reports it
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self.greeting = self._start()
        atexit.register(self.stop)
        if self.greeting.decides not in set(Decision) - {Decision.PLAN}:
            allowed = ", ".join(decision for decision in Decision if decision is not Decision.PLAN)
            raise ConfigurationError(
                f"--planner {self.name}: `decides` must be one of {allowed}, got {self.greeting.decides!r}"
            )
        setattr(self, ATTRIBUTE, Decision(self.greeting.decides))
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(table, inspect.Parameter.KEYWORD_ONLY, annotation=pa.Table)
                for table in self._tables()
            ]
        )

    def _tables(self) -> list[str]:
        wrong = [table for table in self.greeting.reads if not table.isidentifier()]
        if wrong or len(set(self.greeting.reads)) < len(self.greeting.reads):
            raise ConfigurationError(
                f"--planner {self.name}: `reads` must name tables, each once, got {self.greeting.reads!r}"
            )
        return self.greeting.reads

    def __call__(self, **tables: pa.Table) -> pa.Table:
        """Return the program's answer about a batch.

        Raises ProgramFailedError; the next call starts the program again.
        """
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None
        _discard_extra_output(process)
        writer = threading.Thread(target=self._write, args=(process, tables), daemon=True)
        writer.start()
        try:
            assert process.stdout is not None
            with pa.ipc.open_stream(pa.PythonFile(process.stdout, mode="r")) as reader:
                answer = reader.read_all()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise ProgramFailedError(self._why(error)) from None
        writer.join()
        with suppress(KeyError, ValueError):
            self.device_seconds += float((answer.schema.metadata or {})[_DEVICE_SECONDS])
        return answer

    def stop(self) -> None:
        """Kill the program; the next call starts it again."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(OSError):  # with its child processes, which would hold its pipes open
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]

    def _start(self) -> Greeting:
        self._stderr_lines.clear()
        try:
            process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"--planner {self.name}: the program cannot be started: {error}",
                "program:COMMAND, a command line with the path of an executable program",
            ) from error
        self._process = process
        self._listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
        self._listener.start()
        line = self._first_line(process)
        try:
            return Greeting.model_validate_json(line)
        except ValidationError as error:
            wrong = error.errors()[0]
            self.stop()
            where = ".".join(map(str, wrong["loc"]))
            raise ConfigurationError(
                f"--planner {self.name}: the first line must be JSON, got "
                f"{line.decode(errors='replace')!r:.200}, {f'{where}: ' if where else ''}{wrong['msg']}"
                f"{self._last_lines()}",
                'for example {"decides": "chaining", "reads": ["stream_edges"]}',
            ) from None

    def _first_line(self, process: subprocess.Popen[bytes]) -> bytes:
        """Read the first line of a program's output byte by byte, because Arrow's stream follows it."""
        assert process.stdout is not None
        line, end = bytearray(), time.monotonic() + SECONDS_TO_GREET
        while len(line) < _MOST_GREETING_BYTES:
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                self.stop()
                raise ConfigurationError(
                    f"--planner {self.name}: no first line within {SECONDS_TO_GREET:g} s{self._last_lines()}"
                )
            byte = os.read(process.stdout.fileno(), 1)
            if byte in (b"", b"\n"):
                break
            line += byte
        return bytes(line)

    def _write(self, process: subprocess.Popen[bytes], tables: dict[str, pa.Table]) -> None:
        """Write a stream for each table. If the program has ended, the missing answer shows it."""
        with suppress(OSError, ValueError):
            assert process.stdin is not None
            for table in tables.values():
                with pa.ipc.new_stream(pa.PythonFile(process.stdin, mode="w"), table.schema) as stream:
                    stream.write_table(table)
            process.stdin.flush()

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Save the last lines of its standard error."""
        assert process.stderr is not None
        with process.stderr as written:
            while line := written.readline(_MOST_GREETING_BYTES):
                self._stderr_lines.append(printable(line.decode(errors="replace").rstrip()))

    def _why(self, error: Exception) -> str:
        process = self._process
        code = None
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(1)
        self.stop()
        if code is None:
            return f"its answer is not an Arrow IPC stream: {printable(str(error))}{self._last_lines()}"
        ended = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the program ended ({ended}) without an answer{self._last_lines()}"

    def _last_lines(self) -> str:
        self._listener.join(1)
        return f"; its last lines: {' / '.join(self._stderr_lines)}" if self._stderr_lines else ""

    def __reduce__(self) -> tuple[Any, ...]:
        return PlannerProgram, (self.command,)

    def files(self) -> Iterable[str]:
        """Return the program, and the arguments of its command line that are files."""
        words = [shutil.which(self.command[0]) or self.command[0], *self.command[1:]]
        return (path for path in words if os.path.isfile(path))


def _discard_extra_output(process: subprocess.Popen[bytes]) -> None:
    """Discard output that a program wrote after its last answer; it would pass for the next one."""
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    os.set_blocking(descriptor, False)
    try:
        while process.stdout.peek():  # type: ignore[attr-defined]
            process.stdout.read(len(process.stdout.peek()))  # type: ignore[attr-defined]
    finally:
        os.set_blocking(descriptor, True)


def planner_program(*command: str) -> PlannerProgram:
    """Start a program as a custom planner, for `penstock.plan(planner=…)`.

    The program is started once and answers batch after batch: tables come as Arrow IPC streams on its
    standard input, decisions go out on its standard output (protocol: docs/custom-planners.md). It ends with
    this process, or by `stop()`.

    Args:
        *command: The program and its arguments.

    Returns:
        PlannerProgram: A custom planner.

    Raises:
        ConfigurationError: The program cannot be started, or its greeting is not of the protocol.

    Examples:
        >>> penstock.planner_program("no-such-program")
        Traceback (most recent call last):
        penstock.plans.errors.ConfigurationError: ...
    """
    if not command or not all(isinstance(part, str) for part in command):
        types = ", ".join(type(part).__name__ for part in command) or "nothing"
        raise ConfigurationError(f"command must be strings (a program and its arguments), got {types}")
    return PlannerProgram(command)


@cache
def program_named(name: str) -> PlannerProgram:
    """Return the planner named `program:COMMAND`, started once per process. Raises ConfigurationError."""
    try:
        command = shlex.split(name.removeprefix(PREFIX))
    except ValueError as error:
        raise ConfigurationError(f"--planner {name}: {error}", "program:COMMAND") from None
    if not command:
        raise ConfigurationError(f"--planner {name}: a command is required", "program:COMMAND")
    return PlannerProgram(command)
