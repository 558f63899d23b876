"""Every command that looks at plans takes whatever has one, and names what has none."""

import gzip
import json
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack

import pytest

import penstock
from penstock.engine.commands.main import main
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.library.open_source import open_source, open_to_choose
from penstock.engine.library.planned_tables import plan_tables
from penstock.engine.store.plan_source import identify_source
from tests.as_command import as_command

JOB = {
    "name": "job",
    "transformations": [
        {"id": 1, "kind": "source", "name": "Numbers", "parallelism": 2},
        {"id": 2, "kind": "sink", "name": "Print", "inputs": [1], "parallelism": 1},
    ],
}
SCRIPT = """
from pyflink.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1, 2]).map(lambda n: n).print()
env.execute("job")
"""
LOOKS = {
    "show": [],
    "size": [],
    "metrics": [],
    "export": [],
    "rejected": [],
    "sql": ["select count(*) from job_vertices"],
    "edges": ["--topology", "job"],
    "draw": ["--format", "mermaid"],
    "explain": [],
    "diff": None,
    "plan": None,
}
HOLD_PLANS = (
    "jobs.jsonl",
    "jobs.jsonl.gz",
    "jobs",
    "pretty.json",
    "tables",
    "store",
    "store@1",
    "plan.jsonl",
    "flink.jsonl",
    "script.py",
)
HOLD_NONE = {
    "notes.txt": "notes.txt must be a plan store, topology file or script, got text without a line of JSON",
    "edges.csv": "edges.csv must be a plan store or a script or tables of topologies or topologies, got ",
    "empty.jsonl": "empty.jsonl is an empty file",
    "empty": "empty is an empty folder",
    "parquet": "parquet is a folder of Parquet files",
    "binary.dat": "binary.dat must be a plan store, topology file or script, got a binary file",
    "tasks.txt": "tasks.txt must be a plan store or a script or tables of topologies or topologies, got ",
    "queries.sql": "queries.sql must be a plan, topology or script, got a SQL script",
    "utf16.jsonl": "utf16.jsonl must be a plan, topology or script, got text that is not UTF-8 but UTF-16",
    "packed.jsonl": "packed.jsonl must be a plan, topology or script, got a file packed by gzip",
    "": "a source must be a path, got an empty text",
    "missing": "missing does not exist",
}


def run(*arguments):
    sys.argv = ["penstock", *map(str, arguments)]
    with as_command(), pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A folder with everything that a command may be given."""
    folder = tmp_path_factory.mktemp("sources")
    line = json.dumps(JOB)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", [])
        (folder / "jobs.jsonl").write_text(line + "\n")
        (folder / "jobs.jsonl.gz").write_bytes(gzip.compress(line.encode()))
        (folder / "jobs").mkdir()
        shutil.copy("jobs.jsonl", "jobs/jobs.jsonl")
        (folder / "pretty.json").write_text(json.dumps(JOB, indent=2))
        (folder / "script.py").write_text(SCRIPT)
        (folder / "notes.txt").write_text("a note\nanother\n")
        (folder / "tasks.txt").write_text("2\n1 5 0\n2 5 1 1\n")
        (folder / "queries.sql").write_text("CREATE TABLE a (x INT);\n")
        (folder / "edges.csv").write_text("source,target\n1,2\n")
        (folder / "empty.jsonl").touch()
        (folder / "empty").mkdir()
        (folder / "binary.dat").write_bytes(bytes(range(200)))
        (folder / "utf16.jsonl").write_text(line, encoding="utf-16")
        shutil.copy("jobs.jsonl.gz", "packed.jsonl")
        assert run("plan", "jobs.jsonl", "--out", "store") == 0
        assert run("export", "store", "--to", "plan.jsonl") == 0
        assert run("export", "store", "--format", "flink-plan", "--to", "flink.jsonl") == 0
        assert run("generate", "chain", "--operators", "4", "--out", "tables") == 0
        (folder / "parquet").mkdir()
        data = next((folder / "store" / "job_vertices").rglob("*.parquet"))
        shutil.copy(data, folder / "parquet" / "rows.parquet")
    return folder


@pytest.fixture
def call(sources, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(sources)
    monkeypatch.setattr(sys, "argv", [])

    def called(command, source):
        capsys.readouterr()
        options = LOOKS[command] or []
        if command == "diff":
            code = run("diff", source, source)
        elif command == "plan":
            code = run("plan", source, "--out", tmp_path / "planned")
        else:
            given = ["--topology", "chain-0-000000"] if source == "tables" and command == "edges" else options
            code = run(command, source, *given)
        return code, *capsys.readouterr()

    return called


@pytest.mark.slow
@pytest.mark.parametrize("command", [*LOOKS, "info"])
def test_what_a_script_prints_is_beside_the_answer_about_it(sources, command, capfd, monkeypatch, tmp_path):
    monkeypatch.chdir(sources)
    monkeypatch.setattr(sys, "argv", [])
    ways = (
        'print("OWN")',
        'os.write(1, b"OWN")',
        'subprocess.run(["echo", "OWN"])',
        'sys.stdout.write("OWN")',
    )
    (tmp_path / "noisy.py").write_text("\n".join(("import os, subprocess, sys", *ways, SCRIPT)))
    script = str(tmp_path / "noisy.py")
    options = {"diff": [script], "plan": ["--out", str(tmp_path / "store")]}
    with as_command():
        code = run(command, script, *options.get(command, LOOKS.get(command) or []))
    written, beside = capfd.readouterr()
    assert code == 0, beside
    assert "OWN" not in written
    assert beside.count("OWN") >= len(ways)
    print("back")
    assert capfd.readouterr().out == "back\n"


@pytest.mark.slow
def test_what_a_script_prints_at_exit_is_beside_the_answer_too(tmp_path):
    at_exit = 'import atexit\natexit.register(lambda: print("OWN"))\n'
    (tmp_path / "noisy.py").write_text(at_exit + SCRIPT)
    command = [sys.executable, "-m", "penstock", "draw", str(tmp_path / "noisy.py"), "--format", "mermaid"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("flowchart LR\n")
    assert ("OWN" in done.stdout, "OWN" in done.stderr) == (False, True)


def some_of_each(commands, sources, every_source):
    """`commands` with every source, and every command with `sources`: one function says what a source is."""
    chosen = {(command, source) for command in commands for source in every_source}
    chosen |= {(command, source) for command in LOOKS for source in sources}
    return pytest.mark.parametrize(("command", "source"), sorted(chosen))


@pytest.mark.slow
@some_of_each(["show", "plan", "diff"], ["jobs.jsonl", "tables", "store@1"], HOLD_PLANS)
def test_whatever_holds_plans_is_taken(call, command, source):
    code, _, beside = call(command, source)
    assert code == 0, beside


@some_of_each(["show", "plan", "diff"], ["notes.txt", "missing"], HOLD_NONE)
def test_what_holds_no_plan_is_named(call, command, source):
    code, said, beside = call(command, source)
    assert (code, said) == (3, "")
    assert f"penstock: {HOLD_NONE[source]}" in beside


@pytest.mark.parametrize("source", ["jobs.jsonl", "tables", "script.py"])
def test_what_is_about_stores_names_what_it_was_given(call, capsys, source):
    for command in (("verify",), ("runs",), ("drop", "--older-than", "1d"), ("vacuum",)):
        capsys.readouterr()
        assert run(command[0], source, *command[1:]) == 3
        assert f"penstock: {source} must be a plan store, got " in capsys.readouterr().err


@pytest.mark.parametrize("source", ["store", "tables", "script.py", "parquet", "missing"])
def test_import_names_what_it_cannot_turn_into_topologies(call, capsys, source):
    capsys.readouterr()
    assert run("import", source) == 3
    assert f"penstock: {source}" in capsys.readouterr().err


def test_a_version_is_named_once_and_of_stores_only(call, capsys):
    assert run("show", "store@1", "--version", "1") == 2
    assert run("show", "jobs.jsonl", "--version", "1") == 2
    assert "a version needs a plan store" in capsys.readouterr().err


def test_what_is_planned_on_the_way_has_the_name_of_its_source(call):
    _, said, beside = call("show", "jobs.jsonl")
    assert said.startswith("jobs.jsonl")
    assert beside.startswith("jobs.jsonl: 1 planned and 0 rejected of 1 topologies")


def test_a_store_without_its_list_of_versions_is_no_folder_of_tables(sources, call, capsys):
    shutil.copytree(sources / "store", sources / "lost")
    shutil.rmtree(sources / "lost" / "plan_versions")
    code, _, beside = call("show", "lost")
    assert code == 4
    assert "lost is damaged" in beside


@pytest.mark.slow
@pytest.mark.parametrize("command", ["show", "size", "metrics", "export", "rejected", "sql", "edges"])
def test_a_small_source_is_planned_in_memory_and_a_large_one_in_a_store_alike(call, monkeypatch, command):
    def no_store(*_):
        raise AssertionError("a store was made")

    with monkeypatch.context() as patch:
        patch.setattr("penstock.engine.library.open_source.open_plan", no_store)
        in_memory = call(command, "jobs.jsonl")
    monkeypatch.setattr("penstock.plans.planners.plan_as_read.ROWS_AT_A_TIME", 0)
    in_store = call(command, "jobs.jsonl")
    assert in_memory[0] == 0
    assert [re.sub(r"\d\d:\d\d:\d\d", "", str(text)) for text in in_memory] == [
        re.sub(r"\d\d:\d\d:\d\d", "", str(text)) for text in in_store
    ]


def test_stores_files_and_plans_of_the_library_give_views_the_same_tables(sources, monkeypatch):
    monkeypatch.chdir(sources)
    planned = penstock.plan("jobs.jsonl")
    with ExitStack() as stack:
        opened = [
            stack.enter_context(open_source(identify_source(source), EffectiveConfiguration))
            for source in ("store", "store@1", "jobs.jsonl", "jobs")
        ]
        assert [plan.title for plan in opened] == [
            *("store version 1", "store version 1"),
            *("jobs.jsonl version 1", "jobs version 1"),
        ]
        of_library = plan_tables(planned)
        assert (of_library.title, of_library.version) == (planned.source, None)
        for plan in opened:
            assert plan.tables == of_library.tables
            assert plan.options == of_library.options
            assert (plan.planned, plan.rejected) == (1, 0)
            for name in plan.tables:
                left_out = ["source_file"] if "source_file" in plan.table(name).collect_schema() else []
                rows, others = (one.table(name).drop(left_out).collect() for one in (plan, of_library))
                assert rows.equals(others), name
            assert plan.of_topology("job").frame("job_vertices", "vertex").height == 2
            assert plan.of_topology("another").frame("job_vertices", "vertex").is_empty()


def test_topologies_that_were_only_read_are_planned_when_they_are_chosen(tmp_path, monkeypatch):
    lines = [json.dumps({**JOB, "name": name}) for name in ("a", "b", "c")]
    (tmp_path / "jobs.jsonl").write_text("\n".join([*lines, "{"]))
    monkeypatch.chdir(tmp_path)
    read = open_to_choose(identify_source("jobs.jsonl"), EffectiveConfiguration, str(tmp_path))
    assert not read.has("job_vertices")
    assert read.frame("rejected", "error").height == 1
    chosen = read.of_topology("b")
    assert (chosen.topology, chosen.label, chosen.planned) == ("b", "jobs.jsonl", 1)
    names = chosen.frame("job_vertices", "name")["name"]
    assert set(names) == {"Source: Numbers", "Sink: Print"}
