"""What `penstock capture` says before anything runs, and what the jar of its agent is."""

import os
import subprocess
import zipfile

import pytest

from penstock.engine.flink.capture import run_capture as agent_jar_module
from penstock.engine.flink.capture.build_agent import (
    MINIMUM_JAVA,
    build_agent,
    digest_in_jar,
    digest_of_sources,
)
from penstock.engine.flink.capture.program_command import FlinkHome, find_flink_home, require_configuration
from penstock.engine.flink.capture.run_capture import agent_jar, run_capture, with_agent
from penstock.engine.flink.plan_with_flink import FLINK_VERSION, flink_jars
from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.flink_options import CACHED_FILES, JOB_NAME, OPTIONS, SAVEPOINT_PATH
from tests.engine.flink.programs import script

pytestmark = pytest.mark.flink


def test_the_jar_is_that_of_the_sources_and_is_made_again_to_the_byte(tmp_path):
    build_agent(flink_jars(), tmp_path / "again.jar")
    assert (tmp_path / "again.jar").read_bytes() == agent_jar().read_bytes()
    assert digest_in_jar(agent_jar()) == digest_of_sources()
    assert agent_jar().stat().st_size < 100_000


def test_the_agent_runs_on_java_11():
    """`javac --release 11` has refused what Java 11 lacks; every class says that it is for it."""
    with zipfile.ZipFile(agent_jar()) as jar:
        classes = [jar.read(name) for name in jar.namelist() if name.endswith(".class")]
    assert classes
    assert {int.from_bytes(data[6:8], "big") for data in classes} == {44 + MINIMUM_JAVA} == {55}


def test_every_option_that_planning_reads_may_leave_the_jvm_but_paths_and_names():
    with zipfile.ZipFile(agent_jar()) as jar:
        keys = jar.read("META-INF/penstock/configuration_keys.txt").decode().split()
    kept_back = {CACHED_FILES.key, JOB_NAME.key, SAVEPOINT_PATH.key}
    read = [option for option in OPTIONS if option.key not in kept_back]
    assert keys == sorted(key for option in read for key in (option.key, *option.deprecated))


def test_a_jar_of_other_sources_is_told(monkeypatch):
    monkeypatch.setattr(agent_jar_module, "digest_of_sources", lambda: "other")
    monkeypatch.setattr(agent_jar_module, "is_checkout", lambda: False)
    with pytest.raises(ConfigurationError, match="built from other sources"):
        agent_jar()


def test_agent_prints_what_a_shell_sets(capture):
    run, _ = capture("--agent", "-o", "a b.jsonl", "--observe")
    assert run.stdout.splitlines()[0] == f"export PENSTOCK_CAPTURE_AGENT={agent_jar()}"
    assert "a b.jsonl'" in run.stdout
    assert run.stdout.splitlines()[-1] == "export PENSTOCK_CAPTURE_MODE=observe"


@pytest.mark.parametrize(("mode", "status"), [("capture", 97), ("observe", 0)])
def test_only_a_program_that_is_observed_goes_on_where_nothing_can_be_written(mode, status):
    settings = {"PENSTOCK_CAPTURE_MODE": mode, "PENSTOCK_CAPTURE_FILE": ""}
    command = ["java", f"-javaagent:{agent_jar()}", "-version"]
    run = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=False)
    assert run.returncode == status
    assert "PENSTOCK_CAPTURE_FILE has to name the file" in run.stderr


def test_options_of_java_that_are_set_stay():
    environment = with_agent({"JAVA_TOOL_OPTIONS": "-Xmx1g", "PENSTOCK_CAPTURE_MODE": "observe"}, {"A": "b"})
    assert environment == {"JAVA_TOOL_OPTIONS": f"-Xmx1g -javaagent:{agent_jar()}", "A": "b"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no program to capture"),
        (["job.zip"], "job.zip must be a program for Flink (.jar, .sql, .py)"),
        (["job.jar"], "job.jar does not exist"),
        (["script.sql", "argument"], "a SQL script takes neither arguments nor a main class"),
        (["--", "no-such-command"], "no-such-command: no such command"),
        (["-p", "2", "--", "true"], "got a command after --"),
        (["--verify", "--observe", "job.jar"], "planning changes the graph"),
        (["--append", "job.jar"], "--append needs -o FILE"),
        (["--flink", ".", "job.jar"], "must contain 1 jar named flink-dist-*.jar, got 0"),
        (["-o", "no/jobs.jsonl", "--", "touch", "ran"], "/no does not exist"),
        (["-o", ".", "--", "touch", "ran"], "it is a directory"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(capture, tmp_path, arguments, said):
    (tmp_path / "script.sql").touch()
    run, jobs = capture(*arguments)
    assert (run.exit_code, jobs) == (2, [])
    assert said in run.stderr
    assert not (tmp_path / "ran").exists()


def test_a_command_without_jobs_is_no_capture(capture):
    run, _ = capture("-o", "jobs.jsonl", "--", "true")
    assert run.exit_code == 1
    assert "true: submitted no job" in run.stderr


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ("\x1b[31;1m[ERROR] Could not", ""),
        (
            "\nFlink SQL> SET 'a'\x1b[34;1m[INFO] Done.\x1b[0m\n\nFlink SQL> \x1b[31;1m[ERROR] Could not",
            "2",
        ),
        ("\nFlink SQL> SELECT 1\x1b[31;1m[ERROR] Could not", "1"),
        ("\nFlink SQL> [ERROR] Could not", "1"),
    ],
)
def test_the_sql_client_has_failed_where_it_says_so(tmp_path, said, where):
    client = script(tmp_path / "client", f"print({said + ' execute it.'!r}, 'Reason: why', sep=chr(10))")
    captured = run_capture([client], {}, tmp_path, name="x.sql", tells_errors=True)
    found = f", in statement {where} of the script" if where else ""
    assert captured.problem == f"Flink's SQL client stopped at an error{found}"
    assert captured.log_tail == "[ERROR] Could not execute it.\nReason: why"


def test_a_statement_that_mentions_errors_is_none(tmp_path):
    client = script(tmp_path / "client", "print(chr(10) + 'Flink SQL> INSERT INTO a SELECT \\'[ERROR] b\\'')")
    assert run_capture([client], {}, tmp_path, name="x.sql", tells_errors=True).problem is None


def test_a_script_that_fails_tells_its_own_error_last(tmp_path):
    said = (
        "ValueError: why\n12:00 main ERROR Run python process failed\njava.lang.RuntimeException: exit code 1"
    )
    program = script(tmp_path / "program", f"print({said!r}); raise SystemExit(31)")
    captured = run_capture([program], {}, tmp_path, name="x.py")
    assert (captured.problem, captured.log_tail) == ("it ended with exit code 31", "ValueError: why")


def test_a_file_that_is_no_json_is_not_added_to(capture, tmp_path):
    (tmp_path / "jobs.jsonl").write_text("no json\n")
    run, _ = capture("--append", "-o", "jobs.jsonl", "--", "true")
    assert run.exit_code == 3
    assert "line 1 is not JSON" in run.stderr
    assert (tmp_path / "jobs.jsonl").read_text() == "no json\n"


def test_the_home_of_flink_is_the_extra_unless_one_is_named(tmp_path):
    assert find_flink_home(None, {}).version == FLINK_VERSION
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "flink-dist-1.20.5.jar").touch()
    assert find_flink_home(None, {"FLINK_HOME": str(tmp_path)}).version == "1.20.5"
    assert find_flink_home(tmp_path, {}).folder == tmp_path


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("echo hello >> $PENSTOCK_CAPTURE_FILE", "line 2 is not from Penstock's agent"),
        ("echo '{}' >> $PENSTOCK_CAPTURE_FILE", "line 2 is not from Penstock's agent"),
        ("printf '\\377\\n' >> $PENSTOCK_CAPTURE_FILE", "line 2 is not from Penstock's agent"),
        ("echo > $PENSTOCK_CAPTURE_FILE", "the first lines have changed"),
        ("rm $PENSTOCK_CAPTURE_FILE", "it no longer exists"),
        ("rm $PENSTOCK_CAPTURE_FILE; mkdir $PENSTOCK_CAPTURE_FILE", "it is not a file any more"),
        ("rm $PENSTOCK_CAPTURE_FILE; mkfifo $PENSTOCK_CAPTURE_FILE", "it is not a file any more"),
        ("rm -r $(dirname $PENSTOCK_CAPTURE_FILE)", "it no longer exists"),
        ("echo hello > $PENSTOCK_CAPTURE_REFUSALS", "refusals are collected"),
    ],
)
def test_a_program_that_changes_the_agents_files_is_named_and_nothing_is_written(
    capture, tmp_path, program, said
):
    before = '{"name":"before"}\n'
    (tmp_path / "jobs.jsonl").write_text(before)
    run, _ = capture("--append", "-o", "jobs.jsonl", "--", "sh", "-c", program)
    assert run.exit_code == 1
    assert run.stderr.startswith("penstock: sh: it changed the file in which")
    assert said in run.stderr
    assert (tmp_path / "jobs.jsonl").read_text() == before


def test_the_programs_own_file_is_not_replaced(capture, tmp_path):
    run, _ = capture("-o", "jobs.jsonl", "--", "sh", "-c", "echo mine > jobs.jsonl")
    assert (run.exit_code, "it wrote to jobs.jsonl itself" in run.stderr) == (1, True)
    assert (tmp_path / "jobs.jsonl").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("version", "files", "said"),
    [
        ("2.3.0", {}, "config.yaml does not exist, and Flink 2.3.0 does not start without it"),
        ("2.3.0", {"flink-conf.yaml": "a: 1"}, "bin/migrate-config-file.sh"),
        ("1.20.5", {}, "config.yaml does not exist, and Flink 1.20.5 does not start without it"),
        ("2.3.0", {"config.yaml": "a: [1"}, "config.yaml:1: it is not YAML"),
        ("2.3.0", {"config.yaml": None}, "config.yaml must be a readable file"),
        ("2.3.0", {"config.yaml": "a: 1"}, None),
        ("1.20.5", {"flink-conf.yaml": "a: 1"}, None),
    ],
)
def test_a_home_of_flink_with_which_flink_does_not_start_is_told(tmp_path, version, files, said):
    home = FlinkHome(tmp_path, version, [], [])
    for name, text in files.items():
        (tmp_path / name).mkdir() if text is None else (tmp_path / name).write_text(text)
    if said is None:
        require_configuration(home, tmp_path)
        return
    with pytest.raises(ConfigurationError) as refused:
        require_configuration(home, tmp_path)
    assert said in f"{refused.value.message} {refused.value.hint}"


def test_a_home_of_flink_without_its_configuration_is_told_before_anything_runs(capture, tmp_path):
    (tmp_path / "home" / "conf").mkdir(parents=True)
    (tmp_path / "home" / "lib").symlink_to(flink_jars())
    (tmp_path / "job.jar").touch()
    run, _ = capture("--flink", "home", "-o", "jobs.jsonl", "job.jar")
    assert (run.exit_code, "home/conf/config.yaml does not exist" in run.stderr) == (2, True)
    run, _ = capture("--flink", "nowhere", "job.jar")
    assert (run.exit_code, "folder nowhere does not exist" in run.stderr) == (2, True)
