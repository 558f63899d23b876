"""A job as commands show it."""

from dataclasses import asdict
from typing import Any

import orjson

from penstock.engine.output.redaction import redact
from penstock.engine.output.write_lines import write_texts
from penstock.engine.run.jobs.job_records import JobRecord
from penstock.engine.run.jobs.vertex_states import vertex_states


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
