"""Runs a program with the agent in its JVM, and reads what the agent has written."""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from penstock.engine.flink.capture.agent_jar import FILE, MODE, NAME, OBSERVE, PLANS, REFUSALS, with_agent
from penstock.engine.machine.die_with_parent import with_parent

_LOG_LINES = 12
_STACK_TRACE = re.compile(r"\s+(at |\.\.\. \d+ |[\w.$/<>]+\([^()]*\)$)").match
_COLOUR = re.compile("\x1b\\[[0-9;]*m")
_PICKED_UP = "Picked up JAVA_TOOL_OPTIONS:"
_ERROR = "[ERROR]"
_PROMPT = "Flink SQL> "
_SCRIPT_FAILED = "Run python process failed"
"""What Flink says after a PyFlink script's own error."""
_TOLD_ERROR = re.compile(rf"(?:^|\x1b\[[0-9;]*m|^{_PROMPT}){re.escape(_ERROR)}", re.MULTILINE)
"""As Flink's SQL client tells it: on a line of its own, or coloured after a prompt or a statement."""


class Captured(NamedTuple):
    """The outcome of a program's run.

    `before` are lines that were in the file already, `lines` those of its jobs, `plans` Flink's plan JSON of
    them (if asked for), `refusals` what was asked for and not done, `problem` why the run is not complete.
    """

    before: list[str]
    lines: list[str]
    plans: list[dict[str, Any]]
    refusals: list[str]
    problem: str | None
    log_tail: str

    @property
    def flink_version(self) -> str:
        """The Flink that made the first job's graph."""
        return str(orjson.loads(self.lines[0])["config"]["penstock.capture.flink-version"])


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
) -> Captured:
    """Run `command` until it ends; its jobs are captured, named apart from those of the lines `before`.

    Files of the agent are written into `folder`. `tells_errors`: an [ERROR] that it prints means that the
    command has failed, whatever its exit code. With `verbose` its output goes to standard error.
    """
    file, plans, refusals, log = (folder / name for name in ("jobs", "plans", "refusals", "log"))
    file.write_text("".join(f"{line}\n" for line in before), encoding="utf-8")
    settings = {FILE: str(file), NAME: name, REFUSALS: str(refusals)}
    if observes:
        settings[MODE] = OBSERVE
    if verifies:
        settings[PLANS] = str(plans)
    with log.open("wb") as out:
        output = 2 if verbose and not tells_errors else out
        exit_code = subprocess.run(
            with_parent(list(command)),
            env=with_agent(environment, settings),
            stdin=None if verbose else subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        ).returncode
    said = log.read_text(encoding="utf-8", errors="replace")
    if verbose and tells_errors:
        os.write(2, _COLOUR.sub("", said).encode())
    told = _TOLD_ERROR.search(said) if tells_errors else None
    return Captured(
        list(before),
        _whole_lines(file)[len(before) :],
        [orjson.loads(line) for line in _whole_lines(plans)],
        [str(orjson.loads(line)["reason"]) for line in _whole_lines(refusals)],
        _problem(exit_code, said[: told.end()] if told else None),
        _tail(said[told.end() - len(_ERROR) :] if told else said),
    )


def _whole_lines(path: Path) -> list[str]:
    """The lines that were written to their end."""
    if not path.is_file():
        return []
    return path.read_text(encoding="utf-8").split("\n")[:-1]


def _problem(exit_code: int, until_error: str | None) -> str | None:
    if until_error is not None:
        statement = until_error.count(f"\n{_PROMPT}")
        where = f", in statement {statement} of the script" if statement else ""
        return f"Flink's SQL client stopped at an error{where}"
    return f"it ended with exit code {exit_code}" if exit_code else None


def _tail(log: str) -> str:
    """The last error that was told, and what follows, else the last lines; of a script its own."""
    lines = [
        line
        for line in _COLOUR.sub("", log).splitlines()
        if line.strip() and not _STACK_TRACE(line) and not line.startswith(_PICKED_UP)
    ]
    ends = [number for number, line in enumerate(lines) if number and line.endswith(_SCRIPT_FAILED)]
    lines = lines[: ends[0]] if ends else lines
    told = [number for number, line in enumerate(lines) if line.startswith(_ERROR)]
    return "\n".join(lines[told[-1] :][:_LOG_LINES] if told else lines[-_LOG_LINES:])
