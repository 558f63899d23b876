"""Loops are compiled once in an installation, and who waits for it is told."""

import io
import os
import pickle
import subprocess
import sys
from contextlib import redirect_stderr
from pathlib import Path

import numba
import numpy as np
import pytest
from rich.console import Console

from penstock.engine.output.progress import progress
from penstock.plans.frames import compiled as module
from tests.project.test_session import ROOT


def fill(out):
    for place in range(len(out)):
        out[place] = place


def test_an_index_that_names_classes_that_have_gone_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    out = np.zeros(3, np.int64)
    module._compile.__wrapped__(fill)(out)
    (index,) = tmp_path.rglob("*.nbi")
    index.write_bytes(pickle.dumps(numba.__version__) + b"cpenstock.no_such_module\nGone\n.")
    again = module._compile.__wrapped__(fill)
    out[:] = 0
    again(out)
    assert out.tolist() == [0, 1, 2]


class Stream(io.StringIO):
    terminal = True

    def isatty(self):
        return self.terminal


@pytest.fixture
def stderr(tmp_path, monkeypatch):
    """A person's terminal, and a process that has compiled nothing."""
    module._print_compiling.cache_clear()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(fill, "__module__", "penstock.plans.metrics")
    yield Stream()
    module._print_compiling.cache_clear()


def compile_anew(array, stderr):
    with redirect_stderr(stderr):
        module._compile.__wrapped__(fill)(array)
    return array.tolist()


@pytest.mark.slow
def test_who_waits_for_loops_to_be_compiled_is_told_once(stderr, monkeypatch):
    monkeypatch.setattr(fill, "__module__", "a_planner_of_a_user")
    compile_anew(np.zeros(2, np.int64), stderr)
    monkeypatch.setattr(fill, "__module__", "penstock.plans.metrics")
    compile_anew(np.zeros(2, np.int64), stderr)  # that was kept
    monkeypatch.setattr(Stream, "terminal", False)
    compile_anew(np.zeros(2, np.int32), stderr)
    assert stderr.getvalue() == ""
    module._print_compiling.cache_clear()
    monkeypatch.setattr(Stream, "terminal", True)
    assert [compile_anew(np.zeros(2, kind), stderr) for kind in (np.int16, np.int8)] == [[0, 1]] * 2
    assert stderr.getvalue() == f"{module.COMPILING}\n"


def test_the_progress_says_that_loops_are_compiled(stderr):
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system=None)
    with progress(1, console=console) as report:
        report("plan")
        compile_anew(np.zeros(2, np.int64), stderr)
    assert (stderr.getvalue(), out.getvalue().count(module.COMPILING)) == ("", 1)


def test_code_that_others_may_have_kept_is_not_read(tmp_path, monkeypatch):
    def trusted(mode):
        tmp_path.chmod(mode)
        return module._is_trusted(tmp_path, Path("/none/a.py"))

    assert [trusted(mode) for mode in (0o700, 0o755, 0o775, 0o757)] == [True, True, True, False]
    assert module._is_trusted(tmp_path, tmp_path.parent / "a.py")
    monkeypatch.setattr("os.getegid", lambda: tmp_path.stat().st_gid + 1)
    assert [trusted(mode) for mode in (0o755, 0o775)] == [True, False]
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    assert not trusted(0o700)


PLAN_A_FLEET = """
import json, sys
from pathlib import Path
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames import compiled
compiled.compiling_listeners.append(print)
compiled.SHIPPED = Path(sys.argv[1])
compiled.compile_always()
transformations = [
    {"id": 1, "kind": "source"},
    {"id": 2, "kind": "one_input", "inputs": [1], "parallelism": 2},
    {"id": 3, "kind": "sink", "inputs": [2]},
]
fleet = [{"name": f"t{number}", "transformations": transformations} for number in range(2000)]
plan_in_process(fleet)
Path("fleet.jsonl").write_text("".join(json.dumps(topology) + "\\n" for topology in fleet))
plan_in_process("fleet.jsonl")
"""


@pytest.mark.slow
def test_loops_that_were_compiled_ahead_are_not_compiled_by_a_fleet(tmp_path):
    def python(cache: str, *arguments: str) -> str:
        (tmp_path / cache).mkdir(exist_ok=True)
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / cache), "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    shipped = str(tmp_path / "loops")
    assert python("ahead", "-m", "penstock.engine.planning.compile_loops", shipped) == ""
    assert len(list(tmp_path.rglob("*.nbi"))) > 20
    assert python("ahead", "-c", PLAN_A_FLEET, "none") == ""
    # as out of a wheel, in a new installation; what is loaded is cached for later processes
    assert python("new", "-c", PLAN_A_FLEET, shipped) == ""
    assert len(list((tmp_path / "new").rglob("*.nbc"))) > 10
    assert python("new", "-c", PLAN_A_FLEET, "none") == ""


def test_loops_of_another_python_or_numba_are_not_used(tmp_path, monkeypatch):
    module._shipped.cache_clear()
    monkeypatch.setattr(module, "SHIPPED", tmp_path / "loops")
    assert module._shipped() == {}
    for key, loops in (("cpython-310, numba 0.1, linux x86_64", {}), (module.shipped_key(), {"a": []})):
        (tmp_path / "loops").write_bytes(pickle.dumps({"key": key, "a": []}))
        module._shipped.cache_clear()
        assert module._shipped() == loops
    module._shipped.cache_clear()
