"""`penstock wait`: until a job has ended."""

from typing import Annotated

import typer

from penstock.engine.output.say import say_beside_output
from penstock.engine.run.jobs.job_records import find_job, wait_for_job
from penstock.engine.run.runtime.errors import JobCancelledError
from penstock.plans.errors import PenstockError

# The argument of commands that are about one job.


JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="The id of a job, or digits that only its id begins with.")
]


def command(job: JobArgument) -> None:
    """Wait until a job has ended: exit code 0 if it is FINISHED, 1 if FAILED, 130 if CANCELED."""
    record = wait_for_job(find_job(job))
    if record.state == "CANCELED":
        raise JobCancelledError(f"job {record.job_id} was cancelled")
    if record.state == "FAILED":
        raise PenstockError(f"job {record.job_id} failed: {record.failure}")
    say_beside_output(f"job {record.job_id} is FINISHED")
