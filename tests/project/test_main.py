"""The `penstock` command: quick help, messages in place of tracebacks, exit codes."""

import inspect
import os
import re
import shlex
import subprocess
import sys
from importlib import import_module

import pytest
import typer
from pyspark.errors import PySparkException

from penstock.engine.commands import main as module
from penstock.engine.commands.main import COMMANDS, EXIT_CODES, _load
from penstock.engine.commands.skip_typers_checks import PlainCommand
from penstock.engine.spark.describe_spark_error import describe_spark_error
from penstock.plans.errors import ConfigurationError, InputError, StoreError


class PanicException(BaseException):
    """As of Rust: each library has one of its own."""


REPORT = "--debug shows the traceback; please report it"


def penstock(*args: str) -> int:
    """Exit code of the command in this process; its output is for capsys."""
    with pytest.raises(SystemExit) as stopped:
        module.app(list(args), prog_name="penstock")
    return int(stopped.value.code or 0)


@pytest.fixture
def failing(monkeypatch):
    """Make `penstock doctor` raise the exception that is given."""

    def make(error: BaseException) -> None:
        def command() -> None:
            raise error

        monkeypatch.setattr(import_module("penstock.engine.commands.doctor"), "doctor_command", command)

    return make


@pytest.mark.parametrize("name", [name for commands in COMMANDS.values() for name in commands])
def test_the_help_of_a_command_is_whole(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert penstock(name, "--help") == 0
    said = capsys.readouterr().out
    assert f"penstock {name}" in said
    assert max(map(len, said.splitlines())) <= 80
    command = _load(name)
    for path, each in {"": command, **getattr(command, "commands", {})}.items():
        if not isinstance(each, PlainCommand):
            continue
        assert penstock(name, *filter(None, [path]), "--help") == 0
        said = capsys.readouterr().out
        description = (inspect.getdoc(each.callback) or "").partition("\n\nExamples:")[0]
        for paragraph in description.split("\n\n"):
            assert " ".join(paragraph.split()) in " ".join(said.split())
        examples = re.findall(rf"^     (penstock {name}\b.*)$", said, re.MULTILINE)
        assert examples
        for example in examples:  # its options are those of the command
            words = shlex.split(example)[2:]
            each.make_context(name, words[1:] if path and words[0] == path else words, resilient_parsing=True)
        assert "penstock --help lists all exit codes" in said


def test_help_names_commands_and_exit_codes(capsys):
    assert penstock("--help") == 0
    said = " ".join(capsys.readouterr().out.split())
    lines = [line for commands in COMMANDS.values() for _, line in commands.values()]
    assert [line for line in lines if line not in said] == []
    assert EXIT_CODES in said


def test_help_does_not_import_spark():
    code = (
        "import sys\nfrom penstock.engine.commands.main import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n"
        "    print([m for m in ('pyspark', 'py4j', 'pyarrow', 'pandas', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_is_there_at_the_end_is_not_searched_for_cycles(tmp_path):
    """What is said at the very end: how many objects Python would look at."""
    at_exit = "import atexit, gc\natexit.register(lambda: print(len(gc.get_objects())))"
    (tmp_path / "sitecustomize.py").write_text(at_exit)
    done = subprocess.run(
        [sys.executable, "-m", "penstock.engine.commands.main", "config", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(done.stdout.splitlines()[-1]) < 100


def test_usage_errors(capsys):
    assert penstock("plon") == 2
    assert "Did you mean 'plan'?" in capsys.readouterr().err
    assert penstock("doctor", "--no-such-option") == 2


def test_version(capsys):
    assert penstock("--version") == 0
    assert capsys.readouterr().out == "penstock 0.1.0\n"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (ConfigurationError("a", "b"), 2, "penstock: a\n  hint: b\n"),
        (InputError("no file"), 3, "penstock: no file\n"),
        (StoreError("no version 7"), 4, "penstock: no version 7\n"),
        (PermissionError(13, "Permission denied", "/x"), 8, "penstock: /x: Permission denied\n"),
        (NotADirectoryError(20, "Not a directory", "/x"), 1, "penstock: [Errno 20] Not a directory: '/x'\n"),
        (PanicException("index"), 1, f"penstock: internal error: PanicException: index\n  hint: {REPORT}\n"),
        (
            KeyError("k"),
            1,
            f"penstock: internal error: KeyError: 'k'\n  hint: {REPORT}\n",
        ),
        (typer.Exit(7), 7, ""),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_errors_become_messages_and_exit_codes(failing, capsys, error, code, said):
    failing(error)
    assert penstock("doctor") == code
    assert capsys.readouterr().err == said


def test_debug_lets_the_exception_through(failing):
    failing(InputError("no file"))
    with pytest.raises(InputError, match="no file"):
        module.app(["--debug", "doctor"])


def test_spark_errors_show_no_traceback(spark, failing, capsys):
    with pytest.raises(Exception, match="no_such_column") as raised:
        spark.range(1).select("no_such_column")
    failing(raised.value)
    assert penstock("doctor") == 1
    said = capsys.readouterr().err
    assert said.startswith("penstock: Spark failed: [UNRESOLVED_COLUMN")
    assert "Traceback" not in said
    assert "\tat " not in said


def test_an_exception_in_a_worker_is_told_by_its_last_line(spark):
    def fail(batches):
        raise ValueError("line 3 of fleet.jsonl")

    with pytest.raises(Exception, match="fleet") as raised:
        spark.range(1).mapInArrow(fail, "id long").collect()
    assert describe_spark_error(raised.value) == "a Python worker failed: ValueError: line 3 of fleet.jsonl"


@pytest.mark.parametrize(
    "last",
    [
        "ModuleNotFoundError: No module named 'penstock'",
        "ModuleNotFoundError: No module named 'penstock.operators.task.new'",
        "ImportError: cannot import name 'run' from 'penstock.operators.task' (/x/y.py)",
    ],
)
def test_workers_without_this_penstock_are_named_with_what_to_set(last):
    text = (
        f'An exception was thrown:\nTraceback (most recent call last):\n  File "worker.py", line 1\n{last}\n'
    )
    said = describe_spark_error(PySparkException(text))
    assert "Python workers need Penstock" in said
    assert said.endswith(f"a worker failed: {last}")
    assert "PYSPARK_PYTHON" in said


def test_a_java_exception_is_told_by_its_cause(spark):
    with pytest.raises(Exception, match="ClassNotFound") as raised:
        spark._jvm.java.lang.Class.forName("no.Such")
    assert describe_spark_error(raised.value) == "class not found: no.Such"
