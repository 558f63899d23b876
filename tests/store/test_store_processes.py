"""The store between processes: one writer killed, and one that publishes at the same moment as this one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from engine.store import plan_versions
from engine.store import write_plan as writing
from engine.store.plan_versions import list_versions
from engine.store.remove_unfinished import remove_unfinished
from engine.store.spark_tables import SparkTables
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


def test_a_killed_writer_is_not_seen_and_two_others_lose_nothing(spark, tmp_path, monkeypatch):
    """The store is there already: its making at the same moment is tested in test_store."""
    store, go = tmp_path / "store", tmp_path / "go"
    assert write(spark, str(store), plan_of(spark, first="1")) == 1
    writers = {name: start(store, name, go) for name in ("killed", "a")}

    def publish_with_the_other(*arguments):
        assert [writer.stdout.readline() for writer in writers.values()] == ["ready\n"] * 2
        kill(writers["killed"])
        go.touch()
        return plan_versions.publish(*arguments)

    monkeypatch.setattr(writing, "publish", publish_with_the_other)
    try:
        versions = {"b": write(spark, str(store), plan_of(spark, b="1"))}
        versions["a"] = int(writers["a"].communicate(timeout=300)[0])
    finally:
        for writer in writers.values():
            if writer.poll() is None:
                kill(writer)
            writer.stdout.close()
    assert sorted(versions.values()) == [2, 3]
    assert [version.version for version in list_versions(SparkTables(spark, str(store)))] == [1, 2, 3]
    assert {name: names(spark, str(store), version) for name, version in versions.items()} == {
        "a": {"a"},
        "b": {"b"},
    }
    assert len(remove_unfinished(SparkTables(spark, str(store)), NOW)) == 1
    assert [version.version for version in list_versions(SparkTables(spark, str(store)))] == [1, 2, 3]
