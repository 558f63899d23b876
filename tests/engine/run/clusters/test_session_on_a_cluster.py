"""A session on a real cluster that is too small at first, grows in time, and loses a worker."""

import os
import subprocess
import sys
import time

import pytest

from penstock.engine.machine.folders import STATE_DIR
from penstock.engine.run.clusters.session_folder import live_session
from tests.engine.run.runtime.spark_cluster import spark_cluster

pytestmark = pytest.mark.spark

SCRIPT = """
import os, sys, time
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

env = StreamExecutionEnvironment.get_execution_environment()

def slow(value, seconds=float(sys.argv[1])):
    open(f"begun-{os.getpid()}", "w").close()
    time.sleep(seconds)
    return (value % 3, value)

pairs = env.from_collection(list(range(20)), Types.LONG()).rebalance().map(
    slow, Types.TUPLE([Types.LONG(), Types.LONG()]))
summed = pairs.key_by(lambda t: t[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
with summed.execute_and_collect("sums") as sums:
    print("last", sorted(dict(sums).items()))
"""
LAST = "last [(0, 63), (1, 70), (2, 57)]"


def test_a_cluster_that_grows_and_loses_a_worker(tmp_path, monkeypatch):
    monkeypatch.setenv(STATE_DIR, str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    (tmp_path / "script.py").write_text(SCRIPT)

    def begin(*arguments):
        command = [sys.executable, "-m", "penstock.engine.commands.main", *arguments]
        return subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def ended(process, code):
        out, err = process.communicate(timeout=240)
        assert process.returncode == code, err
        return out, err

    with spark_cluster(tmp_path, workers=1, cores=1) as cluster:
        quick = [
            f"--conf=spark.{java}.extraJavaOptions=-XX:TieredStopAtLevel=1" for java in ("driver", "executor")
        ]
        options = ["-m", cluster.url, "--slots", "2", "--task-manager-memory", "512m", *quick]
        ended(begin("session", "start", *options, "--conf=spark.driver.host=127.0.0.1"), 0)
        try:
            assert live_session("default").registered() == {"task_managers": 1, "slots": 1}
            _, err = ended(begin("run", "--slot-request-timeout", "500ms", "script.py", "0"), 1)
            assert "session 'default' has 1 slot in 1 of 2 TaskManagers, 1 pending" in err
            assert "a parallelism of 1 would fit" in err

            clients = [begin("run", "script.py", wait) for wait in ("0.2", "0")]
            cluster.start_worker()
            end = time.monotonic() + 120
            while len(list(tmp_path.glob("begun-*"))) < 2 and time.monotonic() < end:
                time.sleep(0.05)
            cluster.kill_worker(1)
            cluster.start_worker()  # or the job that waits would wait on: it wants both slots
            for client in clients:
                assert LAST in ended(client, 0)[0]
        finally:
            ended(begin("session", "stop"), 0)
