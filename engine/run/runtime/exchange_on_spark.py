"""A job as DataFrames of exchange rows: one mapInArrow for each JobVertex, after at most one shuffle.

An exchange row is a block of records with its target subtask. All gates of a vertex share one shuffle, which
puts each row into the Spark partition with the number of that subtask, and sorts the rows there.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from penstock.engine.pyflink_names import install, installed
from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex
from penstock.engine.run.runtime.recover_jobs import SavedVertices
from penstock.engine.run.runtime.spark_application import has_several_executors, is_remote
from penstock.engine.spark.describe_spark_error import WorkerFunction, pickle_with_broadcasts
from penstock.operators.chain.errors import describe_error, shortened
from penstock.operators.common.pickles import describe_unpicklable, dumps_for_workers
from penstock.operators.connectors.dataframe_source import DataFrameSource
from penstock.operators.exchange.channel_writer import FIRST_OF_ALL
from penstock.operators.task.build_chain import ChainSpec
from penstock.operators.task.python_dependencies import PythonDependencies, is_prepared
from penstock.operators.task.report import TaskSettings, TaskSpec
from penstock.operators.task.run_task import SUBTASK, reads_dataframe, task_function
from penstock.plans.errors import JobCompileError

EXCHANGE_ROWS = StructType(
    [
        StructField("edge", IntegerType(), False, {"comment": "JobEdge; negative: for the driver"}),
        StructField("target", IntegerType(), False, {"comment": "consuming subtask"}),
        StructField("order", LongType(), False, {"comment": "watermark, or key group in BATCH mode"}),
        StructField("channel", IntegerType(), False, {"comment": "producing subtask"}),
        StructField("sequence", LongType(), False, {"comment": "position in the channel"}),
        StructField("payload", BinaryType(), False, {"comment": "block of records"}),
    ]
)


class JobFrames:
    """The DataFrames of a job's vertices."""

    def __init__(
        self,
        spark: SparkSession,
        job: CompiledJob,
        settings: TaskSettings,
        dependencies: PythonDependencies,
        result_schema: StructType | None = None,
        saved: SavedVertices | None = None,
    ) -> None:
        """Build the DataFrames; vertices of `saved` run now, one after the other, unless already saved.

        `result_schema` is the schema of the last vertex's rows if these are results instead of exchange rows.
        """
        self._spark, self._job, self._settings = spark, job, settings
        self._dependencies = dependencies
        self._rows: dict[int, DataFrame] = {}
        self._in_files = saved or ()
        functions = [self._function(vertex) for vertex in job.vertices]
        if saved is not None:
            saved.begin()
        for vertex, function in zip(job.vertices, functions, strict=True):
            self._rows[vertex.chain.vertex] = self._rows_of(vertex, function, result_schema, saved)

    def terminal(self) -> DataFrame:
        """Return the rows for the driver, of all vertices that have any; an action on them runs the job."""
        parts = []
        for vertex in self._job.vertices:
            rows = self._rows[vertex.chain.vertex]
            if not self._consumers(vertex):
                parts.append(rows)
            elif self._has_terminals(vertex):
                parts.append(rows.where(F.col("edge") < 0))
        return reduce(DataFrame.unionAll, parts).select("edge", "channel", "sequence", "payload")

    def checkpointed_terminal(self) -> DataFrame:
        """Return the rows of `terminal`, checkpointed, so that they are computed once and then stored."""
        partitions = sum(
            vertex.chain.parallelism
            for vertex in self._job.vertices
            if not self._consumers(vertex) or self._has_terminals(vertex)
        )
        return checkpointed(self.terminal(), partitions, F.spark_partition_id())

    def result(self) -> DataFrame:
        """Return the rows of the last vertex, the only one without outputs."""
        (last,) = (vertex for vertex in self._job.vertices if not vertex.chain.outputs)
        return self._rows[last.chain.vertex]

    def _rows_of(
        self,
        vertex: CompiledVertex,
        function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        result_schema: StructType | None,
        saved: SavedVertices | None,
    ) -> DataFrame:
        if saved is not None and vertex.chain.vertex in saved:
            return saved.rows_of(vertex, self._input, function, EXCHANGE_ROWS)
        schema = result_schema if result_schema and not vertex.chain.outputs else EXCHANGE_ROWS
        rows = self._input(vertex).mapInArrow(function, schema)
        return rows if self._readers(vertex) == 1 else made_once(rows, vertex.chain.parallelism)

    def _function(
        self, vertex: CompiledVertex
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        spec = TaskSpec(chain=vertex.chain, settings=self._settings)
        pickled, broadcasts = _pickled(spec)
        # modules next to a script are found if the worker has the same folders, usually on this machine
        folders = [os.path.abspath(folder) for folder in sys.path if folder and not is_prepared(folder)]
        here = os.getcwd() if is_remote(self._spark) else None  # workers of a session serve many clients
        prepare = [install] if installed() else []
        outline = replace(spec, chain=replace(vertex.chain, operators=(), edges=(), outputs=(), gates=()))
        task = task_function(pickled, outline, folders, prepare, self._dependencies, here)
        return WorkerFunction(task, broadcasts)

    def _input(self, vertex: CompiledVertex) -> DataFrame:
        parallelism = vertex.chain.parallelism
        if not vertex.chain.gates:
            source = next(
                (operator.operator for operator in vertex.chain.operators if reads_dataframe(operator)), None
            )
            if source is None:
                return self._spark.range(0, parallelism, 1, parallelism)
            return _partitions(source, parallelism, numbered=bool(vertex.chain.outputs))
        edges = [gate.edge for gate in vertex.chain.gates]
        parts = [self._read(producer, edges) for producer in vertex.producers]
        if vertex.forward_only and vertex.producers[0] not in self._in_files:
            return parts[0]
        together = reduce(DataFrame.unionAll, [self._greetings(parallelism), *parts])
        return together.repartitionById(parallelism, F.col("target")).sortWithinPartitions(
            "order", "edge", "channel", "sequence"
        )

    def _greetings(self, parallelism: int) -> DataFrame:
        """Return a row for each subtask that sorts before all others and holds the subtask's number."""
        values = {"target": "id", "order": f"{FIRST_OF_ALL}L", "payload": "X''"}
        columns = [
            f"cast({values.get(field.name, '-1')} as {field.dataType.simpleString()}) as `{field.name}`"
            for field in EXCHANGE_ROWS
        ]
        return self._spark.range(0, parallelism, 1, 1).selectExpr(*columns)

    def _read(self, producer: int, edges: Sequence[int]) -> DataFrame:
        vertex = next(candidate for candidate in self._job.vertices if candidate.chain.vertex == producer)
        rows = self._rows[producer]
        if self._readers(vertex) == 1:
            return rows
        return rows.where(F.col("edge").isin(list(edges)))

    def _readers(self, vertex: CompiledVertex) -> int:
        return len(self._consumers(vertex)) + self._has_terminals(vertex)

    def _consumers(self, vertex: CompiledVertex) -> set[int]:
        return {
            consumer.chain.vertex
            for consumer in self._job.vertices
            for gate in consumer.chain.gates
            for output in vertex.chain.outputs
            if gate.edge == output.edge
        }

    def _has_terminals(self, vertex: CompiledVertex) -> bool:
        results = self._settings.results
        if results is not None and results.attempts and vertex.chain.vertex in results.vertices:
            return True
        nodes = {terminal.node for terminal in self._job.terminals}
        return any(operator.node in nodes for operator in vertex.chain.operators)


def made_once(rows: DataFrame, subtasks: int) -> DataFrame:
    """Return the exchange rows of a vertex so that all of its readers get them from the files of one shuffle.

    `persist` would allow two executors to compute the same partition concurrently, and clearing the session's
    cache undoes it. Of a shuffle's map tasks, one attempt counts for all readers; if its files are lost and
    the next attempt writes other rows, Spark runs all readers again or fails (`run_environment.py`). Readers
    share an RDD, because the optimizer would push their filters below the shuffle. Over Spark Connect only a
    checkpoint gives several plans the same RDD.
    """
    spark: Any = rows.sparkSession
    if is_remote(spark):
        return checkpointed(rows, subtasks, F.col("channel"))
    shuffled = rows.repartitionById(subtasks, F.col("channel"))
    rdd = shuffled._jdf.queryExecution().toRdd()
    return DataFrame(spark._jsparkSession.internalCreateDataFrame(rdd, shuffled._jdf.schema(), False), spark)


def checkpointed(rows: DataFrame, partitions: int, place: Column) -> DataFrame:
    """Return rows that executors store once computed, and never compute again; `place`: their partition.

    Two executors may write the same block of a checkpoint. A shuffle before it gives both the same rows.
    """
    if has_several_executors(rows.sparkSession):
        placed = rows.withColumn(_PLACE, place).repartitionById(partitions, F.col(_PLACE))
        rows = placed.drop(_PLACE)
    return rows.localCheckpoint(eager=False)


def _partitions(source: DataFrameSource, parallelism: int, *, numbered: bool) -> DataFrame:
    """Return the source's DataFrame in at most `parallelism` partitions, ordered by event time if it has any.

    `numbered`: a last column holds the number of the partition, which in a union differs from the task's.
    """
    frame: DataFrame = source.dataframe()
    if source.event_time is None:
        rows = frame.coalesce(parallelism)
    else:
        time = F.col(frame.columns[source.event_time.position])
        ordered = frame.withColumn(_PLACE, F.monotonically_increasing_id())
        rows = ordered.repartitionByRange(parallelism, time).sortWithinPartitions(time, _PLACE).drop(_PLACE)
    return rows.withColumn(SUBTASK, F.spark_partition_id()) if numbered else rows


_PLACE = "place"
"""A column for the position of a row, before or after a shuffle; columns of sources have numbers as names."""


def _pickled(spec: TaskSpec) -> tuple[bytes, list[Any]]:
    """Pickle the spec for workers; return it with the broadcast variables in it.

    Raises JobCompileError that names the operator whose function cannot be pickled.
    """
    try:
        return pickle_with_broadcasts(spec)
    except Exception as error:
        job, vertex = spec.settings.job_name, shortened(spec.chain.name, 200)
        for role, function in _functions(spec.chain):
            try:
                dumps_for_workers(function)
            except Exception as own:
                problem = describe_unpicklable(function, role, own)
                raise JobCompileError(f"job {job!r}, vertex {vertex!r}: {problem}") from None
        raise JobCompileError(
            f"job {job!r}, vertex {vertex!r} cannot be sent to Spark's workers: {describe_error(error)}"
        ) from error


def _functions(chain: ChainSpec) -> Iterator[tuple[str, Any]]:
    """Yield the author's functions in a chain, each after its name for messages."""
    for spec in chain.operators:
        operator = spec.operator
        for number, selector in enumerate(getattr(operator, "key_selectors", ()), 1):
            yield f"key selector {number} of operator {spec.name!r}", selector
        function = getattr(operator, "function", None)
        yield (
            (f"the function of operator {spec.name!r}", function)
            if function is not None
            else (f"operator {spec.name!r}", operator)
        )
        yield f"operator {spec.name!r}", operator
        yield from (
            (f"a split of source {spec.name!r}", split)
            for splits_of_task in spec.splits
            for split in splits_of_task
        )
    for output in chain.outputs:
        yield f"the key selector of operator {output.consumer_name!r}", output.key_selector
        yield f"the partitioner before operator {output.consumer_name!r}", output.custom_partitioner
