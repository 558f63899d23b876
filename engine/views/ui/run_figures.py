"""Texts about the state of a run, for its page and its updates."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.engine.output.redaction import redact
from penstock.engine.run.runtime.job_records import (
    JobRecord,
    SubmittedJob,
    VertexState,
    list_jobs,
    look_up_job,
    measured_texts,
    vertex_states,
)
from penstock.engine.run.streams.stream_records import StreamRecord
from penstock.engine.store.open_plan import open_plan, tables_of
from penstock.engine.store.plan_versions import complete, read_listed, versions_with
from penstock.plans.errors import InputError
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.printable import printable
from penstock.plans.tables import TABLES

# Runs of the page: jobs in the list of jobs, and runs recorded in a store.


@dataclass(frozen=True)
class StoredRun(JobRecord):
    """A run recorded in a store; it has ended."""

    store: str = ""
    version: int = 0
    tables: dict[str, pa.Table] = field(default_factory=dict)

    def table(self, name: str) -> pa.Table:
        """Return a table of the version that holds the run. Raises InputError if it is missing."""
        if name not in self.tables:
            plan = open_plan(self.store, self.version)
            if not plan.has(name):
                raise InputError(f"run {self.job_id}: it has no table {name}")
            self.tables[name] = to_arrow(plan.table(name).collect(), name)
        return self.tables[name]


def list_runs(store: str | None) -> list[JobRecord]:
    """Return the jobs of this user, and the other runs recorded in `store`, newest first.

    Raises StoreError and MachineError.
    """
    jobs = list_jobs()
    known = {job.job_id for job in jobs}
    stored = [run for run in _runs_of(store) if run.job_id not in known] if store is not None else []
    return sorted([*jobs, *stored], key=lambda run: (run.submitted.started_at, run.job_id), reverse=True)


def find_run(run_id: str, store: str | None) -> JobRecord | None:
    """Return the current state of a run; None if it is not shown. Raises StoreError and MachineError.

    The store is read only if the run is not a job of this user.
    """
    job = look_up_job(run_id)
    if job is not None or store is None:
        return job
    return next((run for run in _runs_of(store) if run.job_id == run_id), None)


class _Runs(NamedTuple):
    """Rows of table runs in a version."""

    version: int
    rows: list[dict[str, object]]


_known: dict[tuple[str, str], _Runs] = {}
"""Runs by store and write_id; the content of a version never changes."""


def _runs_of(store: str) -> list[JobRecord]:
    """Return the runs recorded in a store. Versions are read once per process."""
    runs: list[JobRecord] = []
    delta = tables_of(store)
    seen = read_listed(delta)
    listed_now = complete(seen)
    if any((store, listed.write_id) not in _known for listed in listed_now):
        with_runs = {listed.write_id for listed in versions_with(delta, seen, "runs")}
        for listed in listed_now:
            key, version = (store, listed.write_id), listed.version or 0
            if key not in _known:
                has_runs = listed.write_id in with_runs
                _known[key] = _read_runs(store, version) if has_runs else _Runs(version, [])
    for listed in listed_now:
        version, rows = _known[store, listed.write_id]
        runs += [_stored(row, store, version) for row in rows]
    return runs


def _read_runs(store: str, version: int) -> _Runs:
    plan = open_plan(store, version)
    if not plan.has("runs"):
        return _Runs(version, [])
    rows = plan.table("runs").with_columns(pl.col("started_at").dt.epoch("ms")).collect()
    return _Runs(version, list(rows.iter_rows(named=True)))


def _stored(row: Mapping[str, object], store: str, version: int) -> StoredRun:
    submitted = SubmittedJob(
        job_id=str(row["run_id"]),
        name=str(row["name"]),
        runtime_mode=str(row["runtime_mode"]),
        started_at=int(str(row["started_at"])),
        cluster_kind="",
    )
    from pathlib import Path

    failure = None if row["failure"] is None else str(row["failure"])
    return StoredRun(
        submitted,
        Path(),
        str(row["state"]),
        failure,
        int(str(row["milliseconds"])),
        store=store,
        version=version,
    )


def tables_to_draw(run: JobRecord) -> dict[str, pa.Table]:
    """Return the tables of its plan that a picture needs."""
    tables = {}
    for name in TABLES:
        if name in ("transformations", "executions", "runs", "execution_edges", "rejected"):
            continue
        try:
            tables[name] = run.table(name)
        except InputError:
            continue
    return tables


_ENDED = ("FINISHED", "FAILED", "CANCELED")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_LONGEST_FAILURE = 2_000


@dataclass(frozen=True, kw_only=True)
class VertexTexts:
    """A row of the table of vertices, and a line in the box of the picture."""

    key: str  #: key of the box, from graph_of_layer
    state: str
    note: str
    name: str
    subtasks: str
    records: str
    bytes: str
    busy: str
    skew: str
    attempts: str
    measured: str  #: metrics of user functions
    failure: str


@dataclass(frozen=True, kw_only=True)
class RunTexts:
    """The current state of a run."""

    state: str
    is_final: bool
    seconds: str
    failure: str
    vertices: tuple[VertexTexts, ...]

    def as_dict(self) -> dict[str, object]:
        """Return the texts as a dict, for JSON."""
        return asdict(self)


def run_figures(run: JobRecord) -> RunTexts:
    """Describe a run and its vertices, in topological order. Raises InputError if it cannot be read."""
    times = _times(run)
    return RunTexts(
        state=run.state,
        is_final=run.is_final,
        seconds=seconds(run.milliseconds),
        failure=_text(run.failure or ""),
        vertices=tuple(_row(vertex, times.get(vertex.vertex, _NONE)) for vertex in vertex_states(run)),
    )


def seconds(milliseconds: int) -> str:
    """Format a duration for people."""
    whole = milliseconds / 1000
    if whole < 60:
        return f"{whole:.1f} s"
    minutes, rest = divmod(int(whole), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def size(count: int) -> str:
    """Format a number of bytes for people."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.1f} {_UNITS[unit]}" if unit else f"{count} B"


@dataclass(frozen=True)
class _Times:
    """Running times of the latest attempts of a vertex, and the skew of their records."""

    busy: int  #: total running time in milliseconds
    longest: int
    skew: float | None  #: most records of a subtask, as a multiple of the mean


_NONE = _Times(0, 0, None)


def _times(run: JobRecord) -> Mapping[int, _Times]:
    executions = from_arrow(run.table("executions").drop_columns(["topology_id", "failed_record"]))
    if executions.is_empty():
        return {}
    now = time.time_ns() // 1_000_000
    entered = executions["state_timestamps"].to_list()
    spans = []
    for state, stamps in zip(executions["state"].to_list(), entered, strict=True):
        at = {name: int(entry.timestamp() * 1000) for name, entry in stamps.items()}
        begin = at.get("RUNNING")
        end = at.get(state, now) if state in _ENDED else now
        spans.append(0 if begin is None else max(0, end - begin))
    latest = (
        executions.with_columns(span=pl.Series(spans, dtype=pl.Int64))
        .sort("vertex", "subtask", "attempt_number")
        .group_by("vertex", "subtask", maintain_order=True)
        .last()
        .with_columns(pl.col("records_in", "records_out").fill_null(0))
    )
    times = {}
    for row in (
        latest.group_by("vertex", maintain_order=True)
        .agg(
            busy=pl.col("span").sum(),
            longest=pl.col("span").max(),
            subtasks=pl.len(),
            **{f"{statistic}_{name}": getattr(pl.col(f"records_{name}"), statistic)()
               for name in ("in", "out") for statistic in ("max", "mean")},
        )
        .iter_rows(named=True)
    ):  # fmt: skip
        side = "in" if row["max_in"] else "out"
        mean = row[f"mean_{side}"]
        skew = row[f"max_{side}"] / mean if row["subtasks"] > 1 and mean else None
        times[row["vertex"]] = _Times(row["busy"], row["longest"], skew)
    return times


def _row(vertex: VertexState, times: _Times) -> VertexTexts:
    ended = sum(count for state, count in vertex.subtasks.items() if state in _ENDED)
    known = vertex.records_in or vertex.records_out
    return VertexTexts(
        key=f"v{vertex.vertex}",
        state=vertex.state,
        note=f"{vertex.state} {ended:,} of {vertex.parallelism:,}"
        + (f", {short(vertex.records_in)} in, {short(vertex.records_out)} out" if known else ""),
        name=_text(vertex.name),
        subtasks="kept from an earlier run"
        if vertex.kept
        else ", ".join(f"{count:,} {state}" for state, count in sorted(vertex.subtasks.items())),
        records=f"{vertex.records_in:,} in, {vertex.records_out:,} out",
        bytes=f"{size(vertex.bytes_in)} in, {size(vertex.bytes_out)} out",
        busy=f"{seconds(times.busy)}, longest {seconds(times.longest)}" if times.longest else "",
        skew="" if times.skew is None else f"{times.skew:.2f}",
        attempts=f"{vertex.attempts:,}",
        measured=_text("; ".join(measured_texts(vertex.metrics))),
        failure=_text(vertex.failures[-1]) if vertex.failures else "",
    )


def stream_texts(stream: StreamRecord) -> dict[str, Any]:
    """Describe a stream, and its latest batches, the newest first."""
    return {
        "id": stream.stream_id,
        "name": _text(stream.name),
        "folder": _text(stream.folder),
        "query": stream.query or "",
        "state": stream.state,
        "failure": _text(stream.reason or ""),
        "batch": f"batch {stream.batch_id:,} runs" if stream.in_batch and stream.state == "RUNNING" else "",
        "batches": [_batch_texts(progress) for progress in reversed(stream.progress)],
    }


def _batch_texts(progress: Mapping[str, Any]) -> dict[str, str]:
    lag = progress["watermarkLagMs"]
    parts = [
        f"{part} {seconds(milliseconds)}"
        for part, milliseconds in progress["durationMs"].items()
        if part != "triggerExecution"
    ]
    return {
        "batch": f"{progress['batchId']:,}",
        "version": f"{progress['stateVersion']:,}",
        "started": _text(progress["timestamp"]),
        "rows": f"{progress['numInputRows']:,}",
        "watermark": _text(progress["eventTime"].get("watermark", "")),
        "lag": "" if lag is None else seconds(lag),
        "state": size(progress["stateBytes"]),
        "written": size(
            sum(operator["customMetrics"]["bytesWritten"] for operator in progress["stateOperators"])
        ),
        "seconds": seconds(progress["batchDuration"]),
        "parts": ", ".join(parts),
    }


def short(count: int) -> str:
    """Format a count in few characters."""
    for limit, unit in ((10**9, "G"), (10**6, "M"), (10**4, "k")):
        if count >= limit:
            return f"{count / (1000 if unit == 'k' else limit):.1f}{unit}"
    return f"{count:,}"


def _text(text: str) -> str:
    return printable(redact(text))[:_LONGEST_FAILURE]
