"""`penstock run -d`: what the command says of the driver that it starts."""

from collections.abc import Sequence

import typer

from penstock.engine.jobs.detached_driver import start_driver
from penstock.engine.output.say import complain, say
from penstock.plans.errors import InputError


def run_detached(options: Sequence[str], script: str, arguments: Sequence[str]) -> None:
    """Start a driver for `script`, and print the id of its first job once that is submitted.

    Where the driver ends before, what it has said is repeated on standard error, and its exit code is that of
    this command. InputError where the script ends well without a job.
    """
    started = start_driver(options, script, arguments)
    if started.job_id is not None:
        say(started.job_id)
        return
    if started.said.strip():
        complain(started.said.rstrip())
    if started.exit_code:
        code = started.exit_code
        raise typer.Exit(code if code > 0 else 128 - code)
    raise InputError(f"{script} has run no job", "a detached script is one that calls execute()")
