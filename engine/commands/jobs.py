"""Commands about jobs (wait, cancel, status, list, logs) and the run page (ui)."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.table import Column

from penstock.engine.machine.machine_error import machine_error
from penstock.engine.output.people import print_table
from penstock.engine.output.pieces import StyledText
from penstock.engine.output.print_line import print_beside_output, print_foreign_line, print_line
from penstock.engine.output.redaction import redact
from penstock.engine.output.write_lines import write_texts
from penstock.engine.run.runtime.job_records import (
    JobFormatError,
    JobRecord,
    VertexState,
    driver_lives,
    find_job,
    jobs_of_other_formats,
    list_jobs,
    vertex_states,
    wait_for_job,
)
from penstock.engine.run.streams.stream_records import StreamRecord, list_streams
from penstock.plans.errors import ConfigurationError, InputError, JobCancelledError, PenstockError

# `penstock wait`: until a job has ended. JobArgument is shared by all commands about one job.


JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="The id of a job, or any unique prefix of it.")
]


def wait_command(job: JobArgument) -> None:
    """Wait until a job has ended.

    Examples:
        penstock wait 3f9a

    Exit codes:
        0: It is FINISHED.
        1: It is FAILED.
        3: There is no such job.
        130: It is CANCELED.
    """
    record = wait_for_job(find_job(job))
    if record.state == "CANCELED":
        raise JobCancelledError(f"job {record.job_id} was cancelled")
    if record.state == "FAILED":
        raise PenstockError(f"job {record.job_id} failed: {record.failure}")
    print_beside_output(f"job {record.job_id} is FINISHED")


# `penstock cancel`.


def cancel_command(
    job: JobArgument,
    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Return at once; do not wait until the job has ended.")
    ] = False,
) -> None:
    """Cancel a job, attached or detached, and wait until it is CANCELED; its sinks get nothing.

    Examples:
        penstock cancel 3f9a
        penstock cancel --no-wait 3f9a

    Exit codes:
        1: It has ended otherwise: a job that is committing its sinks ends as FINISHED.
        3: There is no such job.

    Source: org.apache.flink.runtime.dispatcher.Dispatcher.cancelJob, for jobs that have ended.
    """
    record = find_job(job)
    if not record.is_final:
        try:
            record.ask_to_cancel()
        except OSError as error:
            raise machine_error(error, f"job {record.job_id} cannot be cancelled") or error from error
        if no_wait:
            print_line(f"cancellation of job {record.job_id} is requested")
            return
        record = wait_for_job(record)
    _require_cancelled(record)
    print_line(f"job {record.job_id} is CANCELED")


def _require_cancelled(record: JobRecord) -> None:
    if record.state != "CANCELED":
        cause = f": {record.failure}" if record.failure else ""
        raise PenstockError(f"job {record.job_id} is not cancelled: it is {record.state}{cause}")


# Jobs as JSON.


def _job_as_json(job: JobRecord) -> dict[str, Any]:
    """Return a job with its vertices, without secrets. Raises InputError if the job has been removed."""
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


def _print_json(value: Any) -> None:
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


def status_command(
    job: JobArgument,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show a job: its state, and the state of its vertices.

    Examples:
        penstock status 3f9a

    Exit codes:
        3: There is no such job, or several begin with these digits.
    """
    record = find_job(job)
    if json:
        _print_json(_job_as_json(record))
        return
    for name, text in _job_texts(record):
        print_line(f"{name}: {redact(text)}")
    vertices = vertex_states(record)
    if vertices:
        names = ("vertex", "state", "subtasks", "attempts", "records in", "records out", "failure")
        print_table([Column(name) for name in names], map(_row, vertices))


def _job_texts(record: JobRecord) -> list[tuple[str, str]]:
    submitted = record.submitted
    started = datetime.fromtimestamp(submitted.started_at / 1000, UTC)
    lines = [
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
    return [(name, text) for name, text in lines if text.strip()]


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


# `penstock list`: the jobs of this user.


_ID = 12
"""Digits of an id that are shown. Commands accept any unique prefix."""


def list_command(
    running: Annotated[
        bool, typer.Option("-r", "--running", help="Only jobs and streams that have not ended.")
    ] = False,
    streams: Annotated[bool, typer.Option("--streams", help="Only streams of foreach_batch.")] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print all jobs with their vertices as JSON; with --streams, all streams with their latest "
            "batches.",
        ),
    ] = False,
) -> None:
    """List the jobs of `penstock run` that run, and the latest 100 that have ended, the latest first.

    Then the streams of `penstock.foreach_batch` with their last batch. A job whose driver has died is shown
    as FAILED, as is a stream whose driver has died within a batch.

    Examples:
        penstock list
        penstock list -r --json
        penstock list --streams
    """
    jobs = [] if streams else [record for record in list_jobs() if not (running and record.is_final)]
    listed = [record for record in list_streams() if not running or record.state == "RUNNING"]
    if json:
        _print_json(
            [record.as_json() for record in listed] if streams else [_job_as_json(job) for job in jobs]
        )
    else:
        _print_list(jobs, listed, "streams" if streams else "jobs", running=running)
    if not streams and (others := jobs_of_other_formats()):
        print_beside_output(StyledText(_left_out(others), "dim"))


def _print_list(
    jobs: Sequence[JobRecord], streams: Sequence[StreamRecord], wanted: str, *, running: bool
) -> None:
    if jobs:
        names = ("job", "name", "state", "started (UTC)", "seconds", "vertices")
        print_table([Column(name) for name in names], map(_list_row, jobs))
    elif wanted == "jobs":
        print_line("no jobs are running" if running else "no jobs: penstock run makes them")
    if streams:
        if wanted == "jobs":
            print_line("")
        print_table(
            [Column(name, justify="right" if name in _NUMBERS else "left") for name in _STREAM_COLUMNS],
            map(_stream_row, streams),
        )
    elif wanted == "streams":
        print_line("no streams are running" if running else "no streams: penstock.foreach_batch makes them")


_STREAM_COLUMNS = ("state folder", "job", "query", "state", "batches", "rows", "watermark", "state bytes")
_NUMBERS = ("batches", "rows", "state bytes")


def _stream_row(stream: StreamRecord) -> tuple[str, ...]:
    last: dict[str, Any] = stream.progress[-1] if stream.progress else {}
    return (
        redact(stream.folder),
        redact(stream.name),
        (stream.query or "")[:_ID],
        stream.state,
        f"{last['stateVersion']:,}" if last else "",
        f"{last['numInputRows']:,}" if last else "",
        last.get("eventTime", {}).get("watermark", ""),
        f"{last['stateBytes']:,}" if last else "",
    )


def _left_out(others: Sequence[JobFormatError]) -> str:
    """Return a line about jobs that were recorded in other formats."""
    more = f" ({len(others) - 1:,} more such jobs)" if len(others) > 1 else ""
    return f"{others[0].message}{more}"


def _list_row(job: JobRecord) -> tuple[str, ...]:
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


# `penstock logs`: the output of a detached driver.


_LOOK_SECONDS = 0.2
_CHUNK_BYTES = 1 << 16


def logs_command(
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new lines until the driver ends.")
    ] = False,
) -> None:
    """Print standard output and standard error of the driver of a detached job.

    Several jobs of one script share their driver's log.

    Examples:
        penstock logs 3f9a
        penstock logs -f 3f9a

    Exit codes:
        3: There is no such job, or it was not detached.
    """
    record = find_job(job)
    if record.log is None:
        raise InputError(
            f"job {record.job_id} has no log: its driver is not detached, and writes to its terminal",
            "`penstock run -d` saves the output of its driver",
        )
    for line in _lines(record, record.log, follow):
        print_foreign_line(line)


def _lines(record: JobRecord, log: Path, follow: bool) -> Iterator[str]:
    """Lines of the log, without their line feeds."""
    rest = b""
    with log.open("rb") as file:
        while True:
            lives = follow and driver_lives(record)  # checked before the last read
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


# `penstock ui`: jobs and runs in a browser.


def ui_command(
    store: Annotated[
        str | None, typer.Argument(metavar="[STORE]", help="Also show the runs that this store records.")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port on loopback; default: any free port.")
    ] = 0,
) -> None:
    """Serve a page with the jobs of this user, live, until it is stopped; the printed link opens it.

    Examples:
        penstock ui
        penstock ui plans --port 8080
    """
    from penstock.engine.views.ui.run_figures import list_runs
    from penstock.engine.views.ui.serve import RunPageServer, serve_run_page

    list_runs(store)  # raises errors of the store before the page is served
    try:
        server = RunPageServer(port, store)
    except OSError as error:
        raise ConfigurationError(
            f"--port {port}: {error.strerror or error}", "choose another port, or leave --port out"
        ) from error
    print_line(f"runs are shown at {server.link}")
    print_line("everyone with this link can see and cancel jobs; Ctrl-C ends the page")
    sys.stdout.flush()
    serve_run_page(server)
