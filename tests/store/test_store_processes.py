"""The store between processes: a writer is killed while another one publishes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from penstock.engine.store import plan_versions
from penstock.engine.store import write_plan as writing
from penstock.engine.store.plan_versions import list_versions
from penstock.engine.store.remove_unfinished import remove_unfinished
from penstock.engine.store.spark_tables import SparkTables
from tests.store.test_store import NOW, names, plan_of, write

ROOT = Path(__file__).parents[2]


def start(store, name, go):
    command = [sys.executable, "-m", "tests.store.writer_process", str(store), name, str(go)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)


def kill(process):
    """Python and its JVM."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_a_killed_writer_is_not_seen_and_another_loses_nothing(spark, tmp_path, monkeypatch):
    """Writers that publish at the same moment are in test_store and test_store_with_and_without_spark."""
    store, go = tmp_path / "store", tmp_path / "go"
    assert write(spark, str(store), plan_of(spark, first="1")) == 1
    killed = start(store, "killed", go)

    def publish_after_the_kill(*arguments):
        assert killed.stdout.readline() == "ready\n"
        kill(killed)
        go.touch()
        return plan_versions.publish(*arguments)

    monkeypatch.setattr(writing, "publish", publish_after_the_kill)
    try:
        assert write(spark, str(store), plan_of(spark, b="1")) == 2
    finally:
        if killed.poll() is None:
            kill(killed)
    assert [version.version for version in list_versions(SparkTables(spark, str(store)))] == [1, 2]
    assert names(spark, str(store)) == {"b"}
    assert len(remove_unfinished(SparkTables(spark, str(store)), NOW)) == 1
    assert [version.version for version in list_versions(SparkTables(spark, str(store)))] == [1, 2]
