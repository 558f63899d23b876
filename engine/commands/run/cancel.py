"""`penstock cancel`: end a job before its time."""

from typing import Annotated

import typer

from penstock.engine.commands.run.wait import JobArgument
from penstock.engine.machine.machine_error import machine_error
from penstock.engine.output.say import say
from penstock.engine.run.jobs.job_records import JobRecord, find_job, wait_for_job
from penstock.plans.errors import PenstockError


def command(
    job: JobArgument,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Only ask for it, and do not wait until the job has ended.")
    ] = False,
) -> None:
    """Cancel a job, attached or detached, and wait until it is CANCELED; its sinks get nothing.

    A job that is committing its sinks ends as FINISHED: that is an error.

    Source: org.apache.flink.runtime.dispatcher.Dispatcher.cancelJob, for jobs that have ended.
    """
    record = find_job(job)
    if not record.is_final:
        try:
            record.ask_to_cancel()
        except OSError as error:
            raise machine_error(error, f"job {record.job_id} cannot be cancelled") or error from error
        if no_wait:
            say(f"job {record.job_id} is asked to end")
            return
        record = wait_for_job(record)
    _require_cancelled(record)
    say(f"job {record.job_id} is CANCELED")


def _require_cancelled(record: JobRecord) -> None:
    if record.state != "CANCELED":
        cause = f": {record.failure}" if record.failure else ""
        raise PenstockError(f"job {record.job_id} is not cancelled: it is {record.state}{cause}")
