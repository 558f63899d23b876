"""Waiting until a job has ended."""

import time

from penstock.engine.run.jobs.job_records import JobRecord, read_again

_LOOK_SECONDS = 0.1


def wait_for_job(record: JobRecord) -> JobRecord:
    """The job when it has ended. InputError where it is removed meanwhile."""
    while not record.is_final:
        time.sleep(_LOOK_SECONDS)
        record = read_again(record)
    return record
