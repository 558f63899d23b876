"""`penstock logs`: what a detached driver has written."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from penstock.engine.commands.run.wait import JobArgument
from penstock.engine.output.say import repeat
from penstock.engine.run.jobs.job_records import JobRecord, driver_lives, find_job
from penstock.plans.errors import InputError

_LOOK_SECONDS = 0.2
_CHUNK_BYTES = 1 << 16


def command(
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on with what is written, until the driver ends.")
    ] = False,
) -> None:
    """Print standard output and standard error of the driver of a detached job.

    Several jobs of one script share their driver's log.
    """
    record = find_job(job)
    if record.log is None:
        raise InputError(
            f"job {record.job_id} has no log: its driver is not detached, and writes to its terminal",
            "`penstock run -d` keeps what a driver writes",
        )
    for line in _lines(record, record.log, follow):
        repeat(line)


def _lines(record: JobRecord, log: Path, follow: bool) -> Iterator[str]:
    """Lines of the log, without their line feeds."""
    rest = b""
    with log.open("rb") as file:
        while True:
            lives = follow and driver_lives(record)  # before what it has written is read
            while chunk := file.read(_CHUNK_BYTES):
                *whole, rest = (rest + chunk).split(b"\n")
                yield from (line.decode(errors="replace") for line in whole)
                if len(rest) > _CHUNK_BYTES:
                    yield rest.decode(errors="replace")
                    rest = b""
            if not lives:
                break
            time.sleep(_LOOK_SECONDS)
    if rest:
        yield rest.decode(errors="replace")
