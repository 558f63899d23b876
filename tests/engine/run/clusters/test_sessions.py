"""A session of two slots that all tests of this module share: jobs give the same results as locally."""

import os
import re
import stat
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.engine.machine.folders import STATE_DIR, liveness
from penstock.engine.machine.stop_on_signals import is_running, processes_of_session
from penstock.engine.run.clusters.session_folder import live_session, write_session
from penstock.engine.run.clusters.session_server import connected_to
from penstock.engine.run.clusters.slot_request import ticket
from tests.engine.run.runtime.python_workers import kill, python_workers
from tests.processes import command_line

pytestmark = pytest.mark.spark

NAME = '"; rm -rf <b>'

SCRIPT = """
import os, sys, time
from pyflink.common import Encoder, Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink

env = StreamExecutionEnvironment.get_execution_environment()
numbers = env.from_collection(list(range(20)), Types.LONG())

def slow(value, what):
    open(f"begun-{what}-{os.getpid()}", "w").close()
    time.sleep(0.5)
    return value

def patch(value):
    import math, tempfile
    os.environ["LEFT_BY_A_CLIENT"] = os.environ["TZ"] = "Asia/Tokyo"
    sys.path.append("/left/by/a/client")
    time.tzset()
    os.umask(0o777)
    math.pi = 3
    sys.modules["left_by_a_client"] = math
    return "patched"

def look(value):
    import math
    mask = os.umask(0)
    os.umask(mask)
    left = {
        "environment": "LEFT_BY_A_CLIENT" in os.environ,
        "path": "/left/by/a/client" in sys.path,
        "zone": time.tzname[0] == "JST",
        "umask": mask == 0o777,
        "patched": math.pi == 3,
        "module": "left_by_a_client" in sys.modules,
    }
    return "left: " + ", ".join(name for name, found in left.items() if found)

def first():
    summed = numbers.map(lambda v: (v % 3, v), Types.TUPLE([Types.LONG(), Types.LONG()])).key_by(
        lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    with summed.execute_and_collect("sums <script>") as sums:
        print("last", sorted(dict(sums).items()))

for what in sys.argv[1:]:
    if what == "collect":
        first()
    elif what == "sink":
        text = numbers.map(str, Types.STRING())
        text.sink_to(FileSink.for_row_format("out", Encoder.simple_string_encoder()).build())
        env.execute("into files")
    elif what == "print":
        numbers.filter(lambda v: v == 7).print()
        env.execute("printed")
    elif what == "fail":
        numbers.map(lambda v: 1 // (v - 7), Types.LONG()).print()
        env.execute("divides")
    elif what.startswith("slow"):
        numbers.map(lambda value: slow(value, what), Types.LONG()).print()
        env.execute("slow")
    elif what in ("patch", "look"):
        numbers.map(patch if what == "patch" else look).print()
        env.execute(what)
    elif what == "spark":
        from pyspark.sql import SparkSession
        print("spark", SparkSession.builder.getOrCreate().range(5).count())
"""


def command(*arguments):
    return [sys.executable, "-m", "penstock.engine.commands.main", *arguments]


def penstock(environment, *arguments, cwd=None):
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the script, and a state folder with a session."""
    folder = tmp_path_factory.mktemp("session")
    (folder / "script.py").write_text(SCRIPT)
    environment = {
        **os.environ,
        STATE_DIR: str(folder / "state"),
        "PYTHONPATH": str(Path(__file__).parents[4]),
    }
    environment.pop("SPARK_CONF_DIR", None)
    quick = ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    start = ("session", "start", "--slots", "2", "--task-manager-memory", "1g", "--name", NAME, *quick)
    done = penstock(environment, *start)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == NAME
    before, os.environ[STATE_DIR] = os.environ.get(STATE_DIR), environment[STATE_DIR]
    try:
        yield folder, environment
        stopped = penstock(environment, "session", "stop", NAME)
        assert stopped.returncode == 0, stopped.stderr
    finally:
        if before is None:
            del os.environ[STATE_DIR]
        else:
            os.environ[STATE_DIR] = before


@pytest.fixture
def session(place):
    return live_session(NAME)


def run(place, *arguments, options=()):
    folder, environment = place
    return penstock(environment, "run", *options, str(folder / "script.py"), *arguments, cwd=folder)


def begin(place, *arguments, options=()):
    folder, environment = place
    return subprocess.Popen(
        command("run", *options, str(folder / "script.py"), *arguments),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(what, seconds=60):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_server_is_a_process_of_its_own(place, session):
    _, environment = place
    server = int(session.owner["pid"])
    assert liveness(session.owner) == "alive"
    assert os.getsid(server) == server
    assert stat.S_IMODE((session.folder / "token").stat().st_mode) == 0o600
    token = session.token
    assert re.fullmatch("[0-9a-f]{64}", token)
    for pid in processes_of_session(server):
        assert not any(token in word for word in command_line(pid))
    assert not (session.folder / "session.json").read_text().count(token)
    listed = penstock(environment, "session", "list")
    row = listed.stdout.splitlines()[1].split("\t")
    assert row[:6] == ["*", NAME, "running", "local[2]", "2", "2"]


def test_results_are_those_of_a_local_run(place):
    """Collected, printed, and committed to a relative path; and the script's own Spark is the session."""
    folder, _ = place
    done = run(place, "collect", "sink", "print", "spark", options=("-v", "--to", "store"))
    assert done.returncode == 0, done.stderr
    assert "recorded session: yes, session start has recorded" in done.stderr
    assert "last [(0, 63), (1, 70), (2, 57)]" in done.stdout
    assert re.search(r"^([12]> )?7$", done.stdout, re.MULTILINE)
    assert "spark 5" in done.stdout
    written = [line for part in folder.glob("out/**/part-*") for line in part.read_text().split()]
    assert sorted(map(int, written)) == list(range(20))
    runs = penstock(place[1], "runs", str(folder / "store")).stdout.splitlines()
    assert [line.split("\t")[2] for line in runs[1:]] == ["sums <script>", "into files", "printed"]


def test_a_worker_serves_one_client_only(place):
    """What a function of one client does to its process is not there for the functions of the next."""
    assert "patched" in run(place, "patch").stdout
    seen = set(run(place, "look").stdout.splitlines())
    assert {line.partition("> ")[2] for line in seen if "left:" in line} == {"left: "}


def test_a_failure_names_operator_and_record(place, session):
    """Also where somebody has killed all Python workers before."""
    kill(python_workers(int(session.owner["pid"])))
    done = run(place, "fail")
    assert done.returncode == 1
    assert "job 'divides' failed in operator 'Map' of vertex" in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "record: 7" in done.stderr


def test_a_plan_that_fails_in_the_session(place):
    folder, environment = place
    options = ("--planner", "joins", "--session", NAME)
    done = penstock(environment, "plan", "no.jsonl", "--out", "none", *options, cwd=folder)
    assert done.returncode == 3, done.stderr
    assert "no.jsonl" in done.stderr
    assert not list((folder / "state").glob("sessions/*/plans/*"))


@pytest.mark.parametrize("token", [None, "", "0" * 64])
def test_without_its_token_the_session_refuses(session, monkeypatch, token):
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession

    monkeypatch.delenv("SPARK_CONNECT_AUTHENTICATE_TOKEN", raising=False)
    with_token = "" if token is None else f"/;token={token}"
    client = SparkSession.builder.remote(f"sc://localhost:{session.port}{with_token}").create()
    client.release_session_on_close = False
    try:
        with pytest.raises((PySparkException, grpc.RpcError), match=r"UNAUTHENTICATED"):
            client.range(3).collect()
    finally:
        client.stop()


def test_a_job_too_wide_waits_and_fails_as_flinks(place):
    done = run(place, "collect", options=("-p", "3", "--slot-request-timeout", "300ms"))
    assert done.returncode == 1
    assert "NoResourceAvailableException: Could not acquire the minimum required resources." in done.stderr
    assert "a parallelism of 2 would fit (-p 2)" in done.stderr


def test_jobs_wait_for_their_turn(place, session):
    with ticket(session.folder, "other", 2) as other:
        assert other.ask(2, 2).has_slots
        clients = [begin(place, "collect", options=("--session", NAME)) for _ in range(2)]
        queue = session.folder / "queue"
        wait_for(lambda: len(list(queue.glob("*.*"))) == 3)
        assert all(client.poll() is None for client in clients)
    for client in clients:
        out, err = client.communicate(timeout=60)
        assert client.returncode == 0, err
        assert "last [(0, 63)" in out
    assert [path.name for path in queue.iterdir()] == ["lock"]


def test_clients_that_end_in_the_middle_leave_the_session_to_others(place):
    folder, _ = place
    ended, killed = (begin(place, "slow", options=("-p", "1")) for _ in range(2))
    wait_for(lambda: len(list(folder.glob("begun-*"))) == 2)
    ended.terminate()
    killed.kill()
    _, err = ended.communicate(timeout=30)
    assert ended.returncode == 143, err
    assert "job 'slow' was cancelled" in err
    killed.communicate(timeout=30)
    with connected_to(live_session(NAME)) as spark:
        assert spark.range(10).count() == 10
        # `localhost` may stand for other addresses, where somebody else listens
        assert spark.client._builder.endpoint.startswith("127.0.0.1:")


def test_settings_that_are_fixed_in_the_session(place):
    done = run(place, "collect", options=("--conf", "spark.driver.memory=3g"))
    assert done.returncode == 2
    assert "spark.driver.memory must be 1024m, its value in session" in done.stderr


def test_a_session_runs_once(place):
    _, environment = place
    again = penstock(environment, "session", "start", "--slots", "1", "--name", NAME)
    assert again.returncode == 2
    assert "runs already" in again.stderr


def test_a_dead_session_is_found_dead(place, session):
    """Its record stays, as after a kill -9; another process may have its number."""
    _, environment = place
    owner = {**session.owner, "started": "1"}
    dead = replace(session, name="dead", owner=owner, folder=session.folder.parent / "dead")
    dead.folder.mkdir()
    write_session(dead)
    done = run(place, "collect", options=("--session", "dead"))
    assert done.returncode == 2
    assert "session 'dead': its server" in done.stderr
    assert "has ended" in done.stderr
    stopped = penstock(environment, "session", "stop", "dead")
    assert stopped.returncode == 0
    assert "had ended already" in stopped.stderr
    assert is_running(int(session.owner["pid"]))


def test_a_session_that_dies_in_the_middle_of_a_job(place):
    """The last test of the module: it kills the session."""
    folder, _ = place
    session = live_session(NAME)
    client = begin(place, "slow-to-its-end")
    wait_for(lambda: any(folder.glob("begun-slow-to-its-end-*")))
    kill(processes_of_session(int(session.owner["pid"])))
    _, err = client.communicate(timeout=60)
    assert client.returncode == 1
    assert f"the server of session {NAME!r}, process {session.owner['pid']} on" in err
    assert "has ended" in err
