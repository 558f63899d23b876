"""Scripts for PyFlink are planned as they are, in all their modes and parallelisms."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.pyflink.datastream.environment_options import (
    JobCaptured,
)
from penstock.engine.run.lowering.transformations import Job, topology_of
from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext, use_context

SHARED = Path(__file__).parents[3] / "pyflink"
PROLOGUE, EPILOGUE, CASES = (
    (SHARED / name).read_text(encoding="utf-8") for name in ("prologue.txt", "epilogue.txt", "cases.txt")
)


def scripts() -> Iterator[tuple[str, str, str, str]]:
    for part in re.split(r"^### ", CASES, flags=re.MULTILINE)[1:]:
        head, body = part.split("\n", 1)
        name, modes = (text.strip() for text in head.split("|"))
        for run in modes.split(", "):
            yield name, *run.split(), PROLOGUE + body.rstrip() + "\n" + EPILOGUE


@pytest.mark.slow
@pytest.mark.usefixtures("hook")
@pytest.mark.parametrize(
    ("name", "mode", "parallelism", "script"),
    [pytest.param(*one, id="-".join(one[:3])) for one in scripts()],
)
def test_a_script_is_planned(
    name: str, mode: str, parallelism: str, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    captured: list[Job] = []
    monkeypatch.setattr(sys, "argv", [name, mode, parallelism])
    with use_context(RunContext(settings=EnvironmentSettings(captured=captured))), pytest.raises(JobCaptured):
        exec(compile(script, name, "exec"), {"__name__": "__main__"})
    (job,) = captured
    assert job.batch == (mode == "BATCH")
    assert job.parallelism == int(parallelism)
    planned = plan_in_process([topology_of(job)])
    assert planned.tables["rejected"].to_pylist() == []
    asked = {one.name: one.parallelism for one in job.transformations if one.parallelism is not None}
    for node in planned.tables["stream_nodes"].to_pylist():
        bare = node["name"].removeprefix("Source: ").removeprefix("Sink: ")
        if bare in asked and list(asked).count(bare) == 1:
            assert node["parallelism"] in {
                one.parallelism or int(parallelism) for one in job.transformations if one.name == bare
            }
