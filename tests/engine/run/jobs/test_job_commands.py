"""`penstock run -d`, `list`, `status`, `cancel`, `logs` and `wait`; drivers run their jobs without Spark."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from penstock.engine.commands.main import main
from penstock.engine.machine.folders import STATE_DIR
from penstock.engine.run.runtime.job_records import find_job, list_jobs
from tests.as_command import as_command

ROOT = Path(__file__).parents[4]

IN_PROCESS = f"""
import sys, time
sys.path.append({str(ROOT)!r})
import pytest
from tests.engine.run.runtime.run_in_process import run_jobs_in_process
run_jobs_in_process(pytest.MonkeyPatch())
"""

SCRIPT = """
from pathlib import Path
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

def wait(value):
    from penstock.engine.machine.stop_on_signals import stopped_by
    from penstock.engine.run.runtime import run_job
    while not Path(sys.argv[1], "go").exists():
        time.sleep(0.01)
        if run_job.stop.is_set() or stopped_by():
            raise ValueError("stopped")
    if Path(sys.argv[1], "fail").exists():
        raise ValueError("no such value")
    return value

from penstock.engine.run.runtime import run_job
from penstock.engine.run.runtime.run_context import current_context

def submitted(result, control):
    run_job.stop = control.cancel_requested

current_context().submit_listeners.append(submitted)
print("script says", *sys.argv[2:], flush=True)
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(1)
env.from_collection([1], Types.LONG()).map(wait, Types.LONG()).name("\\x1b[31m map").print()
env.execute("job \\x1b[31m " + sys.argv[2])
env.from_collection([1], Types.LONG()).print()
env.execute("second")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(IN_PROCESS + SCRIPT)
    return tmp_path


@pytest.fixture
def here(monkeypatch, capsys):
    """Call a command in this process: gives exit code, standard output and standard error."""

    def call(*arguments):
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["penstock", *map(str, arguments)])
        with as_command(), pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capsys.readouterr()

    return call


def command(*arguments):
    return [sys.executable, "-P", "-m", "penstock.engine.commands.main", *map(str, arguments)]


def penstock(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120, check=False)


def submitted(folder, *arguments):
    done = penstock("run", "-d", "script.py", folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def until(condition):
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def driver_of(job_id):
    return int(find_job(job_id).submitted.owner["pid"])


@pytest.mark.slow
def test_a_detached_job_runs_on_by_itself(folder, here):
    job_id = submitted(folder, "a", "password=hunter2")
    record = find_job(job_id)
    assert os.getsid(driver_of(job_id)) == driver_of(job_id)
    assert record.submitted.detached
    assert record.submitted.arguments[2] == "password=*********(redacted)"
    assert record.log is not None
    assert record.log.stat().st_mode & 0o077 == 0
    code, said, _ = here("list", "-r")
    assert (code, said.splitlines()[1].split("\t")[1:3]) == (0, ["job \\x1b[31m a", record.state])
    assert here("cancel", "0" * 32)[0] == 3
    (folder / "go").touch()
    assert here("wait", job_id[:20])[0] == 0
    assert find_job(job_id).state == "FINISHED"
    first, second = until(lambda: (found := list_jobs()) and len(found) == 2 and found)[::-1]
    assert (first.job_id, second.submitted.name) == (job_id, "second")
    code, log, _ = here("logs", "-f", second.job_id)
    assert log.splitlines()[0] == "script says a password=*********(redacted)"
    assert log == here("logs", job_id)[1]
    (shown,) = (one for one in json.loads(here("list", "--json")[1]) if one["job_id"] == job_id)
    assert {one["state"] for one in shown["vertices"]} == {"FINISHED"}
    assert "\x1b" not in here("status", job_id)[1]
    assert not [name for name in os.listdir(folder / "state" / "jobs") if name.startswith(".")]
    assert here("cancel", job_id)[0] == 1
    assert here("list", "-r")[1] == "no jobs are running\n"


@pytest.mark.slow
def test_a_detached_job_is_cancelled_and_others_end_with_their_driver(folder, here):
    started = command("run", "-d", "script.py", folder, "a")
    clients = [subprocess.Popen(started, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    jobs = [client.communicate()[0].strip() for client in clients]
    until(lambda: all(find_job(one).state == "CREATED" for one in jobs))
    code, said, _ = here("cancel", jobs[0])
    assert (code, said) == (0, f"job {jobs[0]} is CANCELED\n")
    assert here("cancel", jobs[0])[0] == 0
    assert here("wait", jobs[0])[0] == 130
    os.kill(driver_of(jobs[1]), signal.SIGTERM)
    os.kill(driver_of(jobs[2]), signal.SIGKILL)
    assert here("wait", jobs[1])[0] == 130
    code, _, complaint = here("wait", jobs[2])
    assert (code, "its driver has died" in complaint) == (1, True)
    states = [one.state for one in list_jobs()]
    assert sorted(states) == ["CANCELED", "CANCELED", "FAILED"]
    assert "FAILED" in here("status", jobs[2])[1]


@pytest.mark.slow
def test_what_ends_before_its_first_job_is_told_at_once(folder):
    (folder / "script.py").write_text("print('before')\nraise ValueError('no \\x1b[31m way')\n")
    done = penstock("run", "-d", "script.py")
    assert (done.returncode, done.stdout) == (1, "")
    assert "before\npenstock: script.py failed: ValueError: no \\x1b[31m way" in done.stderr
    (folder / "script.py").write_text("pass\n")
    done = penstock("run", "-d", "script.py")
    assert (done.returncode, "script.py has run no job" in done.stderr) == (3, True)
    assert os.listdir(folder / "state" / "jobs") == []


@pytest.mark.slow
def test_an_attached_job_is_listed_and_fails_as_it_does(folder, here):
    (folder / "go").touch()
    (folder / "fail").touch()
    assert penstock("run", "script.py", folder, "a").returncode == 1
    (record,) = list_jobs()
    assert (record.state, record.log, record.submitted.detached) == ("FAILED", None, False)
    assert "no such value" in str(record.failure)
    assert here("logs", record.job_id)[0] == 3
    code, _, complaint = here("wait", record.job_id)
    assert (code, "no such value" in complaint) == (1, True)


@pytest.mark.slow
def test_a_list_that_cannot_be_written_stops_no_job(folder, monkeypatch, here):
    monkeypatch.setenv(STATE_DIR, "/dev/null/none")
    (folder / "go").touch()
    done = penstock("run", "script.py", folder, "a")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is not listed") == 1
    assert here("list")[:2] == (0, "no jobs: penstock run makes them\n")
    assert penstock("run", "-d", "script.py", folder, "a").returncode == 8


def test_commands_that_read_jobs_import_no_pyspark():
    code = (
        "import sys\n"
        "from penstock.engine.commands import jobs, recover\n"
        "from penstock.engine.run.runtime.job_records import list_jobs\n"
        "list_jobs()\n"
        "print({name.split('.')[0] for name in sys.modules} & {'pyspark', 'py4j', 'delta', 'pandas'})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
