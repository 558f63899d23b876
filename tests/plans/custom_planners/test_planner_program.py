"""Planners that are programs: they decide as functions do, and their faults cost them their batch."""

import shlex
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pyspark
import pytest

import penstock
from penstock.engine.measure.sweep.grid import code_of_planner
from penstock.plans.errors import ConfigurationError
from tests.plans.importing.imports import run
from tests.processes import is_alive

PROGRAM = Path(__file__).with_name("a_program.py")
JAVA = Path(penstock.__file__).parent / "engine/examples/NeverChain.java"


def named(*how):
    return f"program:{shlex.join([sys.executable, str(PROGRAM), *how])}"


def chain(name):
    """Two operators that Flink chains, the second of this name."""
    return {
        "name": f"of {name}",
        "transformations": [
            {"id": 1, "kind": "source", "name": "source"},
            {"id": 2, "kind": "sink", "name": name, "inputs": [1]},
        ],
    }


@pytest.fixture(scope="module")
def program():
    planner = penstock.planner_program(sys.executable, str(PROGRAM))
    yield planner
    planner.stop()


@pytest.mark.slow
def test_it_decides_batch_after_batch_in_one_process(program):
    assert penstock.plan([chain("sink")]).tables["job_vertices"].num_rows == 1
    before, started = program.device_seconds, program._process.pid
    for _ in range(2):
        planned = penstock.check(penstock.plan([chain("sink"), chain("other")], planner=program))
        assert planned.tables["job_vertices"].num_rows == 4
    assert program._process.pid == started
    assert program.device_seconds == before + 0.5


@pytest.mark.slow
def test_what_it_writes_beyond_an_answer_is_not_the_next_one(program):
    for name in ("twice", "other", "sink"):
        assert penstock.check(penstock.plan([chain(name)], planner=program)).planned == 1


def test_what_a_program_has_started_ends_with_it(tmp_path):
    greeting = '{"decides": "chaining", "reads": []}'
    script = f"sleep 1000 & echo $! > child; echo '{greeting}'; wait"
    program = penstock.planner_program("sh", "-c", f"cd {shlex.quote(str(tmp_path))}; {script}")
    rejected = penstock.plan([chain("sink")], planner=program, time_limit=0.5).tables["rejected"]
    assert "PlannerTimedOut" in rejected["message"][0].as_py()
    assert not is_alive(int((tmp_path / "child").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rule", "said"),
    [
        (
            "bad",
            "PlannerRaised",
            "the program ended (exit code 1) without an answer; its last lines: no",
        ),
        ("garbage", "PlannerRaised", "without an answer"),
        ("wrong", "PlannerSchema", "chainable"),
    ],
)
def test_what_it_does_wrong_is_a_refusal(program, name, rule, said):
    rows = penstock.plan([chain("sink"), chain(name)], planner=program).tables["rejected"].to_pylist()
    rejected = {row["name"]: row for row in rows}
    assert [row["error"] for row in rejected.values()] == [rule] * len(rejected)
    assert said in rejected[f"of {name}"]["message"]
    assert len(rejected) == (2 if rule == "PlannerSchema" else 1)
    assert penstock.plan([chain("sink")], planner=program).tables["job_vertices"].num_rows == 2


@pytest.mark.slow
def test_one_that_hangs_is_ended(program):
    penstock.plan([chain("sink")], planner=program)
    hanging = program._process.pid
    (row,) = penstock.plan([chain("slow")], planner=program, time_limit=0.5).tables["rejected"].to_pylist()
    assert row["error"] == "PlannerTimedOut"
    assert "a_program.py" in row["message"]
    assert not is_alive(hanging)
    assert penstock.plan([chain("sink")], planner=program).tables["job_vertices"].num_rows == 2


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("silent", "its last lines: cannot find the model"),
        ("strange", "must be one of parallelism"),
        ("table", "got prices"),
        ("text", "the first line must be JSON, got 'Welcome\\x1b[31m!'"),
    ],
)
def test_what_it_greets_with_is_checked(how, said):
    with pytest.raises(ConfigurationError) as raised:
        penstock.plan([chain("sink")], planner=named(how))
    assert said in str(raised.value)


@pytest.mark.parametrize("command", ["/no/such/program", "", "'", str(Path(__file__).parent)])
def test_what_cannot_be_started_is_named(command):
    with pytest.raises(ConfigurationError, match="planner program:"):
        penstock.plan([chain("sink")], planner=f"program:{command}")


@pytest.mark.slow
def test_commands_take_it(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"name":"n","transformations":[{"id":1,"kind":"source"}]}\n')
    code, _, said = run("plan", tmp_path / "in.jsonl", "--out", tmp_path / "s", "--planner", named())
    assert (code, said) == (0, "")


def test_a_program_that_was_built_again_is_another_planner(tmp_path):
    (tmp_path / "mine").write_text(f"#!{sys.executable}\n{PROGRAM.read_text()}")
    (tmp_path / "mine").chmod(0o755)
    before = code_of_planner(f"program:{tmp_path}/mine")
    assert len(before) == 1
    code_of_planner.cache_clear()
    (tmp_path / "mine").write_text(f"#!{sys.executable}\n{PROGRAM.read_text()}\n# again")
    from penstock.engine.measure.sweep.grid import digest_of_path

    digest_of_path.cache_clear()
    assert code_of_planner(f"program:{tmp_path}/mine") != before


def test_it_ends_with_the_process():
    made = f"penstock.planner_program({sys.executable!r}, {str(PROGRAM)!r})"
    command = [sys.executable, "-c", f"import penstock; print({made}._process.pid)"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    deadline = time.monotonic() + 10
    while is_alive(int(ran.stdout)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(int(ran.stdout))


@pytest.mark.flink
def test_the_example_in_java(tmp_path):
    jars = f"{Path(pyspark.__file__).parent}/jars/*"
    subprocess.run(["javac", "-cp", jars, "-d", str(tmp_path), str(JAVA)], check=True, timeout=120)
    opened = "--add-opens=java.base/java.nio=ALL-UNNAMED"
    planner = penstock.planner_program("java", opened, "-cp", f"{tmp_path}:{jars}", "NeverChain")
    fleet = penstock.generate("random", 50, seed=1)

    @penstock.decides("chaining")
    def never(stream_edges):
        return stream_edges.select("topology_id", "target", "in_index", chainable=pl.lit(False))

    expected = penstock.plan(fleet, planner=never)
    for _ in range(2):
        planned = penstock.check(penstock.plan(fleet, planner=planner))
        assert planned.tables["job_vertices"].equals(expected.tables["job_vertices"])
    planner.stop()
