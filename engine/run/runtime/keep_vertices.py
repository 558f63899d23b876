"""Runs a job vertex by vertex: each one's output is kept in files, which the next one reads."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from penstock.engine.run.commits.commit_run import say
from penstock.engine.run.recovery.kept_script import KeptJob
from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex
from penstock.operators.connectors.recover_sinks import needs_commit
from penstock.operators.task.keep_rows import KEPT, KeptFile, Rows, keep_rows, read_rows


def vertices_to_keep(compiled: CompiledJob) -> dict[int, str]:
    """The vertices whose output is kept, and their ids: those that others read whole.

    A vertex with a sink that is committed is not kept: its rows belong to the run that has staged them. Nor
    are vertices after one that is not kept: a resumed run would go on with what that has put out before, and
    its sink would get what it puts out now.
    """
    read = {gate.edge for vertex in compiled.vertices for gate in vertex.chain.gates}
    committed = {terminal.node for terminal in compiled.terminals if needs_commit(terminal.sink)}
    kept: dict[int, str] = {}
    for vertex in compiled.vertices:
        if (
            any(output.edge in read for output in vertex.chain.outputs)
            and not any(
                output.to_driver or output.budget_bytes is not None or output.limit is not None
                for output in vertex.chain.outputs
            )
            and not any(operator.node in committed for operator in vertex.chain.operators)
            and kept.keys() >= set(vertex.producers)
        ):
            kept[vertex.chain.vertex] = vertex.vertex_id
    return kept


def finished_vertices(job: KeptJob, compiled: CompiledJob) -> frozenset[int]:
    """The vertices of which `job` has everything, and all before them, whose readers get nothing else."""
    kept = vertices_to_keep(compiled)
    finished = set[int]()
    for vertex in compiled.vertices:
        key = vertex.chain.vertex
        if key in kept and finished.issuperset(vertex.producers) and job.files_of(kept[key]) is not None:
            finished.add(key)
    return frozenset(finished)


class KeptVertices:
    """The vertices of a job that are run and kept, or were kept by an earlier run.

    `begin` is called once, when all vertices can be sent to Spark, before the first one runs.
    """

    def __init__(
        self, spark: SparkSession, job: KeptJob, compiled: CompiledJob, begin: Callable[[], None]
    ) -> None:
        self._spark, self._job = spark, job
        self.begin = begin
        self._ids = vertices_to_keep(compiled)
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
        """What a vertex puts out, read from files; if these are not complete, it is run now.

        `input_of`: its input; `function`: for mapInArrow, gives rows of `schema`.
        """
        vertex_id = self._ids[vertex.chain.vertex]
        files = self._job.files_of(vertex_id) if vertex.chain.vertex in self._finished else None
        if files is None:
            if self._job.is_of_others(vertex_id):
                say(f"{vertex.chain.name!r} runs again: what it put out was kept with another state folder")
            folder = self._job.begin_vertex(vertex_id)
            written = input_of(vertex).mapInArrow(keep_rows(function, folder), from_arrow_schema(KEPT))
            files = [KeptFile(**row) for row in written.toArrow().to_pylist()]
            self._job.complete_vertex(vertex_id, files)
        read = read_rows(self._job.vertex_folder(vertex_id), files)
        return self._spark.range(0, len(files), 1, max(1, len(files))).mapInArrow(read, schema)
