"""`penstock status`: one job."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import orjson
import typer
from rich.table import Column

from penstock.engine.commands.run.wait import JobArgument
from penstock.engine.output.people import print_table
from penstock.engine.output.redaction import redact
from penstock.engine.output.say import say
from penstock.engine.output.write_lines import write_texts
from penstock.engine.run.jobs.job_records import JobRecord, find_job
from penstock.engine.run.jobs.vertex_states import VertexState, vertex_states

# A job as commands show it.


def job_as_json(job: JobRecord) -> dict[str, Any]:
    """A job with its vertices, without secrets. InputError where it has been removed."""
    submitted = asdict(job.submitted)
    submitted.pop("owner")
    described = {
        **submitted,
        "state": job.state,
        "failure": job.failure,
        "milliseconds": job.milliseconds,
        "vertices": [asdict(vertex) for vertex in vertex_states(job)],
    }
    return {key: _redacted(value) for key, value in described.items()}


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    write_texts([orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()], None)


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: _redacted(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(item) for item in value]
    return value


def command(
    job: JobArgument,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a job: its state, and that of its vertices."""
    record = find_job(job)
    if json:
        print_json(job_as_json(record))
        return
    for name, text in _job_texts(record):
        say(f"{name}: {redact(text)}")
    vertices = vertex_states(record)
    if vertices:
        names = ("vertex", "state", "subtasks", "attempts", "records in", "records out", "failure")
        print_table([Column(name) for name in names], map(_row, vertices))


def _job_texts(record: JobRecord) -> list[tuple[str, str]]:
    submitted = record.submitted
    started = datetime.fromtimestamp(submitted.started_at / 1000, UTC)
    said = [
        ("job", submitted.job_id),
        ("name", submitted.name),
        ("state", record.state),
        ("failure", record.failure or ""),
        ("script", " ".join([submitted.script or "", *submitted.arguments])),
        ("mode", submitted.runtime_mode),
        ("cluster", " ".join(filter(None, [submitted.cluster_kind, submitted.master, submitted.session]))),
        ("driver", "detached" if submitted.detached else "attached"),
        ("started", f"{started:%Y-%m-%d %H:%M:%S} UTC"),
        ("seconds", f"{record.milliseconds / 1000:.1f}"),
        ("resumes job", submitted.resumed or ""),
        ("log", str(record.log or "")),
    ]
    return [(name, text) for name, text in said if text.strip()]


def _row(vertex: VertexState) -> tuple[str, ...]:
    counts = ", ".join(f"{count} {state}" for state, count in vertex.subtasks.items())
    return (
        redact(vertex.name),
        vertex.state,
        "kept from an earlier run" if vertex.kept else counts,
        str(vertex.attempts),
        f"{vertex.records_in:,}",
        f"{vertex.records_out:,}",
        redact(vertex.failures[-1]) if vertex.failures else "",
    )
