"""Runs jobs of known cost on the real Flink's MiniCluster, in a JVM that ends with the call."""

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.engine.flink.capture.program_command import JAVA_OPTIONS
from penstock.engine.flink.plan_with_flink import compiled_measured_jobs, flink_jars
from penstock.engine.machine.die_with_parent import with_parent
from penstock.engine.machine.temporary_folders import short_lived_folder
from penstock.engine.spark.find_java import require_java
from penstock.plans.errors import PenstockError

HEAP = "2g"


class MeasuredOperator(NamedTuple):
    """An operator that spins for `nanoseconds` a record; `inputs` are (source, partitioner, tag or "")."""

    id: int
    parallelism: int
    nanoseconds: float = 0.0
    selectivity: float = 1.0
    bytes: int = 100
    group: str = "default"
    new_chain: bool = False
    inputs: Sequence[tuple[int, str, str]] = ()


class MeasuredJob(NamedTuple):
    """Operators in topological order; measured for `seconds` after `warm_up_seconds`."""

    name: str
    operators: Sequence[MeasuredOperator]
    object_reuse: bool = False
    warm_up_seconds: float = 1.0
    seconds: float = 1.0


class MiniCluster(NamedTuple):
    """TaskManagers in one process, which share all cores of the machine."""

    task_managers: int = 1
    slots: int = 64
    buffer_bytes: int = 32_768


class JobRun(NamedTuple):
    """What one run measured: records/s that each source emitted, and processor seconds a second of each task
    and subtask (by `task NAME`, `subtask NAME`), of `network` threads and of the `process`. `error`: why it
    did not run."""

    name: str
    records_per_second: Mapping[int, float]
    processor: Mapping[str, float]
    error: str | None


class MeasuredJobsError(PenstockError):
    """The JVM that runs jobs ended early."""


ONE_TASK_MANAGER = MiniCluster()


def run_measured_jobs(jobs: Iterable[MeasuredJob], cluster: MiniCluster = ONE_TASK_MANAGER) -> list[JobRun]:
    """A run for each job, in their order, on one MiniCluster.

    Raises ConfigurationError (the extra `flink`, Java or javac are missing) and MeasuredJobsError.
    """
    java, jars = require_java(), flink_jars()
    classes = compiled_measured_jobs(jars, java)
    with short_lived_folder("flink-jobs") as folder:
        jobs_file, results, log = (Path(folder, name) for name in ("jobs", "results", "log"))
        jobs_file.write_text("".join(json.dumps(_as_json(job)) + "\n" for job in jobs), encoding="utf-8")
        command = [
            java.path, *JAVA_OPTIONS, f"-Xmx{HEAP}", "-Dlog4j2.level=ERROR", "-cp", f"{classes}:{jars / '*'}",
            "penstock.flink.measured.RunJobs", str(jobs_file), str(results),
            str(cluster.task_managers), str(cluster.slots), f"{cluster.buffer_bytes}b",
        ]  # fmt: skip
        with log.open("wb") as file:
            code = subprocess.run(
                with_parent(command), stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
            ).returncode
        if code:
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise MeasuredJobsError(f"Flink's MiniCluster ended with exit code {code}: {''.join(last)}")
        return [_run(json.loads(line)) for line in results.read_text(encoding="utf-8").splitlines()]


def _as_json(job: MeasuredJob) -> dict[str, Any]:
    operators = []
    for operator in job.operators:
        inputs = [
            {"source": source, "partitioner": partitioner, "tag": tag}
            for source, partitioner, tag in operator.inputs
        ]
        operators.append({**operator._asdict(), "inputs": inputs})
    return {**job._asdict(), "operators": operators}


def _run(result: Mapping[str, Any]) -> JobRun:
    if "error" in result:
        return JobRun(result["name"], {}, {}, result["error"])
    seconds = result["seconds"]
    return JobRun(
        result["name"],
        {int(source): count / seconds for source, count in result["records"].items()},
        {name: spent / seconds for name, spent in result["processor_seconds"].items()},
        None,
    )
