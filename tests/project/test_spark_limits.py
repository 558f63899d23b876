"""A disk that refuses, and memory too small for Spark: one message, before the work where that can be."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from penstock.engine.machine.available_memory import Available
from penstock.engine.planning import memory_estimate as planning
from penstock.engine.planning.memory_estimate import (
    BYTES_OF_A_PLANNED_ROW,
    require_memory_for_blocks,
    require_memory_of_workers,
    rows_at_once,
)
from penstock.engine.spark import spark_memory_estimate as starting
from penstock.engine.spark.describe_spark_error import disk_error_of_spark
from penstock.engine.spark.spark_memory_estimate import heap_mebibytes, require_memory_for_spark
from penstock.engine.spark.start_jvm import Silence, _explain, _without_refusals
from penstock.engine.spark.start_settings import require_local_folders
from penstock.engine.store.store_location import store_errors
from penstock.plans.errors import MachineError, NotEnoughMemoryError

FULL = "No space left on device"
SHUFFLE = (
    f"Job aborted due to stage failure: Task 0 failed: java.io.IOException: {FULL}\n"
    "\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)\n"
    "\tat org.apache.spark.storage.TimeTrackingOutputStream.write(TimeTrackingOutputStream.java:59)\n"
)
JAR = (
    "java.nio.file.FileSystemException: /ivy/delta.jar -> "
    f"/small/spark-fda93d80-5de2-4aa9-a5ce-ff3aa1730940/delta.jar: {FULL}"
)
DELTA = (
    "[TASK_WRITE_FAILED] Task failed while writing rows to file:/full/store/job_edges. SQLSTATE: 58030\n"
    "\tat org.apache.spark.sql.delta.files.DeltaFileFormatWriter$.executeTask(DeltaFileFormatWriter.scala)\n"
    f"Caused by: org.apache.hadoop.fs.FSError: java.io.IOException: {FULL}\n"
    "\tat org.apache.hadoop.fs.RawLocalFileSystem$LocalFSFileOutputStream.write(RawLocalFileSystem.java)\n"
)
WORKER = (
    f"OSError: [Errno 28] cannot write to the store: [Errno 28] {FULL}\n"
    "\tat org.apache.spark.storage.BlockManager.getOrElseUpdate(BlockManager.scala)\n"
)
FILE = "java.io.FileNotFoundException: /full/out/part-0 (Read-only file system)"


@pytest.mark.parametrize(
    ("said", "store", "named"),
    [
        (SHUFFLE, None, "Spark's local files to /small (1 MiB, of which 0 MiB are free now)"),
        (SHUFFLE, "store", "Spark's local files to /small (1 MiB, of which 0 MiB are free now)"),
        (JAR, None, "Spark's local files to /small (1 MiB, of which 0 MiB are free now)"),
        (DELTA, "/full/store", "/full/store"),
        (WORKER, "/full/store", "/full/store"),
        (FILE, None, "/full/out/part-0"),
    ],
)
def test_what_a_disk_refuses_names_the_place(monkeypatch, said, store, named):
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_frsize=2**20, f_blocks=1, f_bavail=0))
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/small")
    error = RuntimeError("failed")
    error.__cause__ = ValueError(said)
    found = disk_error_of_spark(error, {}, store)
    assert found is not None
    number = errno.EROFS if said == FILE else errno.ENOSPC
    assert (found.exit_code, found.message) == (8, f"writing {named}: {os.strerror(number)}")
    assert ("SPARK_LOCAL_DIRS" in (found.hint or "")) == ("local files" in named)


def test_other_errors_of_spark_are_no_refusal():
    assert disk_error_of_spark(RuntimeError("java.lang.ArithmeticException: / by zero"), {}) is None


def test_a_store_is_not_blamed_for_what_spark_spills(monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/small")
    for said, place in ((SHUFFLE, "Spark's local files to /small"), (DELTA, "writing /full/store: ")):
        with pytest.raises(MachineError, match=place), store_errors("/full/store", "writing"):
            raise PySparkException(said)


def test_local_folders_are_tried_before_a_jvm_starts(tmp_path: Path, monkeypatch):
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    (tmp_path / "file").write_text("")
    usable, refused = str(tmp_path / "new" / "below"), f"{tmp_path}/file/below"
    require_local_folders({"spark.local.dir": f"{refused}, {usable}"})
    assert os.listdir(usable) == []
    with pytest.raises(MachineError, match=r"writing Spark's local files to .*/file/below: Not a directory"):
        require_local_folders({"spark.local.dir": refused})

    def full(**_: object) -> None:
        raise OSError(errno.ENOSPC, FULL)

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", usable)
    with pytest.raises(MachineError, match=f"{usable}: {FULL}\n  hint: free some space there"):
        require_local_folders({"spark.local.dir": "/elsewhere"})


def test_a_jvm_without_space_is_explained():
    error = _explain(f"\n\tat java.x\njava.io.IOException: {FULL}\n")
    assert (type(error), FULL in str(error)) == (MachineError, True)


def test_log_lines_about_a_refusal_are_left_to_the_command(monkeypatch):
    monkeypatch.setattr(Silence, "until", 0.0)
    before = b"12:00:00 WARN A: careful\njava.lang.Error: x\n        at a.b.C.d(E.java:5)\n"
    assert _without_refusals(before) == b"12:00:00 WARN A: careful\njava.lang.Error: x\n"
    said = f"12:00:00 ERROR B: failed\njava.io.IOException: {FULL}\n\tat java.base/a.B.c(D.java:1)\n".encode()
    assert _without_refusals(said + b"12:00:00 ERROR C: it follows\nprinted\n") == b""
    assert _without_refusals(b"printed by a function\n") == b"printed by a function\n"
    monkeypatch.setattr(Silence, "until", 0.0)
    memory = b"12:00:00 ERROR C: x\njava.lang.OutOfMemoryError: Java heap space\n"
    assert (_without_refusals(memory), _without_refusals(before)) == (b"", b"")


def leaves(monkeypatch, gibibytes: float, limited_by: str = "the cgroup") -> None:
    for module in (starting, planning):
        monkeypatch.setattr(module, "available_memory", lambda: Available(int(gibibytes * 2**30), limited_by))
    monkeypatch.setattr(starting, "cores", lambda: 2)
    monkeypatch.setattr(starting, "driver_memory_mebibytes", lambda: 8 * 1024)


@pytest.mark.parametrize(("gibibytes", "fits"), [(1, False), (2, False), (2.2, True), (4, True)])
def test_a_local_spark_that_does_not_fit_is_not_started(monkeypatch, gibibytes, fits):
    leaves(monkeypatch, gibibytes)
    if fits:
        require_memory_for_spark()
    else:
        with pytest.raises(NotEnoughMemoryError, match=r"a local Spark takes about 2.08 GiB of memory"):
            require_memory_for_spark()


def test_limits_of_address_space_count_what_a_jvm_reserves(monkeypatch):
    leaves(monkeypatch, 3.9, "`ulimit -v` (8 GiB)")
    with pytest.raises(NotEnoughMemoryError, match=r"takes about 4.00 GiB"):
        require_memory_for_spark()


@pytest.mark.parametrize(("gibibytes", "heap"), [(2.2, 1140), (4, 2986), (24, 8192), (1, 1024)])
def test_the_heap_leaves_room_for_python(monkeypatch, gibibytes, heap):
    leaves(monkeypatch, gibibytes)
    assert heap_mebibytes() == pytest.approx(heap, abs=5)


@pytest.mark.parametrize(
    ("rows", "largest", "fits"),
    [
        (1_000, 50, True),
        (260_000, 260_000, True),
        (900_000, 900_000, False),
        (2_000_000, 50, False),
    ],
)
def test_what_workers_plan_is_foreseen(monkeypatch, rows, largest, fits):
    leaves(monkeypatch, 4)
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", _gateway=None, _jvm=None))
    left = planning.memory_of_workers(spark)
    at_once = rows_at_once(rows, largest, 8, 2)
    if fits:
        require_memory_of_workers(at_once, at_once * BYTES_OF_A_PLANNED_ROW, left)
    else:
        with pytest.raises(NotEnoughMemoryError, match=f"planning {at_once:,} transformations at a time"):
            require_memory_of_workers(at_once, at_once * BYTES_OF_A_PLANNED_ROW, left)


def test_what_the_jvm_may_still_take_is_not_the_workers(monkeypatch):
    leaves(monkeypatch, 4)
    monkeypatch.setattr(planning, "resident_bytes", lambda _: 2**30)
    monkeypatch.setattr(planning, "heap_bytes", lambda _: 2**31)
    gateway = SimpleNamespace(proc=SimpleNamespace(pid=1))
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[2]", _gateway=gateway))
    assert planning.memory_of_workers(spark).size_bytes == pytest.approx(2.63 * 2**30, abs=2**24)


@pytest.mark.parametrize(
    ("rows", "tasks", "at_a_time", "fits"),
    [
        (100_000, 400_000, 100_000, None),
        (4_000_000, 16_000_000, 250_000, True),
        (4_000_000, 160_000_000, 250_000, False),
        (4_000_000, 16_000_000, 1_000_000, False),
        (12_000_000, 12_000_000, 250_000, False),
    ],
)
def test_memory_for_blocks_is_required_before_a_job(monkeypatch, rows, tasks, at_a_time, fits):
    """Rows and tasks of the walk and rows of blocks count; it is measured only where it may be too little."""
    asked = []

    def left() -> Available:
        asked.append(rows)
        return Available(3 * 2**30, "this machine")

    if fits is False:
        with pytest.raises(NotEnoughMemoryError, match=f"planning {rows:,} transformations in blocks"):
            require_memory_for_blocks(rows, tasks, at_a_time, left)
    else:
        require_memory_for_blocks(rows, tasks, at_a_time, left)
    assert asked == ([] if fits is None else [rows])
