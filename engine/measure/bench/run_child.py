"""Measure in child processes; a crash or a timeout of a process is a result too."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from typing import Any, BinaryIO, NamedTuple

from penstock.engine.machine.available_memory import available_memory, import_root, memory_bytes
from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.machine.operating_system import (
    PARENT,
    machine_seconds,
    processor_seconds,
    resident_bytes,
)
from penstock.engine.machine.stop_on_signals import end_processes, process_tree, processes_of_session
from penstock.engine.measure.bench.planners import get_planner
from penstock.engine.output.redaction import redact

SAMPLE_SECONDS = 0.2
LOOK_SECONDS = 0.02

USED = ("cpu_seconds", "wall_seconds", "others_cores", "stolen_cores")
"""Fields of ResourceUse in the record of a measurement."""


def measure_planner_command(planner: str, *options: str) -> list[str]:
    """Return the command line of measure_planner."""
    launched = ["--launched", str(time.monotonic())]
    return python_command(
        "penstock.engine.measure.bench.measure_planner", "--planner", planner, *options, *launched
    )


def python_command(module: str, *options: str) -> list[str]:
    """Return the command line of a Penstock module in this Python, isolated from the working directory."""
    return [sys.executable, "-P", "-m", module, *options]


def python_environment() -> dict[str, str]:
    """Return the environment in which python_command finds this Penstock, also a checkout, and its parent."""
    root = str(import_root())
    path = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), PARENT: str(os.getpid())}


class Child(NamedTuple):
    """A process and its output; closing `files` removes everything temporary."""

    process: subprocess.Popen[bytes]
    stdout: BinaryIO
    stderr: BinaryIO
    files: ExitStack


def run_child(command: Sequence[str], timeout: float) -> dict[str, Any]:
    """Run a process without requests to its end; return its answer as request_of_child does."""
    child = start_child(command, subprocess.DEVNULL)
    try:
        return request_of_child(child, None, timeout)
    finally:
        end_child(child)


def start_child(command: Sequence[str], stdin: int = subprocess.PIPE) -> Child:
    """Start a process in a session of its own; end it with end_child."""
    with ExitStack() as files:
        stdout, stderr = (files.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        folder = files.enter_context(short_lived_folder("bench"))
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            env={**python_environment(), "TMPDIR": folder},
        )
        return Child(process, stdout, stderr, files.pop_all())


def request_of_child(child: Child, request: Sequence[str] | None, timeout: float) -> dict[str, Any]:
    """Return the JSON object that the process prints last, with the resources of its process tree meanwhile.

    `request` is written to the process as a line of JSON; its answer is the next object that is `done`. None
    waits for the end of the process. Resources are `peak_memory_bytes` and the names in USED, see
    ResourceUse.

    `failure` (error and message) is the process's own, or Timeout (seconds), Killed (signal) or Crashed (its
    last lines) if it did not get to `done`; the process is unusable then.
    """
    return _answer_of(child, None if request is None else _send_request(child, request), timeout)


def _send_request(child: Child, request: Sequence[str]) -> int:
    """Write a request to the process; return the size of its earlier output, for _answer_of."""
    printed_bytes = _size(child.stdout)
    assert child.process.stdin is not None
    with suppress(BrokenPipeError):  # it has ended, which is detected next
        child.process.stdin.write(f"{json.dumps(list(request))}\n".encode())
        child.process.stdin.flush()
    return printed_bytes


def _answer_of(child: Child, printed_bytes: int | None, timeout: float) -> dict[str, Any]:
    """Return the answer of request_of_child to a request that was sent; None waits for the process to end.

    Resources and `timeout` count from this call.
    """
    failure: dict[str, str] | None = None
    with watch_use(child.process.pid, SAMPLE_SECONDS) as use:
        try:
            if printed_bytes is None:
                waited_seconds = _wait(child.process, timeout)
                use.cpu_seconds = max(use.cpu_seconds, waited_seconds)
            else:
                _wait_for_answer(child, printed_bytes, timeout)
        except subprocess.TimeoutExpired:
            failure = {"error": "Timeout", "message": f"not done after {timeout:g} s"}
    answer = _last_object(_text(child.stdout, printed_bytes or 0))
    result = answer or {"start_up_seconds": None, "cold": None, "warm": [], "failure": None}
    if not result.pop("done", False) and failure is None:
        failure = _crash(child.process.wait(), _text(child.stderr, 0))
    result["failure"] = failure or result["failure"]
    result["peak_memory_bytes"] = max(use.peak_bytes, result.pop("own_peak_bytes", 0)) or None
    for name in USED:
        value = getattr(use, name)
        result[name] = None if value is None else round(value, 3)
    return result


def end_child(child: Child) -> None:
    """End the process tree, including processes that left its session, and remove its files."""
    process = child.process
    below = process_tree(process.pid) if process.poll() is None else set()
    end_processes(below | processes_of_session(process.pid))
    process.wait()
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
    child.files.close()


def _wait(process: subprocess.Popen[bytes], timeout: float) -> float:
    """Wait for the process; return CPU seconds of it and of the descendants that were waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process.wait(timeout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _wait_for_answer(child: Child, before: int, timeout: float) -> None:
    """Wait until the process has answered, or ended. Raises subprocess.TimeoutExpired."""
    until, looked = time.monotonic() + timeout, before
    while child.process.poll() is None:
        if _size(child.stdout) > looked:
            looked = _size(child.stdout)
            answer = _last_object(_text(child.stdout, before))
            if answer is not None and answer.get("done"):
                return
        if time.monotonic() > until:
            raise subprocess.TimeoutExpired(child.process.args, timeout)
        time.sleep(LOOK_SECONDS)


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _text(file: BinaryIO, start: int) -> str:
    """Read the output from `start`; the file's position, which the process shares, is unchanged."""
    return os.pread(file.fileno(), max(0, _size(file) - start), start).decode(errors="replace")


def _last_object(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            with suppress(json.JSONDecodeError):
                return dict(json.loads(line))
    return None


def _crash(code: int, words: str) -> dict[str, str]:
    last = redact("\n".join(line for line in words.splitlines()[-8:] if line.strip()))
    if code < 0:
        return {"error": "Killed", "message": f"by {signal.Signals(-code).name}\n{last}".strip()}
    return {"error": "Crashed", "message": f"exit code {code}\n{last}".strip()}


# Resources used by a process tree, and by other processes meanwhile.


@dataclass
class ResourceUse:
    """Largest resident memory of a process tree, and the observed CPU seconds (user and system) it used.

    `others_cores`: average cores busy with other processes; `stolen_cores`: cores that the host of a virtual
    machine gave to others. None if the system does not report it.
    """

    peak_bytes: int = 0
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    others_cores: float | None = None
    stolen_cores: float | None = None


@contextmanager
def watch_use(root: int, every: float) -> Iterator[ResourceUse]:
    """Yield the ResourceUse of process `root` and its descendants, sampled at interval `every` (seconds).

    Processes that ended count if their parents have waited for them.
    """
    use, stop = ResourceUse(), Event()
    began, before = time.monotonic(), machine_seconds()
    spent = sum(map(processor_seconds, process_tree(root)))

    def look() -> None:
        tree = process_tree(root)
        use.peak_bytes = max(use.peak_bytes, sum(map(resident_bytes, tree)))
        use.cpu_seconds = max(use.cpu_seconds, sum(map(processor_seconds, tree)) - spent)

    def look_again() -> None:
        while not stop.wait(every):
            look()

    thread = Thread(target=look_again, daemon=True)
    thread.start()
    try:
        yield use
    finally:
        stop.set()
        thread.join()
        look()
        use.wall_seconds = time.monotonic() - began
        after = machine_seconds()
        if before is not None and after is not None and use.wall_seconds > 0:
            busy, stolen = after.busy - before.busy, after.stolen - before.stolen
            use.others_cores = max(0.0, busy - use.cpu_seconds) / use.wall_seconds
            use.stolen_cores = max(0.0, stolen) / use.wall_seconds


# Planners in child processes: a new one for each measurement, or a reused one if it starts slowly.


RequestFunction = Callable[[str, Sequence[str]], dict[str, Any]]
"""Takes planner and options of measure_planner; returns the answer of request_of_child."""

StartFunction = Callable[[str, Sequence[str]], Callable[[], dict[str, Any]]]
"""Like RequestFunction, but returns a function that waits for the answer. The request is sent at once, or
when waiting if memory is short or a reused planner has no process yet."""

FREE_SHARE = 0.5
"""Reused processes are ended if less than this share of the memory is left for others."""


@contextmanager
def planner_processes(timeout: float) -> Iterator[tuple[RequestFunction, StartFunction]]:
    """Yield a request and a start function with `timeout` seconds per answer. Processes end with the block.

    A `reused` planner has one process for all requests, so that Spark starts, and its JVM warms up, once. A
    new process replaces a failed one.
    """
    reused: dict[str, Child] = {}
    at_work: dict[str, int] = {}
    begun: list[Child] = []

    def ask(planner: str, options: Sequence[str]) -> dict[str, Any]:
        if planner not in reused and is_short_of_memory():
            end_idle()
        if not get_planner(planner).reused:
            return run_child(measure_planner_command(planner, *options), timeout)
        if planner not in reused:
            reused[planner] = start_child(measure_planner_command(planner, "--requests"))
        at_work[planner] = _send_request(reused[planner], options)
        return answer_of_reused(planner)

    def answer_of_reused(planner: str) -> dict[str, Any]:
        answer = _answer_of(reused[planner], at_work.pop(planner), timeout)
        if answer["failure"]:
            end_child(reused.pop(planner))
        return answer

    def is_short_of_memory() -> bool:
        return available_memory().size_bytes < FREE_SHARE * memory_bytes()

    def begin(planner: str, options: Sequence[str]) -> Callable[[], dict[str, Any]]:
        if is_short_of_memory() or (get_planner(planner).reused and planner not in reused):
            return lambda: ask(planner, options)
        if planner in reused:
            at_work[planner] = _send_request(reused[planner], options)
            return partial(answer_of_reused, planner)
        child = start_child(measure_planner_command(planner, *options), subprocess.DEVNULL)
        begun.append(child)

        def wait() -> dict[str, Any]:
            try:
                return request_of_child(child, None, timeout)
            finally:
                begun.remove(child)
                end_child(child)

        return wait

    def end_idle() -> None:
        for planner in set(reused) - set(at_work):
            end_child(reused.pop(planner))

    try:
        yield ask, begin
    finally:
        for child in (*reused.values(), *begun):
            end_child(child)
