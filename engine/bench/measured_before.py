"""What an earlier run of the same benchmark, stopped or done, has measured."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.engine.bench.run_benchmarks import Turn
from penstock.engine.machine.replace_file import replace_file
from penstock.plans.errors import ConfigurationError, InputError

SETTINGS_FILE = "settings.json"
RECORDS_FILE = "results.jsonl"
SAME = ("suites", "planners", "until", "repeat_in_process", "timeout_seconds", "options", "versions")
"""Settings in which runs must agree for their measurements to stand side by side; not how often."""


def begin_anew(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write down what is measured, and forget what was."""
    for name, text in ((RECORDS_FILE, ""), (SETTINGS_FILE, f"{json.dumps(dict(settings), indent=1)}\n")):
        with replace_file(folder / name) as file:
            file.write(text.encode())


def measured_before(folder: Path, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records of results.jsonl in `folder`, the last line left out if it is not whole.

    Raises InputError where there is no earlier run, and ConfigurationError where it measured something else.
    """
    try:
        before = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
        settings = json.loads(json.dumps(dict(settings)))
        lines = (folder / RECORDS_FILE).read_bytes().split(b"\n")[:-1]
        found = [json.loads(line) for line in lines]
        differing = [key for key in SAME if before[key] != settings[key]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"--resume: {folder} holds no benchmark that goes on: {error}", "leave --resume out"
        ) from error
    if differing:
        said = "; ".join(f"{key}: {before[key]} then, {settings[key]} now" for key in differing)
        raise ConfigurationError(
            f"--resume: {folder} was measured otherwise: {said}",
            "give the same options again, or leave --resume out",
        )
    return found


def still_to_do(turns: Sequence[Turn], records: Sequence[Mapping[str, Any]]) -> list[Turn]:
    """The turns that have no record yet."""
    done = {(r["suite"], r["size"], r["planner"], r["repetition"]) for r in records}
    return [t for t in turns if (t.case.suite.name, t.case.size, t.planner, t.repetition) not in done]


def cut_off_last_line(folder: Path) -> None:
    """Leave whole lines only, so that the next one begins on a line of its own."""
    path = folder / RECORDS_FILE
    text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        with replace_file(path) as file:
            file.write(text[: text.rfind(b"\n") + 1])
