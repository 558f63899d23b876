"""A job's plan, made in this process."""

from typing import Any

import pyarrow as pa

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.runtime.errors import JobCompileError
from penstock.engine.runtime.job import Job, topology_of, topology_to_run


def plan_job(job: Job) -> dict[str, pa.Table]:
    """Tables of all layers, as PyFlink submits the job.

    Raises JobCompileError with what Flink says where it refuses the job.
    """
    return _plan(job, topology_of(job))


def plan_to_run(job: Job) -> dict[str, pa.Table]:
    """Tables of all layers of the job as it runs here: in BATCH mode, too, with the script's parallelism.

    Raises JobCompileError with what Flink says where it refuses the job.
    """
    return _plan(job, topology_to_run(job))


def _plan(job: Job, topology: dict[str, Any]) -> dict[str, pa.Table]:
    planned = plan_in_process([topology], choices=job.plan_options.choices)
    refused = planned.tables["rejected"].to_pylist()
    if refused:
        one = refused[0]
        raise JobCompileError(f"job {job.name!r} cannot be planned ({one['error']}): {one['message']}")
    return planned.tables
