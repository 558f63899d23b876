"""A job's plan, made in this process."""

import pyarrow as pa

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.runtime.errors import JobCompileError
from penstock.engine.runtime.job import Job, topology_of


def plan_job(job: Job) -> dict[str, pa.Table]:
    """Tables of all layers; JobCompileError with what Flink says where it refuses the job."""
    planned = plan_in_process([topology_of(job)], choices=job.plan_options.choices)
    refused = planned.tables["rejected"].to_pylist()
    if refused:
        one = refused[0]
        raise JobCompileError(f"job {job.name!r} cannot be planned ({one['error']}): {one['message']}")
    return planned.tables
