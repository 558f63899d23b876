"""A job that is about to run, as earlier runs of it are compared with it."""

from penstock.engine.commits.earlier_runs import JobSink, NextRun
from penstock.engine.runtime.job import Job
from penstock.engine.runtime.job_fingerprint import job_fingerprint
from penstock.operators.connectors.recover_sinks import needs_commit, recovery_of
from penstock.operators.connectors.sink import Sink


def next_run(job: Job) -> NextRun:
    """What earlier runs are compared with."""
    sinks = [
        JobSink(one.name, one.operator, one.output_type)
        for one in job.transformations
        if isinstance(one.operator, Sink)
    ]
    options = {
        recovery.folder: given
        for one in sinks
        if (given := getattr(one.sink, "storage_options", None)) and (recovery := recovery_of(one.sink))
    }
    committed = any(needs_commit(one.sink) for one in sinks)
    return NextRun(job.name, job_fingerprint(job) if committed else "", sinks, options)
