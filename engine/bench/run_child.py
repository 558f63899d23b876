"""One measurement in a separate process; a crash or a timeout of that process is a result too."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from engine.bench.watch_use import watch_use
from engine.machine.die_with_parent import PARENT
from engine.machine.end_processes import end_processes, process_tree, processes_of_session
from engine.output.redaction import redact

SAMPLE_SECONDS = 0.2

USED = ("cpu_seconds", "wall_seconds", "others_cores", "stolen_cores")
"""Of Use, in a record of a measurement."""


def measure_planner_command(planner: str, *options: str) -> list[str]:
    """The command line of engine.bench.measure_planner."""
    launched = ["--launched", str(time.monotonic())]
    return python_command("engine.bench.measure_planner", "--planner", planner, *options, *launched)


def python_command(module: str, *options: str) -> list[str]:
    """The command line of a module of Penstock: this Python, without what lies in the working directory."""
    return [sys.executable, "-P", "-m", module, *options]


def python_environment() -> dict[str, str]:
    """The environment in which python_command finds this very Penstock, a checkout too, and its parent."""
    root = str(Path(__file__).resolve().parents[2])
    path = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), PARENT: str(os.getpid())}


def run_child(command: Sequence[str], timeout: float) -> dict[str, Any]:
    """The JSON object that `command` prints last, with what its process tree used.

    That is `peak_memory_bytes` and the names in USED, as Use describes them.

    `failure` (error and message) is set where the process says so, and to Timeout (seconds), Killed (signal)
    or Crashed (its last words) where it did not get to `done`. All below the process is ended with it, and
    its temporary files are removed.
    """
    with (
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as complained,
        tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as folder,
    ):
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=complained,
            start_new_session=True,
            env={**python_environment(), "TMPDIR": folder},
        )
        failure = None
        try:
            with watch_use(child.pid, SAMPLE_SECONDS) as use:
                code, waited_seconds = _wait(child, timeout)
                use.cpu_seconds = max(use.cpu_seconds, waited_seconds)
        except subprocess.TimeoutExpired:
            code, failure = -1, {"error": "Timeout", "message": f"not done after {timeout:g} s"}
        finally:
            _end(child)
        said.seek(0)
        complained.seek(0)
        found = _last_object(said.read().decode(errors="replace"))
        words = complained.read().decode(errors="replace")
    result = found or {"start_up_seconds": None, "cold": None, "warm": [], "failure": None}
    if not result.pop("done", False) and failure is None:
        failure = _crash(code, words)
    result["failure"] = failure or result["failure"]
    result["peak_memory_bytes"] = max(use.peak_bytes, result.pop("own_peak_bytes", 0)) or None
    for name in USED:
        value = getattr(use, name)
        result[name] = None if value is None else round(value, 3)
    return result


def _wait(child: subprocess.Popen[bytes], timeout: float) -> tuple[int, float]:
    """The exit code, and CPU seconds of the process and of those below it that were waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = child.wait(timeout)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return code, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the process and all below it: its session, and those that left its session."""
    below = process_tree(child.pid) if child.poll() is None else set()
    end_processes(below | processes_of_session(child.pid))
    child.wait()


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
