"""`penstock run --resume`: the same script, arguments, options and folder, or those that are given."""

import os
import sys

import pytest

from penstock.engine.commands.main import main
from penstock.engine.machine.folders import STATE_DIR
from penstock.engine.run.runtime.job_records import list_jobs
from tests.as_command import as_command
from tests.engine.run.runtime.run_in_process import run_jobs_in_process

SCRIPT = """
import os, sys
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()
env.from_collection([1], Types.LONG()).print()
env.execute("first")

def check(value):
    if not os.path.exists("go"):
        raise ValueError("not yet")
    return value + env_parallelism

env_parallelism = env.get_parallelism()
env.from_collection([1], Types.LONG()).rebalance().map(check, Types.LONG()).print()
env.execute("second " + sys.argv[1])
"""


@pytest.fixture
def here(tmp_path, monkeypatch, capsys):
    """Call a command in this process: gives exit code, standard output and standard error."""
    run_jobs_in_process(monkeypatch)
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)

    def call(*arguments):
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, arguments)])
        with as_command(), pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return call


@pytest.mark.slow
def test_a_script_is_run_again_as_it_was(here, tmp_path, monkeypatch):
    code, _, complaint = here("run", "-p", 3, "--checkpoint-dir", "kept", "script.py", "a b", "--x")
    failed = list_jobs()[0]
    assert (code, f"penstock run --resume {failed.job_id}" in complaint) == (1, True)
    assert failed.submitted.options == ("--parallelism=3", "--checkpoint-dir=kept")
    assert str(failed.submitted.kept_in).startswith(str(tmp_path / "kept") + os.sep)

    (tmp_path / "script.py").write_text(SCRIPT.replace("check, Types.LONG())", 'check).uid("other")'))
    code, _, complaint = here("run", "--resume", failed.job_id, "-p", 3, "script.py", "a b")
    assert code == 3
    assert "is not the job that was saved" in complaint
    assert "operator 'Map'" in complaint

    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "go").touch()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, said, complaint = here("run", "--resume", failed.job_id[:8])
    assert (code, said.partition("> ")[2]) == (0, "4\n"), complaint
    assert "job 'first' is not run again: the resumed run has finished it" in complaint
    done = list_jobs()[0].submitted
    assert (done.name, done.resumed, done.arguments) == ("second a b", failed.job_id, ("a b", "--x"))
    assert os.listdir(tmp_path / "kept") == []
    code, _, complaint = here("run", "--resume", failed.job_id)
    assert (code, "is saved: " in complaint) == (3, True)


def test_secrets_are_given_again(here, tmp_path):
    assert here("run", "--checkpoint-dir", "kept", "script.py", "my.password=hunter2")[0] == 1
    failed = list_jobs()[0]
    assert "hunter2" not in (failed.folder / "job.json").read_text()
    code, _, complaint = here("run", "--resume", failed.job_id)
    assert (code, "was given secrets" in complaint) == (2, True)
    (tmp_path / "go").touch()
    assert here("run", "--resume", failed.job_id, "script.py", "my.password=hunter2")[0] == 0


def test_what_cannot_be_resumed_is_an_error(here, tmp_path):
    assert here("run")[0] == 2
    assert here("run", "--resume", "ab")[0] == 3
    (tmp_path / "go").touch()
    assert here("run", "script.py", "a")[0] == 0
    code, _, complaint = here("run", "--resume", list_jobs()[0].job_id)
    assert (code, "has not saved anything to resume from" in complaint) == (3, True)
    (tmp_path / "file").touch()
    code, _, complaint = here("run", "--checkpoint-dir", "file", "script.py", "a")
    assert (code, "--checkpoint-dir file" in complaint) == (2, True)
