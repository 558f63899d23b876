"""The result of a job that an earlier run has done: none of its vertices runs."""

from datetime import datetime

import pyarrow as pa

from penstock.engine.commits.earlier_runs import say
from penstock.engine.commits.journal import Run
from penstock.engine.runtime.compile_job import CompiledJob
from penstock.engine.runtime.job import Job
from penstock.engine.runtime.job_monitor import now
from penstock.engine.runtime.job_result import JobResult
from penstock.engine.runtime.run_control import RunControl, ended, run_listeners, submit_listeners


def job_done_before(job: Job, control: RunControl, tables: dict[str, pa.Table], why: str) -> JobResult:
    """The result of a job that an earlier run has done: no vertex has run."""
    say(f"job {job.name!r} is not run again: {why}")
    nothing = CompiledJob((), ())
    result = JobResult(
        control.job_id,
        job.name,
        job.batch,
        "FINISHED",
        None,
        now(),
        0,
        [],
        tables,
        nothing,
        job.plan_options.recorded,
    )
    for submitted in submit_listeners:
        submitted(result, control)
    ended(control, result)
    for listener in run_listeners:
        listener(result)
    if control.recovered is not None:
        control.recovered.finished()
    return result


def committed_before(repeated: Run) -> str:
    """Why a job is not run again whose earlier run had committed, and was killed before it could say so."""
    return (
        f"its run {repeated.short_id} of {datetime.fromtimestamp(repeated.started_at):%Y-%m-%d %H:%M:%S} is "
        "committed, and ended before it could say so; the next run is a new one"
    )
