"""Save the finished data sets of a script's jobs, and resume jobs from saved data sets.

Jobs of a script are identified by their order: the first one submitted has number 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.engine.output.print_line import print_message
from penstock.engine.run.lowering.transformations import Job
from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex
from penstock.engine.run.runtime.kept_script import KeptJob, KeptScript
from penstock.operators.connectors.recover_sinks import needs_commit
from penstock.operators.task.keep_rows import KEPT, KeptFile, Rows, keep_rows, read_rows
from penstock.plans.errors import InputError
from penstock.plans.installation import own_version

# A job runs vertex by vertex: the output of each is saved in files, which the next one reads.


def vertices_to_save(compiled: CompiledJob) -> dict[int, str]:
    """Return the ids, by vertex, of the vertices whose output is saved: others read it as a whole.

    A vertex with a sink that is committed is not saved: its rows belong to the run that has staged them. Nor
    are vertices after one that is not saved: a resumed run would read the earlier output of that vertex,
    while its sink would get the new output.
    """
    read = {gate.edge for vertex in compiled.vertices for gate in vertex.chain.gates}
    committed = {terminal.node for terminal in compiled.terminals if needs_commit(terminal.sink)}
    saved: dict[int, str] = {}
    for vertex in compiled.vertices:
        if (
            any(output.edge in read for output in vertex.chain.outputs)
            and not any(
                output.to_driver or output.budget_bytes is not None or output.limit is not None
                for output in vertex.chain.outputs
            )
            and not any(operator.node in committed for operator in vertex.chain.operators)
            and saved.keys() >= set(vertex.producers)
        ):
            saved[vertex.chain.vertex] = vertex.vertex_id
    return saved


def finished_vertices(job: KeptJob, compiled: CompiledJob) -> frozenset[int]:
    """Return the vertices of which `job` holds the complete output, as of all vertices before them.

    Readers of such a vertex read nothing but saved output.
    """
    saved = vertices_to_save(compiled)
    finished = set[int]()
    for vertex in compiled.vertices:
        key = vertex.chain.vertex
        if key in saved and finished.issuperset(vertex.producers) and job.files_of(saved[key]) is not None:
            finished.add(key)
    return frozenset(finished)


class SavedVertices:
    """The vertices of a job whose output this run saves, or an earlier run has saved.

    `begin` is called once, when all vertices can be sent to Spark, before the first one runs.
    """

    def __init__(
        self, spark: SparkSession, job: KeptJob, compiled: CompiledJob, begin: Callable[[], None]
    ) -> None:
        self._spark, self._job = spark, job
        self.begin = begin
        self._ids = vertices_to_save(compiled)
        self._finished = finished_vertices(job, compiled)

    def __contains__(self, vertex: int) -> bool:
        return vertex in self._ids

    def rows_of(
        self,
        vertex: CompiledVertex,
        input_of: Callable[[CompiledVertex], DataFrame],
        function: Rows,
        schema: StructType,
    ) -> DataFrame:
        """Return the output of a vertex, read from files; if they are incomplete, the vertex runs first.

        `input_of` returns the input of a vertex; `function` goes to mapInArrow, and yields rows of `schema`.
        """
        vertex_id = self._ids[vertex.chain.vertex]
        files = self._job.files_of(vertex_id) if vertex.chain.vertex in self._finished else None
        if files is None:
            if self._job.is_of_others(vertex_id):
                print_message(
                    f"{vertex.chain.name!r} runs again: its output was saved with another state folder"
                )
            folder = self._job.begin_vertex(vertex_id)
            written = input_of(vertex).mapInArrow(keep_rows(function, folder), from_arrow_schema(KEPT))
            files = [KeptFile(**row) for row in written.toArrow().to_pylist()]
            self._job.complete_vertex(vertex_id, files)
        read = read_rows(self._job.vertex_folder(vertex_id), files)
        return self._spark.range(0, len(files), 1, max(1, len(files))).mapInArrow(read, schema)


# The identity of a plan: everything that saved data sets depend on, to find those of an earlier run.


_MOST_NAMED = 10

KEPT_FORMAT = 1
"""Raised whenever an older Penstock would misread what a run with --checkpoint-dir keeps."""


def identify_plan(name: str, batch: bool, tables: Mapping[str, pa.Table]) -> dict[str, Any]:
    """Return as JSON the identity of a plan, by vertex id its operators by id, its parallelism and inputs."""
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
        "format": KEPT_FORMAT,
        "penstock": own_version(),
        "job": name,
        "mode": "BATCH" if batch else "STREAMING",
        "vertices": vertices,
    }


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe the changes between two plans; none if data sets of one can be used by the other."""
    if before.get("format") != now["format"]:
        return [f"the format of kept data was {before.get('format')!r}, is {now['format']!r}"]
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
    """Return the name and vertex of each operator, by its id."""
    return {
        key: (name, vertex)
        for vertex in plan["vertices"].values()
        for key, name in vertex["operators"].items()
    }


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Describe the differences between the two vertices of one operator."""
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
    """A job of a script whose finished data sets are saved."""

    script: KeptScript
    number: int
    name: str
    saved: KeptJob
    done_before: bool  #: an earlier run of the script has finished it
    resumed: str | None  #: the id of the job that the script resumes

    def finished(self) -> None:
        """Note that the job has finished, and remove its saved data sets."""
        try:
            self.script.note_done(self.number, self.name)
            self.saved.remove()
        except OSError as error:
            print_message(
                f"job {self.name!r} has finished, but {self.script.folder} cannot record this: {error}"
            )


class ScriptRecovery:
    """The jobs of one run of a script; `resumed` is the id of the job that it resumes."""

    def __init__(self, script: KeptScript, resumed: str | None = None) -> None:
        self.script, self.resumed = script, resumed
        self._next = 0

    def begin(self, job: Job, tables: Mapping[str, pa.Table], job_id: str) -> RecoveredJob:
        """Begin the next job, planned as `tables`, under the id `job_id`.

        Raises InputError if an earlier run of the script has saved data sets of another job of this number.
        """
        number, self._next = self._next, self._next + 1
        saved, done = self.script.job(number), self.script.name_of_done(number)
        plan = identify_plan(job.name, job.batch, tables)
        if done is None:
            earlier = saved.plan()
            changes = [] if earlier is None else differences(earlier, plan)
        else:
            changes = [] if done == job.name else [f"it was {done!r}"]
        if changes:
            raise InputError(
                f"job {job.name!r} (number {number + 1} of the script) is not the job that was saved:\n  "
                + "\n  ".join(changes),
                "run the script as it was, or without --resume from the start",
            )
        if done is None:
            saved.begin(plan, job_id)
        return RecoveredJob(self.script, number, job.name, saved, done is not None, self.resumed)


@contextmanager
def recovery_ends_with_script(recovery: ScriptRecovery | None) -> Iterator[None]:
    """Keep the data sets that `recovery` has saved until the script inside the block has succeeded."""
    if recovery is None:
        yield
        return
    try:
        yield
    except BaseException as error:
        if not (isinstance(error, SystemExit) and not error.code):
            _print_saved_vertices(recovery.script)
            raise
        recovery.script.remove()
        raise
    recovery.script.remove()


def _print_saved_vertices(script: KeptScript) -> None:
    with suppress(OSError):
        ids = [job_id for _, job in script.jobs() for job_id in job.ids()[-1:]]
        if ids:
            print_message(f"finished data sets are saved: `penstock run --resume {ids[-1]}` resumes the job")
        else:
            script.remove()
