"""Jobs on a real cluster of two worker processes."""

import subprocess
import sys
import time

import pytest

from tests.runtime.spark_cluster import spark_cluster

pytestmark = pytest.mark.spark

#: A job that tells in a file of each subtask that it has begun, and waits until a worker is killed.
SCRIPT = """
import os, sys, time
from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.common import WatermarkStrategy

env = StreamExecutionEnvironment.get_execution_environment()
env.set_parallelism(2)
numbers = env.from_source(
    NumberSequenceSource(1, 999), WatermarkStrategy.no_watermarks(), "n", Types.LONG())

def wait(value, folder=sys.argv[1]):
    while not os.path.exists(os.path.join(folder, "killed")):
        open(os.path.join(folder, str(os.getpid())), "w").close()
        time.sleep(0.02)
    return value

together = None
for name in ("shuffle", "rescale", "rebalance", "global_", "forward", "broadcast"):
    part = getattr(numbers.map(wait, Types.LONG()), name)()
    mapped = part.map(lambda value, name=name: (name, value % 7, value), Types.TUPLE(
        [Types.STRING(), Types.LONG(), Types.LONG()]))
    together = mapped if together is None else together.union(mapped)
custom = numbers.partition_custom(lambda k, n: k % n, lambda value: value).map(
    lambda value: ("custom", value % 7, value), Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()]))
sums = together.union(custom).key_by(lambda t: (t[0], t[1])).reduce(
    lambda a, b: (a[0], a[1], a[2] + b[2]))
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
    command = [sys.executable, "-m", "penstock.engine.commands.main", "run", "-m", url]
    command += ["--conf", "spark.executor.memory=512m", "--conf", "spark.executor.cores=1"]
    command += ["--conf", "spark.driver.host=127.0.0.1"]
    # As in the test profile: the optimising compiler costs a short run more than it saves.
    for java in ("driver", "executor"):
        command += ["--conf", f"spark.{java}.extraJavaOptions=-XX:TieredStopAtLevel=1"]
    command += [str(script), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_every_partitioner_on_two_workers_one_of_which_is_killed(tmp_path):
    script, begun = tmp_path / "partitioners.py", tmp_path / "begun"
    script.write_text(SCRIPT)
    begun.mkdir()
    with spark_cluster(tmp_path, workers=2, cores=1) as cluster:
        process = start(cluster.url, script, str(begun))
        try:
            end = time.monotonic() + 180
            while time.monotonic() < end and process.poll() is None and len(list(begun.iterdir())) < 2:
                time.sleep(0.1)
            cluster.kill_worker(1)
            (begun / "killed").touch()
            out, err = process.communicate(timeout=240)
        finally:
            process.kill()
    assert process.returncode == 0, err[-3000:]
    assert sorted(line for line in out.splitlines() if line.startswith("RESULT")) == expected()
    assert len(list(begun.iterdir())) > 2, "the worker was killed before it had begun"
