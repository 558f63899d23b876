"""A run as a page shows it: a job of the list of jobs, or one that a store records."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from engine.jobs.job_folder import SubmittedJob
from engine.jobs.job_records import JobRecord, list_jobs
from engine.store.open_plan import StoredPlan, open_plan
from engine.store.plan_versions import list_versions
from engine.store.tables_of import tables_of
from plans.columnar.frames import to_arrow
from plans.errors import InputError
from plans.tables import TABLES


@dataclass(frozen=True)
class StoredRun(JobRecord):
    """A run that a store records; it is over."""

    plan: StoredPlan | None = None
    kept: dict[str, pa.Table] = field(default_factory=dict)

    def table(self, name: str) -> pa.Table:
        """A table of the version that holds the run. InputError where it has none."""
        if name not in self.kept:
            if self.plan is None or not self.plan.has(name):
                raise InputError(f"run {self.job_id}: it has no table {name}")
            self.kept[name] = to_arrow(self.plan.table(name).collect(), name)
        return self.kept[name]


def shown_runs(store: str | None) -> list[JobRecord]:
    """The jobs of this user, and the runs that `store` records and that are not among them, the latest first.

    Raises StoreError and MachineError.
    """
    jobs = list_jobs()
    known = {one.job_id for one in jobs}
    stored = [one for one in _runs_of(store) if one.job_id not in known] if store is not None else []
    return sorted([*jobs, *stored], key=lambda one: (one.submitted.started_at, one.job_id), reverse=True)


def find_run(run_id: str, store: str | None) -> JobRecord | None:
    """The run of that id, as it is now; None where it is not shown."""
    return next((one for one in shown_runs(store) if one.job_id == run_id), None)


def _runs_of(store: str) -> list[JobRecord]:
    found: list[JobRecord] = []
    for version in list_versions(tables_of(store)):
        if "runs" not in version.tables:
            continue
        plan = open_plan(store, version.version)
        rows = plan.table("runs").with_columns(pl.col("started_at").dt.epoch("ms")).collect()
        found += [_stored(row, plan) for row in rows.iter_rows(named=True)]
    return found


def _stored(row: Mapping[str, object], plan: StoredPlan) -> StoredRun:
    submitted = SubmittedJob(
        job_id=str(row["run_id"]),
        name=str(row["name"]),
        runtime_mode=str(row["runtime_mode"]),
        started_at=int(str(row["started_at"])),
        cluster_kind="",
    )
    from pathlib import Path

    failure = None if row["failure"] is None else str(row["failure"])
    return StoredRun(submitted, Path(), str(row["state"]), failure, int(str(row["milliseconds"])), plan=plan)


def tables_to_draw(run: JobRecord) -> dict[str, pa.Table]:
    """The tables of its plan that a picture needs."""
    found = {}
    for name in TABLES:
        if name in ("transformations", "executions", "runs", "execution_edges", "rejected"):
            continue
        try:
            found[name] = run.table(name)
        except InputError:
            continue
    return found
