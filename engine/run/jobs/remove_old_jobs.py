"""The list of jobs stays short: of those that have ended, the latest are kept."""

from penstock.engine.run.jobs.job_folder import remove_job_folder
from penstock.engine.run.jobs.job_records import list_jobs

MOST_ENDED = 100
"""Ended jobs that stay listed."""


def remove_old_jobs(most: int = MOST_ENDED) -> None:
    """Remove the folders of ended jobs but for the latest `most`. MachineError where they cannot be read."""
    ended = [record for record in list_jobs() if record.is_final]
    for record in ended[most:]:
        remove_job_folder(record.folder)
