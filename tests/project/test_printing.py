"""Foreign text in the output of every command: shown, never obeyed by a terminal."""

import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from rich.cells import cell_len
from rich.table import Column

from penstock.engine.commands import bench, doctor
from penstock.engine.commands.doctor import Finding
from penstock.engine.commands.main import app
from penstock.engine.output import people
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.store.delta_rs_tables import DeltaRsTables
from penstock.engine.store.write_plan import write_plan, write_version
from penstock.plans.tables import TABLES
from tests.as_command import as_command
from tests.engine.measure.bench.made_up import hostile_results
from tests.project.hostile_text import FOREIGN_STYLE, HOSTILE, OBEYED, SHOWN
from tests.project.on_terminal import on_terminal

OF_RICH = re.compile(r"\x1b\[[0-9;]*m")

Run = Callable[..., tuple[str, str]]


@pytest.fixture(params=["piped", "terminal"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Call a command, or a function, and give what it wrote: to a file, or to a wide terminal."""
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "3000")

    def call(*command: str | Callable[[], None]) -> tuple[str, str]:
        with (tmp_path / "error").open("w", encoding="utf-8") as error, monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", error)
            if request.param == "piped":
                with (tmp_path / "output").open("w", encoding="utf-8") as output:
                    patch.setattr(sys, "stdout", output)
                    _call(command)
                said = (tmp_path / "output").read_text(encoding="utf-8")
            else:
                said = on_terminal(lambda: _call(command), patch)
        assert FOREIGN_STYLE not in said
        plain = OF_RICH.sub("", said) if request.param == "terminal" else said.replace("\t", " ")
        return plain, (tmp_path / "error").read_text(encoding="utf-8")

    return call


def _call(command: tuple[str | Callable[[], None], ...]) -> None:
    (first, *_) = command
    if callable(first):
        first()
        return
    with pytest.raises(SystemExit):
        app([str(argument) for argument in command], prog_name="penstock")


def unbroken(text: str) -> str:
    """Without what a table or the width of a terminal adds."""
    return re.sub(r"[\s│┃]+", "", text)


def topology(name: str) -> dict[str, object]:
    return {
        "name": name,
        "transformations": [
            {"id": 1, "kind": "source", "name": f"s{HOSTILE}", "uid": f"u{HOSTILE}"},
            {"id": 2, "kind": "partition", "inputs": [1], "partitioner": "hash"},
            {"id": 3, "kind": "one_input", "name": f"m{HOSTILE}", "inputs": [2]},
            {"id": 4, "kind": "sink", "name": HOSTILE, "inputs": [3], "slot_sharing_group": HOSTILE},
        ],
    }


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A hostile topology, one that is refused, and a run, in a store with a hostile name."""
    folder = tmp_path_factory.mktemp("names")
    file = folder / "in\x1bc\x9b\u202e\udcff.jsonl"
    refused = {"name": f"r{HOSTILE}", "transformations": [{"id": 1, "kind": HOSTILE, HOSTILE: 1}]}
    lines = [
        *map(json.dumps, (topology(HOSTILE), refused)),
        '{"name": "\\ud800", "transformations": 5}',
        "{no",
    ]
    file.write_text("\n".join(lines))
    path = str(folder / "st\x9b\u202e\u2028\xadore")
    planned = plan_in_process(str(file))
    write_plan(
        DeltaRsTables(path), planned.tables, planner_version="1", options={**OPTIONS, "until": "slots"}
    )
    write_version(
        DeltaRsTables(path),
        {**planned.tables, **_run_of(planned.tables)},
        planner_version="1",
        options=OPTIONS,
    )
    return path


OPTIONS = {
    "until": "slots",
    "slot_sharing": "LOCAL_INPUT_PREFERRED",
    "network": "flink-2.3",
    "slots_per_task_manager": "1",
    "task_manager_memory": "1728m",
}


def _run_of(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    (vertex, *_) = tables["job_vertices"].select(["topology_id", "vertex"]).to_pylist()
    known = {
        "runs": {"run_id": "f00d", "name": HOSTILE, "state": "FAILED", "runtime_mode": "BATCH",
                 "milliseconds": 1,
                 "started_at": datetime.now(UTC), "vertices": 1, "subtasks": 1, "attempts": 1,
                 "failure": HOSTILE},
        "executions": {"vertex": vertex["vertex"], "subtask": 0, "attempt_number": 0, "attempt_id": "a",
                       "state": "FAILED", "state_timestamps": [], "host": HOSTILE,
                       "failure": f"{HOSTILE} my.secret=hunter", "failed_operator": HOSTILE},
    }  # fmt: skip
    return {
        name: pa.Table.from_pylist([{"topology_id": vertex["topology_id"], **row}], TABLES[name])
        for name, row in known.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "most"),
    [
        (["show", "STORE"], 0),
        (["show", "STORE", "--topology", HOSTILE], 2),
        (["rejected", "STORE"], 0),
        (["size", "STORE"], 1),
        (["size", "STORE", "--topology", HOSTILE], 1),
        (["runs", "STORE"], 1),
        (["runs", "STORE", "--run", "f00"], 1),
        (["rejected", "STORE", "--json"], 0),
        (["export", "STORE"], 0),
        (["edges", "STORE", "--topology", HOSTILE], 0),
    ],
    ids=lambda value: "-".join(value[:3:2]) if isinstance(value, list) else "",
)
def test_names_in_a_store_are_shown_and_not_obeyed(run, store, command, most):
    said, complaint = run(*(store if part == "STORE" else part for part in command))
    assert OBEYED.findall(said + complaint) == []
    assert complaint == ""
    assert unbroken(said).count(unbroken(SHOWN)) >= most
    assert "hunter" not in said


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["80", "20", "5"])
def test_narrow_terminals_show_all_tables(monkeypatch, store, columns):
    monkeypatch.setenv("COLUMNS", columns)
    for command in (
        ["show", store],
        ["show", store, "--topology", HOSTILE],
        ["rejected", store],
        ["runs", store],
    ):
        with monkeypatch.context() as patch:
            said = on_terminal(partial(_call, tuple(command)), patch)
        plain = OF_RICH.sub("", said)
        assert OBEYED.findall(plain) == []
        assert max(map(cell_len, plain.splitlines())) <= int(columns)


@pytest.mark.parametrize(("columns", "blocks"), [("100", 0), ("60", 2), ("30", 2)])
def test_a_table_that_is_too_wide_is_printed_a_row_a_block_with_whole_words(monkeypatch, columns, blocks):
    monkeypatch.setenv("COLUMNS", columns)
    headers = ("topology", "a rather long header", "where it was read")
    rows = [("one", "unbelievable", "/a/path/of/forty/characters/and/some.jl"), ("two", "b", "short")]
    with monkeypatch.context() as patch:
        wide = Column("where it was read", no_wrap=columns != "30")
        table = (Column("topology"), Column("a rather long header"), wide)
        said = OF_RICH.sub("", on_terminal(lambda: people.print_table(table, rows), patch))
    assert said.count("topology") == (blocks or 1)
    assert ("━" in said) is not blocks
    for header in headers if columns != "30" else headers[:1]:
        assert header in said
    words = [word for row in rows for word in row if columns != "30" or "/" not in word]
    assert all(word in said for word in words)
    assert max(map(cell_len, said.splitlines())) <= int(columns)


def test_names_in_json_come_back_whole(run, store):
    names = [json.loads(line).get("name") for line in run("export", store)[0].splitlines()]
    assert HOSTILE in names
    assert f"r{HOSTILE}" in names
    refused = [json.loads(line) for line in run("rejected", store, "--json")[0].splitlines()]
    assert f"r{HOSTILE}" in [line.get("name") for line in refused]


@pytest.mark.parametrize(
    "command",
    [
        ["show", HOSTILE.replace("\x00", "")],
        ["show", "STORE", "--topology", f"x{HOSTILE}"],
        ["show", "a", HOSTILE],
        [HOSTILE],
        [f"--{HOSTILE}"],
        ["size", "STORE", "--task-manager-memory", HOSTILE],
        ["edges", "STORE", "--topology", HOSTILE, "--job-edge", HOSTILE],
        ["edges", f"--{HOSTILE}"],
        ["runs", "STORE", "--run", HOSTILE],
        ["plan", "nothing\udcff\x1b", "--out", "o"],
        ["plan", "x", "--out", "o", "--conf", HOSTILE],
        ["plan", "x", "--out", "o", "--until", HOSTILE],
        ["run", "nothing\udcff\x1b"],
        ["run", "-D", f"my.secret{HOSTILE}", "x"],
        ["info", "SCRIPT", "-p", HOSTILE],
        ["info", "SCRIPT", HOSTILE],
        ["--debug", "info", "SCRIPT", HOSTILE],
        ["generate", HOSTILE, "--out", "o"],
        ["bench", "--suite", HOSTILE.replace("\x00", "")],
        ["bench", "--planner", HOSTILE],
        ["bench", "--sizes", HOSTILE],
    ],
    ids=str,
)
def test_arguments_in_errors_are_shown_and_not_obeyed(run, store, tmp_path, command):
    script = tmp_path / "raise\x1b[2J\x9b\n.py"
    script.write_text("import sys\nraise ValueError(f'{sys.argv[1]} my.secret=hunter')\n")
    names = {"STORE": store, "SCRIPT": str(script)}
    arguments = [names.get(part, part) for part in command]
    if command[0] == "--debug":
        said, complaint = run(lambda: _main(arguments))
        assert "Traceback" in complaint
    else:
        said, complaint = run(*arguments)
    assert OBEYED.findall(said + complaint) == []
    assert complaint
    assert "hunter" not in complaint


def _main(arguments: list[str]) -> None:
    """The entry point with sys.argv."""
    from penstock.engine.commands.main import main

    before, sys.argv = sys.argv, ["penstock", *arguments]
    try:
        with as_command(), pytest.raises(SystemExit, match=r"^1$"):
            main()
    finally:
        sys.argv = before


@pytest.mark.slow
def test_a_script_is_shown_without_running(run, tmp_path):
    script = tmp_path / "job.py"
    script.write_text(
        "from pyflink.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        f"name = {HOSTILE!r}\n"
        "first = env.from_collection([1]).map(lambda x: x).name(name)\n"
        "first.key_by(lambda x: x).map(lambda x: x).name(name).print()\n"
        "env.execute(name)\n"
    )
    for options in ([], ["--json"], ["--execution-plan"]):
        said, complaint = run("info", *options, str(script))
        assert OBEYED.findall(said + complaint) == []
        assert complaint == ""
        assert options or unbroken(said).count(unbroken(SHOWN)) == 4


def test_findings_and_figures_are_shown_and_not_obeyed(run, monkeypatch, tmp_path):
    findings = [
        Finding(HOSTILE, f"{HOSTILE} a.password=hunter"),
        Finding("b", "c", f"{HOSTILE} token=hunter"),
    ]
    monkeypatch.setattr(doctor, "diagnose", lambda: findings)
    said, complaint = run("doctor")
    assert OBEYED.findall(said + complaint) == []
    assert "hunter" not in said + complaint
    said, complaint = run(lambda: bench._report(hostile_results(), None, Path(f"/{HOSTILE}")))
    assert OBEYED.findall(said + complaint) == []
    assert unbroken(said).count(unbroken(SHOWN)) >= 3
    assert unbroken(complaint).count(unbroken(SHOWN)) == 3


def test_help_breaks_no_word_of_plan_at_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with monkeypatch.context() as patch:
        said = OF_RICH.sub("", on_terminal(partial(_call, ("plan", "--help")), patch))
    assert "…" not in said.replace("...", "")
    for word in ("--slots-per-task-manager", "task-balanced-preferred", "'penstock-spark[flink]'"):
        assert word in said
