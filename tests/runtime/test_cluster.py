"""Jobs on a real cluster of two worker processes."""

import os
import subprocess
import sys
import time

import pytest

from tests.runtime.spark_cluster import spark_cluster

SCRIPT = """
import sys, time
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.common import WatermarkStrategy

slow = float(sys.argv[1])
env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbers = env.from_source(NumberSequenceSource(1, 999), WatermarkStrategy.no_watermarks(), "n", Types.LONG())


def wait(value):
    if slow and value % 10 == 0:
        time.sleep(slow)
    return value


def key(value):
    return value % 7


together = None
for name in ("shuffle", "rescale", "rebalance", "global_", "forward", "broadcast"):
    part = getattr(numbers.map(wait, Types.LONG()), name, None)
    part = numbers.map(wait, Types.LONG()) if part is None else part()
    mapped = part.map(lambda value, name=name: (name, value % 7, value), Types.TUPLE(
        [Types.STRING(), Types.LONG(), Types.LONG()]))
    together = mapped if together is None else together.union(mapped)
custom = numbers.partition_custom(lambda k, n: k % n, lambda value: value).map(
    lambda value: ("custom", value % 7, value), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
sums = together.union(custom).key_by(lambda t: (t[0], t[1])).reduce(lambda a, b: (a[0], a[1], a[2] + b[2]))
env.set_runtime_mode(__import__("pyflink.datastream", fromlist=["x"]).RuntimeExecutionMode.BATCH)
with sums.execute_and_collect("partitioners") as results:
    for one in results:
        print("RESULT", one)
"""


def expected():
    found = []
    for name in ("shuffle", "rescale", "rebalance", "global_", "forward", "broadcast", "custom"):
        times = 2 if name == "broadcast" else 1
        for key in range(7):
            total = times * sum(value for value in range(1, 1000) if value % 7 == key)
            found.append(f"RESULT {(name, key, total)!r}")
    return sorted(found)


def start(url, script, *arguments):
    command = [sys.executable, "-m", "engine.commands.main", "run", "-m", url]
    command += ["--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1"]
    command += ["--conf", "spark.driver.host=127.0.0.1", str(script), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(process):
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err[-3000:]
    return sorted(line for line in out.splitlines() if line.startswith("RESULT"))


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "partitioners.py"
    path.write_text(SCRIPT)
    return path


def test_every_partitioner_on_two_workers_one_of_which_is_killed(tmp_path, script):
    with spark_cluster(tmp_path, workers=2, cores=1) as cluster:
        assert results(start(cluster.url, script, "0")) == expected()
        slow = start(cluster.url, script, "0.02")
        end = time.monotonic() + 90
        while time.monotonic() < end and not _executors(tmp_path / "work1"):
            time.sleep(0.1)
        time.sleep(3)
        assert slow.poll() is None, "the job was over before a worker could be killed"
        cluster.kill_worker(1)
        assert results(slow) == expected()


def _executors(folder):
    return os.listdir(folder) if folder.is_dir() else []
