"""Jobs of a script whose finished data sets are kept, and those that go on with what is kept.

Jobs of a script are told apart by their order: the first that is submitted has number 0.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa

from penstock.engine.run.commits.commit_run import say
from penstock.engine.run.recovery.kept_script import KeptJob, KeptScript
from penstock.engine.run.runtime.transformations import Job
from penstock.plans.errors import InputError
from penstock.plans.installation import own_version

# Identifies a plan by what kept data sets depend on, to find those of an earlier run.


_MOST_NAMED = 10


def identify_plan(name: str, batch: bool, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """The identity of a plan as JSON: for each vertex id its operators by id, its parallelism and inputs."""
    sizes = {row["vertex"]: row for row in tables["execution_job_vertices"].to_pylist()}
    ids = {row["vertex"]: row["vertex_id"] for row in tables["job_vertices"].to_pylist()}
    vertices: dict[str, Any] = {}
    for row in tables["job_vertices"].to_pylist():
        size = sizes[row["vertex"]]
        vertices[row["vertex_id"]] = {
            "name": row["name"],
            "parallelism": [size["parallelism"], size["max_parallelism"]],
            "operators": {},
            "inputs": [],
        }
    for row in tables["chained_operators"].to_pylist():
        vertices[ids[row["vertex"]]]["operators"][row["operator_id"]] = row["name"]
    edges = tables["job_edges"].select(
        ["target_vertex", "input_index", "source_vertex", "ship_strategy", "distribution"]
    )
    for row in sorted(edges.to_pylist(), key=itemgetter("target_vertex", "input_index")):
        vertices[ids[row["target_vertex"]]]["inputs"].append(
            [ids[row["source_vertex"]], row["ship_strategy"], row["distribution"]]
        )
    return {
        "penstock": own_version(),
        "job": name,
        "mode": "BATCH" if batch else "STREAMING",
        "vertices": vertices,
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The changes between two plans, in words; none if data sets of one serve the other."""
    changes = [
        f"{setting} was {before[setting]!r}, is {now[setting]!r}"
        for setting in ("penstock", "job", "mode")
        if before[setting] != now[setting]
    ]
    old, new = _operators(before), _operators(now)
    changes += [f"operator {name!r} ({key}) is gone" for key, (name, _) in old.items() if key not in new]
    changes += [f"operator {name!r} ({key}) is new" for key, (name, _) in new.items() if key not in old]
    for key, (name, vertex) in new.items():
        if key in old:
            changes += [f"operator {name!r} ({key}) {change}" for change in _changes(old[key][1], vertex)]
    return (
        changes
        if len(changes) <= _MOST_NAMED
        else [*changes[:_MOST_NAMED], f"{len(changes) - _MOST_NAMED} more"]
    )


def _operators(plan: Mapping[str, Any]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Name and vertex of each operator, by its id."""
    return {
        key: (name, vertex)
        for vertex in plan["vertices"].values()
        for key, name in vertex["operators"].items()
    }


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """How the vertices of one operator differ."""
    changes = []
    if before["parallelism"] != now["parallelism"]:
        changes.append(
            "had parallelism {} (max {}), has {} (max {})".format(*before["parallelism"], *now["parallelism"])
        )
    if list(before["operators"]) != list(now["operators"]):
        changes.append("is in another chain")
    if before["inputs"] != now["inputs"]:
        changes.append("has other inputs")
    return changes


@dataclass(frozen=True)
class RecoveredJob:
    """A job of a script that keeps what it has finished."""

    script: KeptScript
    number: int
    name: str
    kept: KeptJob
    done_before: bool  #: by an earlier run of the script
    resumed: str | None  #: the id of the job that the script goes on with

    def finished(self) -> None:
        """The job has finished; nothing of it is kept any more."""
        try:
            self.script.note_done(self.number, self.name)
            self.kept.remove()
        except OSError as error:
            say(f"job {self.name!r} has finished, but {self.script.folder} cannot say so: {error}")


class ScriptRecovery:
    """The jobs of one run of a script; `resumed`: the id of the job that it goes on with."""

    def __init__(self, script: KeptScript, resumed: str | None = None) -> None:
        self.script, self.resumed = script, resumed
        self._next = 0

    def begin(self, job: Job, tables: Mapping[str, pa.Table], job_id: str) -> RecoveredJob:
        """The next job, which is about to run as `job_id` and was planned as `tables`.

        InputError where an earlier run of the script had another job there, and kept something of it.
        """
        number, self._next = self._next, self._next + 1
        kept, done = self.script.job(number), self.script.name_of_done(number)
        plan = identify_plan(job.name, job.batch, tables)
        if done is None:
            earlier = kept.plan()
            changes = [] if earlier is None else differences(earlier, plan)
        else:
            changes = [] if done == job.name else [f"it was {done!r}"]
        if changes:
            raise InputError(
                f"job {job.name!r} (number {number + 1} of the script) is not the one that was kept:\n  "
                + "\n  ".join(changes),
                "run the script as it was, or without --resume from the start",
            )
        if done is None:
            kept.begin(plan, job_id)
        return RecoveredJob(self.script, number, job.name, kept, done is not None, self.resumed)


class _InUse:
    """The kept data sets of the script that this process runs."""

    recovery: ScriptRecovery | None = None


def recovered_job(job: Job, tables: Mapping[str, pa.Table], job_id: str) -> RecoveredJob | None:
    """What is kept of a job that is about to run; None where nothing is to be."""
    return None if _InUse.recovery is None else _InUse.recovery.begin(job, tables, job_id)


@contextmanager
def use_recovery(recovery: ScriptRecovery | None) -> Iterator[None]:
    """Jobs that run inside keep what they have finished, until they or the script have ended well."""
    if recovery is None:
        yield
        return
    _InUse.recovery = recovery
    try:
        yield
    except BaseException as error:
        if not (isinstance(error, SystemExit) and not error.code):
            _say_what_is_kept(recovery.script)
            raise
        recovery.script.remove()
        raise
    finally:
        _InUse.recovery = None
    recovery.script.remove()


def _say_what_is_kept(script: KeptScript) -> None:
    with suppress(OSError):
        ids = [job_id for _, job in script.jobs() for job_id in job.ids()[-1:]]
        if ids:
            say(f"what is finished is kept: penstock run --resume {ids[-1]} goes on from there")
        else:
            script.remove()
