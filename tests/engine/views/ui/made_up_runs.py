"""Jobs in the list of jobs, as their drivers would have written them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.engine.machine.folders import this_process
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.run.runtime.job_records import SubmittedJob, make_job_folder
from penstock.plans.tables import TABLES

EXAMPLES = Path("engine/examples/examples.jsonl")
BEGUN = datetime(2026, 11, 23, tzinfo=UTC)
MEASURED = {"Map": {"seen": 10, "length": {"sum": 8, "count": 2, "min": 1, "max": 7}}}
"""By each subtask that ran."""


def example(name: str) -> dict[str, Any]:
    """A bundled topology."""
    lines = map(json.loads, EXAMPLES.read_text(encoding="utf-8").splitlines())
    return next(one for one in lines if one["name"] == name)


def state_of(
    plan: Mapping[str, pa.Table],
    job_id: str,
    state: str,
    of_vertices: Mapping[int, str],
    failure: str | None = None,
) -> dict[str, pa.Table]:
    """Tables `runs` and `executions`: every subtask of a vertex is in its state, the last one is slower."""
    key = plan["topologies"]["topology_id"][0].as_py()
    vertices = plan["execution_job_vertices"].select(["vertex", "parallelism"]).to_pylist()
    executions = []
    for vertex in vertices:
        of_vertex = of_vertices.get(vertex["vertex"], "CREATED")
        for subtask in range(vertex["parallelism"]):
            ran = of_vertex != "CREATED"
            last = subtask == vertex["parallelism"] - 1
            stamps = [("CREATED", BEGUN)]
            if ran:
                stamps.append(("RUNNING", BEGUN + timedelta(seconds=1)))
                if of_vertex != "RUNNING":
                    stamps.append((of_vertex, BEGUN + timedelta(seconds=9 if last else 3)))
            executions.append(
                {
                    "topology_id": key,
                    "vertex": vertex["vertex"],
                    "subtask": subtask,
                    "attempt_number": 0,
                    "attempt_id": f"{job_id}_v_{subtask}_0",
                    "state": of_vertex,
                    "state_timestamps": stamps,
                    "host": "here" if ran else None,
                    "records_in": (3000 if last else 1000) if ran else None,
                    "records_out": 500 if ran else None,
                    "bytes_in": 2048 if ran else None,
                    "bytes_out": 10 if ran else None,
                    "failure": failure if of_vertex == "FAILED" else None,
                    "metrics": json.dumps(MEASURED) if ran else None,
                }
            )
    run = {
        "topology_id": key,
        "run_id": job_id,
        "name": plan["topologies"]["name"][0].as_py(),
        "state": state,
        "runtime_mode": "STREAMING",
        "started_at": BEGUN,
        "milliseconds": 9000,
        "vertices": len(vertices),
        "subtasks": len(executions),
        "attempts": len(executions),
        "failure": failure if state == "FAILED" else None,
    }
    return {
        "runs": pa.Table.from_pylist([run], TABLES["runs"]),
        "executions": pa.Table.from_pylist(executions, TABLES["executions"]),
    }


def submit(
    topology: Mapping[str, Any],
    number: int,
    state: str = "RUNNING",
    of_vertices: Mapping[int, str] | None = None,
    failure: str | None = None,
) -> tuple[Path, dict[str, pa.Table]]:
    """A job in the list of this user's, whose driver is this process: its folder, and its plan."""
    plan = dict(plan_in_process([topology]).tables)
    job = SubmittedJob(
        job_id=f"{number:032x}",
        name=str(topology["name"]),
        script=f"{topology['name']}.py",
        started_at=int(BEGUN.timestamp() * 1000) + number,
        owner=this_process(),
        master="local[*]",
    )
    return make_job_folder(
        job, plan, state_of(plan, job.job_id, state, of_vertices or {}, failure), None
    ), plan
