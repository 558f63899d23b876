"""A run as a page shows it: a job of the list of jobs, or one that a store records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl
import pyarrow as pa

from penstock.engine.run.jobs.job_folder import SubmittedJob
from penstock.engine.run.jobs.job_records import JobRecord, list_jobs, look_up_job
from penstock.engine.store.open_plan import open_plan
from penstock.engine.store.plan_versions import complete, read_listed, versions_with
from penstock.engine.store.tables_of import tables_of
from penstock.plans.errors import InputError
from penstock.plans.frames.polars_frames import to_arrow
from penstock.plans.tables import TABLES


@dataclass(frozen=True)
class StoredRun(JobRecord):
    """A run that a store records; it is over."""

    store: str = ""
    version: int = 0
    kept: dict[str, pa.Table] = field(default_factory=dict)

    def table(self, name: str) -> pa.Table:
        """A table of the version that holds the run. InputError where it has none."""
        if name not in self.kept:
            plan = open_plan(self.store, self.version)
            if not plan.has(name):
                raise InputError(f"run {self.job_id}: it has no table {name}")
            self.kept[name] = to_arrow(plan.table(name).collect(), name)
        return self.kept[name]


def shown_runs(store: str | None) -> list[JobRecord]:
    """The jobs of this user, and the runs that `store` records and that are not among them, the latest first.

    Raises StoreError and MachineError.
    """
    jobs = list_jobs()
    known = {job.job_id for job in jobs}
    stored = [run for run in _runs_of(store) if run.job_id not in known] if store is not None else []
    return sorted([*jobs, *stored], key=lambda run: (run.submitted.started_at, run.job_id), reverse=True)


def find_run(run_id: str, store: str | None) -> JobRecord | None:
    """The run of that id, as it is now; None where it is not shown. Raises StoreError and MachineError.

    The store is looked at only if the run is no job of this user.
    """
    job = look_up_job(run_id)
    if job is not None or store is None:
        return job
    return next((run for run in _runs_of(store) if run.job_id == run_id), None)


class _Runs(NamedTuple):
    """The rows of table runs that a version holds."""

    version: int
    rows: list[dict[str, object]]


_known: dict[tuple[str, str], _Runs] = {}
"""By store and write_id; what a version holds does not change."""


def _runs_of(store: str) -> list[JobRecord]:
    """The runs that a store records. Versions that this process has read before are not read again."""
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
    """The tables of its plan that a picture needs."""
    tables = {}
    for name in TABLES:
        if name in ("transformations", "executions", "runs", "execution_edges", "rejected"):
            continue
        try:
            tables[name] = run.table(name)
        except InputError:
            continue
    return tables
