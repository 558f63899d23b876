"""Streams as lazy DataFrames, in the middle of a Spark job."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from penstock.engine.run.lowering.plan_job import plan_to_run
from penstock.engine.run.lowering.transformations import Job, Transformation
from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex, compile_job
from penstock.engine.run.runtime.exchange_on_spark import JobFrames
from penstock.engine.run.runtime.run_context import RunContext
from penstock.engine.run.runtime.run_environment import (
    cached_files_on_spark,
    require_bounded_state,
    run_session,
    ship_python,
    spark_settings_for_runs,
    task_settings,
    workers_python,
)
from penstock.engine.spark.describe_spark_error import WorkerFunction, describe_spark_error
from penstock.engine.spark.session import is_connect
from penstock.operators.common.pickles import is_pickled
from penstock.operators.common.spark_schemas import GivenSchema, is_always_empty, schema_of_stream
from penstock.operators.functions.add_up_metrics import add_up_metrics, metrics_by_name
from penstock.operators.task.sink_operators import (
    REPORTS_EDGE,
    DataFrameOperator,
    PickledDataFrameOperator,
    result_batches,
    rows_schema,
)
from penstock.plans.errors import JobCompileError
from penstock.plans.frames.spark_schemas import free, unless_ended

# Columns of DataFrames on their way to Python and back, cast if their types cannot be carried directly.


def as_carried(df: DataFrame, schema: StructType, carried: StructType) -> DataFrame:
    """Return `df` with columns `c0`, `c1`, … (names may be arbitrary), cast to the types that Python gets."""
    if not schema.names:
        return df.select(F.lit(0).alias("c0"))
    named = df.toDF(*(f"c{at}" for at in range(len(schema))))
    if all(field.dataType == other.dataType for field, other in zip(schema, carried, strict=True)):
        return named
    return named.select(
        *(
            _in_steps(F.col(f"c{at}"), [_as_months(field.dataType), other.dataType], field.dataType).alias(
                f"c{at}"
            )
            for at, (field, other) in enumerate(zip(schema, carried, strict=True))
        )
    )


def _as_given(df: DataFrame, schema: GivenSchema) -> DataFrame:
    """Return `df`, which has the carried columns of `schema`, with its given columns."""
    if not schema.given.names:
        return df.select()
    if not schema.is_carried_otherwise:
        return df
    named = df.toDF(*(f"c{at}" for at in range(len(schema.given))))
    pairs = enumerate(zip(schema.given, schema.carried, strict=True))
    return named.select(
        *(
            _given(F.col(f"c{at}"), field, other.dataType).alias(field.name, metadata=field.metadata)
            for at, (field, other) in pairs
        )
    )


def _given(column: Column, field: StructField, carried: DataType) -> Column:
    if is_always_empty(field.dataType):
        empty = F.array() if isinstance(field.dataType, ArrayType) else F.create_map()
        return F.when(column.isNotNull(), empty) if field.nullable else empty
    given = _in_steps(column, [_as_months(field.dataType), field.dataType], carried)
    if not isinstance(field.dataType, CalendarIntervalType):
        return given
    # a cast gives null for text that is not an interval
    must = f"column {field.name!r} must be an interval such as '1 month 2 days', got "
    message = F.concat(F.lit(must), column)
    return F.when(column.isNotNull() & given.isNull(), F.raise_error(message)).otherwise(given)


def _in_steps(column: Column, steps: Sequence[DataType], before: DataType) -> Column:
    """Cast `column` to each type in turn, leaving out casts to the type it has already."""
    for step in steps:
        if step != before:
            column, before = column.cast(step), step
    return column


def _as_months(data_type: DataType) -> DataType:
    """Replace each year-month interval in the type by one of months, the type that numbers cast to."""
    if isinstance(data_type, YearMonthIntervalType):
        return YearMonthIntervalType(YearMonthIntervalType.MONTH, YearMonthIntervalType.MONTH)
    if isinstance(data_type, StructType):
        return StructType(
            [
                StructField(field.name, _as_months(field.dataType), field.nullable, field.metadata)
                for field in data_type
            ]
        )
    if isinstance(data_type, ArrayType):
        return ArrayType(_as_months(data_type.elementType), data_type.containsNull)
    if isinstance(data_type, MapType):
        return MapType(
            _as_months(data_type.keyType), _as_months(data_type.valueType), data_type.valueContainsNull
        )
    return data_type


def dataframe_of_job(
    job: Job, sink: Transformation, context: RunContext, observation: Observation | None = None
) -> DataFrame:
    """Return the records that reach `sink`, the only sink of `job`; nothing runs until the DataFrame does.

    It has one column for each field of a row or tuple, else one column `value`; pickled if it has no declared
    type. `observation` gets the metrics of the job's functions. Raises JobCompileError, and TypeError if
    `observation` is not an Observation. The output of a vertex with several readers stays in shuffle files.
    """
    schema = _schema(job, sink)
    rows = rows_schema(schema.carried)
    if observation is None:
        frames, _ = _frames(job, context, {sink.created: schema}, rows)
        return _as_given(frames.result(), schema)
    require_observation(observation)
    reports = reports_column(rows.names)
    frames, _ = _frames(job, context, {sink.created: schema}, rows, reports)
    return _as_given(observe_rows(frames.result(), reports, observation), schema)


def dataframes_of_job(
    job: Job,
    sinks: Mapping[str, Transformation],
    context: RunContext,
    observation: Observation | None = None,
) -> DataFrames:
    """Return the records that reach each of `sinks` as DataFrames of one run of `job`, which is stored at its
    first use.

    `observation` and errors as in `dataframe_of_job`.
    """
    schemas = {ending.created: _schema(job, ending) for ending in sinks.values()}
    if observation is not None:
        require_observation(observation)
    frames, compiled = _frames(job, context, schemas, None, None if observation is None else "")
    edges = {terminal.transformation.created: terminal.edge for terminal in compiled.terminals}
    checkpointed = together = frames.checkpointed_terminal()
    if observation is not None:
        together = observe_blocks(checkpointed, observation)
    results = {}
    for name, sink in sinks.items():
        with _refusing_types(job):
            results[name] = dataframe_of_blocks(together, edges[sink.created], schemas[sink.created])

    def release() -> None:
        # a server of Spark Connect frees it when it has no reader; a run that has not begun is not stored
        if is_connect(checkpointed):
            return
        with unless_ended(checkpointed.sparkSession):
            if checkpointed._jdf.logicalPlan().rdd().isCheckpointed():
                free(checkpointed)

    return DataFrames(results, release)


def ending_in_blocks(
    job: Job, sink: Transformation, compiled: CompiledJob
) -> tuple[CompiledJob, int, GivenSchema]:
    """Return `compiled` with blocks of a DataFrame's rows in place of `sink`, their edge, and their columns.

    Raises JobCompileError if the stream has no columns.
    """
    schema = _schema(job, sink)
    (terminal,) = (end for end in compiled.terminals if end.transformation.created == sink.created)
    pickled = is_pickled(sink.inputs[0].output_type)
    kind = PickledDataFrameOperator if pickled else DataFrameOperator
    last = kind(sink.inputs[0].output_type, _arrow(schema), terminal.edge)
    return _ending_in(compiled, terminal.node, last), terminal.edge, schema


def dataframe_of_blocks(rows: DataFrame, edge: int, schema: GivenSchema) -> DataFrame:
    """Return the DataFrame whose rows are in the blocks of an edge among exchange rows."""
    blocks = rows.where(rows["edge"] == edge).select("payload")
    function = WorkerFunction(partial(result_batches, schema=_arrow(schema)))
    return _as_given(blocks.mapInArrow(function, rows_schema(schema.carried)), schema)


class DataFrames(Mapping[str, DataFrame]):
    """DataFrames of one run by name: `frames["late"]`, or `frames.late`.

    The executors store the run's results from the first use of one of them until `release`, or the end of a
    `with` block. They are never computed again: if an executor is lost, so are the DataFrames.
    """

    def __init__(self, results: Mapping[str, DataFrame], release: Callable[[], None]) -> None:
        self._results, self._release = dict(results), release

    def __getitem__(self, name: str) -> DataFrame:
        return self._results[name]

    def __getattr__(self, name: str) -> DataFrame:
        if name.startswith("_") or name not in self._results:
            raise AttributeError(f"no DataFrame {name!r}; there are {', '.join(self._results)}")
        return self._results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def release(self) -> None:
        """Free the stored results; afterwards the DataFrames cannot be read."""
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<{len(self)} DataFrames of one run: {', '.join(self)}>"


def _schema(job: Job, sink: Transformation) -> GivenSchema:
    """Return the columns of the records that reach `sink`."""
    try:
        return schema_of_stream(sink.inputs[0].output_type)
    except TypeError as error:
        raise JobCompileError(f"job {job.name!r}: {error}") from None


def _frames(
    job: Job,
    context: RunContext,
    schemas: Mapping[int, GivenSchema],
    result_schema: Any,
    reports: str | None = None,
) -> tuple[JobFrames, CompiledJob]:
    """Compile `job` so that its sinks, by `created`, yield batches of the given schemas: as rows of
    `result_schema`, or if it is None, as blocks in exchange rows.

    `reports`: subtasks report the metrics of functions, with `result_schema` in a last column of this name.
    """
    tables = plan_to_run(job)
    compiled = compile_job(job.lowered.to_run, tables, batch=job.batch)
    require_bounded_state(job, compiled)
    for terminal in compiled.terminals:
        schema = schemas[terminal.transformation.created]
        pickled = is_pickled(terminal.transformation.inputs[0].output_type)
        kind = PickledDataFrameOperator if pickled else DataFrameOperator
        edge = terminal.edge if result_schema is None else None
        last = kind(terminal.transformation.inputs[0].output_type, _arrow(schema), edge, reports)
        compiled = _ending_in(compiled, terminal.node, last)
    spark = run_session(context, job.name, compiled, tables)
    dependencies = ship_python(spark, job)
    files = cached_files_on_spark(spark, job.cached_files)
    settings = task_settings(job, uuid.uuid4().hex, None, files)
    if reports is not None:
        settings = replace(settings, observed=True)
        if result_schema is not None:
            result_schema = StructType([*result_schema, StructField(reports, StringType())])
    with spark_settings_for_runs(spark), workers_python(spark, job), _refusing_types(job):
        return JobFrames(spark, compiled, settings, dependencies, result_schema), compiled


@contextmanager
def _refusing_types(job: Job) -> Iterator[None]:
    """Translate Spark's errors about types in the block, such as an unknown collation, to JobCompileError."""
    try:
        yield
    except Py4JJavaError as error:
        raise JobCompileError(f"job {job.name!r}: {describe_spark_error(error)}") from None


def _arrow(schema: GivenSchema) -> Any:
    return to_arrow_schema(schema.carried, timezone="UTC")


def _ending_in(compiled: CompiledJob, node: int, last: DataFrameOperator) -> CompiledJob:
    def ended(vertex: CompiledVertex) -> CompiledVertex:
        operators = tuple(
            replace(operator, operator=last) if operator.node == node else operator
            for operator in vertex.chain.operators
        )
        return replace(vertex, chain=replace(vertex.chain, operators=operators))

    return replace(compiled, vertices=tuple(map(ended, compiled.vertices)))


# Metrics of a stream's functions in a Spark Observation.
#
# Spark collects the metrics of a query while its rows pass; the reports of subtasks are among these rows.
# Stages that run again send their reports again: the last report of each subtask counts.


_REPORTS = "reports"


def require_observation(observation: Any) -> None:
    """Raise TypeError unless `observation` is an Observation of PySpark, classic or Connect."""
    if type(observation).__name__ != "Observation" or not type(observation).__module__.startswith("pyspark."):
        raise TypeError(f"observe must be a new pyspark.sql.Observation, got {type(observation).__name__}")


def reports_column(names: Iterable[str]) -> str:
    """Return a name for the column of reports that differs from `names`, ignoring case."""
    taken, name = {column.lower() for column in names}, _REPORTS
    while name in taken:
        name += "_"
    return name


def observe_rows(rows: DataFrame, reports: str, observation: Any) -> DataFrame:
    """Return `rows` without the column `reports` and without the rows of reports, which are observed."""
    observed = _observe(rows, observation, F.col(reports))
    return observed.where(F.col(reports).isNull()).drop(reports)


def observe_blocks(rows: DataFrame, observation: Any) -> DataFrame:
    """Observe the reports among exchange rows; they stay among the rows, where no reader selects them."""
    return _observe(rows, observation, F.when(F.col("edge") == REPORTS_EDGE, F.col("payload").cast("string")))


def _observe(rows: DataFrame, observation: Any, reports: Column) -> DataFrame:
    if is_connect(rows) != is_connect(observation):
        raise TypeError("observe: Observation and DataFrames are of Spark Connect and of classic Spark")
    observed = rows.observe(observation, F.collect_list(reports).alias(_REPORTS))
    observation_class = type(observation)

    def get(self: Any) -> dict[str, Any]:
        return metrics_of_reports(observation_class.get.fget(self).get(_REPORTS) or ())

    # `get` is a property of the class: only a subclass can return the metrics by their names
    documented = property(get, doc="The metrics by name; waits for the first action, as Spark's own does.")
    observation.__class__ = type(observation_class.__name__, (observation_class,), {"get": documented})
    return observed


def metrics_of_reports(reports: Iterable[str]) -> dict[str, Any]:
    """Return the metrics by name, over all subtasks and operators. The last report of each subtask counts."""
    last: dict[tuple[int, int], dict[str, Any]] = {}
    for report in map(json.loads, reports):
        subtask = report["vertex"], report["subtask"]
        if subtask not in last or _place(last[subtask]) <= _place(report):
            last[subtask] = report
    return metrics_by_name(add_up_metrics(report["metrics"] for _, report in sorted(last.items())))


def _place(report: dict[str, Any]) -> tuple[int, int]:
    return report["attempt"], report["number"]
