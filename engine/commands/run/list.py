"""`penstock list`: the jobs of this user."""

from collections import Counter
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Column

from penstock.engine.commands.run.status import job_as_json, print_json
from penstock.engine.output.people import print_table
from penstock.engine.output.redaction import redact
from penstock.engine.output.say import say
from penstock.engine.run.jobs.job_records import JobRecord, list_jobs
from penstock.engine.run.jobs.vertex_states import vertex_states
from penstock.plans.errors import InputError

_ID = 12
"""Digits of an id that are shown; any that are unique will do."""


def command(
    running: Annotated[bool, typer.Option("-r", "--running", help="Only jobs that have not ended.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON: every job with its vertices.")] = False,
) -> None:
    """List the jobs of `penstock run` that run, and the latest 100 that have ended, the latest first.

    A job whose driver has died is shown as FAILED.
    """
    jobs = [record for record in list_jobs() if not (running and record.is_final)]
    if json:
        print_json([job_as_json(record) for record in jobs])
    elif jobs:
        names = ("job", "name", "state", "started (UTC)", "seconds", "vertices")
        print_table([Column(name) for name in names], map(_row, jobs))
    else:
        say("no jobs are running" if running else "no jobs: penstock run makes them")


def _row(job: JobRecord) -> tuple[str, ...]:
    started = datetime.fromtimestamp(job.submitted.started_at / 1000, UTC)
    return (
        job.job_id[:_ID],
        redact(job.submitted.name),
        job.state,
        f"{started:%Y-%m-%d %H:%M:%S}",
        f"{job.milliseconds / 1000:.1f}",
        _vertices(job),
    )


def _vertices(job: JobRecord) -> str:
    try:
        states = Counter(vertex.state for vertex in vertex_states(job))
    except InputError:  # it is being removed
        return ""
    return ", ".join(f"{count} {state}" for state, count in states.items())
