"""Run a program with the agent in its JVM, and read the agent's output."""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from penstock.engine.flink.capture.build_agent import JAR_NAME, build_agent, digest_in_jar, digest_of_sources
from penstock.engine.flink.plan_with_flink import flink_jars
from penstock.engine.machine.available_memory import is_checkout
from penstock.engine.machine.operating_system import with_parent
from penstock.plans.errors import ConfigurationError

# The jar of the capturing agent, and the environment that adds it to a JVM.


FILE = "PENSTOCK_CAPTURE_FILE"
NAME = "PENSTOCK_CAPTURE_NAME"
_MODE = "PENSTOCK_CAPTURE_MODE"
_PLANS = "PENSTOCK_CAPTURE_PLANS"
_REFUSALS = "PENSTOCK_CAPTURE_REFUSALS"
_OBSERVE = "observe"
JAVA_TOOL_OPTIONS = "JAVA_TOOL_OPTIONS"

_BUILD_AGAIN = "build Penstock again (pip install .); building needs a JDK"


def agent_jar() -> Path:
    """Return the jar built from the sources next to it; a checkout compiles it again if it is old.

    Raises ConfigurationError if it is missing, or was built from other sources, and cannot be compiled.
    """
    jar = Path(__file__).parents[1] / JAR_NAME
    if digest_in_jar(jar) == digest_of_sources():
        return jar
    if is_checkout():
        try:
            build_agent(flink_jars(), jar)
        except (RuntimeError, OSError) as error:
            raise ConfigurationError(
                f"the capturing agent cannot be compiled: {error}", _BUILD_AGAIN
            ) from error
        return jar
    problem = "was built from other sources than those next to it" if jar.is_file() else "does not exist"
    raise ConfigurationError(f"the capturing agent {jar} {problem}", _BUILD_AGAIN)


def with_agent(environment: Mapping[str, str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` with the agent, and these `settings` (variables), for every JVM."""
    others = {key: value for key, value in environment.items() if not key.startswith("PENSTOCK_CAPTURE_")}
    before = environment.get(JAVA_TOOL_OPTIONS, "")
    return others | dict(settings) | {JAVA_TOOL_OPTIONS: f"{before} {java_agent_option()}".strip()}


def java_agent_option() -> str:
    """Return Java's option, quoted for JAVA_TOOL_OPTIONS."""
    option = f"-javaagent:{agent_jar()}"
    return f'"{option}"' if any(map(str.isspace, option)) else option


def agent_exports(file: Path, observes: bool) -> list[str]:
    """Return shell lines that prepare a process, or an image, whose jobs are captured into `file`."""
    variables = {
        "PENSTOCK_CAPTURE_AGENT": str(agent_jar()),
        JAVA_TOOL_OPTIONS: java_agent_option(),
        FILE: os.path.abspath(file),
        **({_MODE: _OBSERVE} if observes else {}),
    }
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]


_FLINK_VERSION = "penstock.capture.flink-version"
_JOBS = "jobs"
_LOG_LINES = 12
_STACK_TRACE = re.compile(r"\s+(at |\.\.\. \d+ |[\w.$/<>]+\([^()]*\)$)").match
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_PICKED_UP = "Picked up JAVA_TOOL_OPTIONS:"
_ERROR = "[ERROR]"
_PROMPT = "Flink SQL> "
_SCRIPT_FAILED = "Run python process failed"
"""Flink's message after a PyFlink script's own error."""
_PRINTED_ERROR = re.compile(rf"(?:^|\x1b\[[0-9;]*m|^{_PROMPT}){re.escape(_ERROR)}", re.MULTILINE)
"""Flink's SQL client prints it on a line of its own, or coloured after a prompt or a statement."""


class CaptureResult(NamedTuple):
    """The outcome of a program's run.

    `before` are lines that were already in the file, `lines` its jobs, `plans` their plan JSON from
    Flink (if requested), `refusals` requests that were not fulfilled, `problem` the reason why the run is
    incomplete, `changed_file` how the program has changed one of the agent's files.
    """

    before: list[str]
    lines: list[str]
    plans: list[dict[str, Any]]
    refusals: list[str]
    problem: str | None
    log_tail: str
    changed_file: str | None = None

    @property
    def flink_version(self) -> str:
        """Return the version of Flink that made the first job's graph."""
        return str(orjson.loads(self.lines[0])["config"][_FLINK_VERSION])


def run_capture(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    *,
    name: str,
    before: Sequence[str] = (),
    observes: bool = False,
    verifies: bool = False,
    tells_errors: bool = False,
    verbose: bool = False,
) -> CaptureResult:
    """Run `command` until it ends, and capture its jobs under names that the lines `before` do not use.

    Files of the agent are written into `folder`. `tells_errors`: an [ERROR] in the output means that the
    command has failed, even if its exit code is 0. With `verbose` its output goes to standard error.
    """
    file, plans, refusals, log = (folder / name for name in (_JOBS, "plans", "refusals", "log"))
    file.write_text("".join(f"{line}\n" for line in before), encoding="utf-8")
    settings = {FILE: str(file), NAME: name, _REFUSALS: str(refusals)}
    if observes:
        settings[_MODE] = _OBSERVE
    if verifies:
        settings[_PLANS] = str(plans)
    with log.open("w+b") as out:  # read through this descriptor: the program can remove the file
        output = 2 if verbose and not tells_errors else out
        exit_code = subprocess.run(
            with_parent(list(command)),
            env=with_agent(environment, settings),
            stdin=None if verbose else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        ).returncode
        out.seek(0)
        output_text = out.read().decode(errors="replace")
    if verbose and tells_errors:
        os.write(2, _COLOUR.sub("", output_text).encode())
    printed_error = _PRINTED_ERROR.search(output_text) if tells_errors else None
    jobs, changed_jobs = _appended(file, list(before), _is_job)
    plan_lines, changed_plans = _appended(plans, [], _is_object)
    reasons, changed_refusals = _appended(refusals, [], _is_object)
    return CaptureResult(
        list(before),
        jobs,
        [orjson.loads(line) for line in plan_lines],
        [str(orjson.loads(line).get("reason")) for line in reasons],
        _problem(exit_code, output_text[: printed_error.end()] if printed_error else None),
        _tail(output_text[printed_error.end() - len(_ERROR) :] if printed_error else output_text),
        changed_jobs or changed_plans or changed_refusals,
    )


def _appended(path: Path, before: list[str], is_sound: Callable[[str], bool]) -> tuple[list[str], str | None]:
    """Return the whole lines that the agent has appended, and how the program changed the file, or None.

    The program knows the file from its environment. Lines after the first foreign one are left out.
    """
    own = f"it changed the file in which {path.name} are collected for Penstock"
    if not os.path.lexists(path):
        return [], f"{own}: it no longer exists" if path.name == _JOBS else None
    if path.is_symlink() or not path.is_file():  # reading a FIFO would wait
        return [], f"{own}: it is not a file any more"
    try:
        *lines, _ = path.read_bytes().decode(errors="replace").split("\n")
    except OSError as error:
        return [], f"{own}: {error.strerror}"
    if lines[: len(before)] != before:
        return [], f"{own}: the first lines have changed"
    appended = lines[len(before) :]
    sound = [*takewhile(is_sound, appended)]
    if len(sound) == len(appended):
        return sound, None
    return sound, f"{own}: line {len(before) + len(sound) + 1} is not from Penstock's agent"


def _is_object(line: str) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _is_job(line: str) -> bool:
    if not _is_object(line):
        return False
    job = orjson.loads(line)
    graph, config = job.get("stream_graph"), job.get("config")
    return isinstance(graph, dict) and isinstance(config, dict) and _FLINK_VERSION in config


def _problem(exit_code: int, until_error: str | None) -> str | None:
    if until_error is not None:
        statement = until_error.count(f"\n{_PROMPT}")
        where = f", in statement {statement} of the script" if statement else ""
        return f"Flink's SQL client stopped at an error{where}"
    return f"it ended with exit code {exit_code}" if exit_code else None


def _tail(log: str) -> str:
    """Return the last printed error with the following lines, else the last lines; for a script, its own."""
    lines = [
        line
        for line in _COLOUR.sub("", log).splitlines()
        if line.strip() and not _STACK_TRACE(line) and not line.startswith(_PICKED_UP)
    ]
    ends = [number for number, line in enumerate(lines) if number and line.endswith(_SCRIPT_FAILED)]
    lines = lines[: ends[0]] if ends else lines
    printed_error = [number for number, line in enumerate(lines) if line.startswith(_ERROR)]
    return "\n".join(lines[printed_error[-1] :][:_LOG_LINES] if printed_error else lines[-_LOG_LINES:])
