"""A stream as a lazy DataFrame: a topology in the middle of a Spark job."""

import uuid

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from engine.runtime.compile_job import CompiledJob, CompiledVertex, compile_job
from engine.runtime.exchange_on_spark import JobFrames
from engine.runtime.job import Job
from engine.runtime.plan_job import plan_to_run
from engine.runtime.run_environment import cached_files_on_spark, run_session
from engine.runtime.run_job import required_slots
from engine.runtime.run_on_spark import source_dataframes
from engine.runtime.run_settings import spark_settings_for_runs, task_settings
from engine.runtime.ship_python import ship_python
from engine.runtime.transformations import Transformation
from operators.common.arrow_columns import arrow_type
from operators.common.is_pickled import is_pickled
from operators.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from operators.exchange.rows_and_batches import VALUE_COLUMN
from operators.task.sink_operators import DataFrameOperator, PickledDataFrameOperator


def dataframe_of_job(job: Job, sink: Transformation) -> DataFrame:
    """The records that reach `sink`, the only sink of `job`: nothing runs until the DataFrame does.

    One column for each field of a row or tuple, else one column `value`; pickled if it has no declared type.
    Raises JobCompileError. A vertex with several readers stays cached in the session once it has run.
    """
    type_info = sink.inputs[0].output_type
    tables = plan_to_run(job)
    compiled = compile_job(job.lowered.to_run, tables, batch=job.batch)
    (terminal,) = compiled.terminals
    ended = _ending_in_dataframe(compiled, terminal.node, type_info)
    spark = run_session(required_slots(tables))
    dependencies = ship_python(spark, job)
    files = cached_files_on_spark(spark, job.cached_files)
    settings = task_settings(job, uuid.uuid4().hex, None, files)
    with spark_settings_for_runs(spark):
        frames = JobFrames(
            spark, ended, settings, dependencies, source_dataframes(ended), spark_schema(type_info)
        )
        return frames.result()


def spark_schema(type_info: TypeInformation | None) -> StructType:
    """Columns of a DataFrame of records of that type."""
    if is_pickled(type_info):
        return from_arrow_schema(pa.schema([pa.field(VALUE_COLUMN, pa.binary())]))
    kind = arrow_type(type_info)
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        return from_arrow_schema(pa.schema([kind.field(n) for n in range(kind.num_fields)]))
    return from_arrow_schema(pa.schema([pa.field(VALUE_COLUMN, kind)]))


def _ending_in_dataframe(compiled: CompiledJob, node: int, type_info: TypeInformation | None) -> CompiledJob:
    from dataclasses import replace

    last = (PickledDataFrameOperator if is_pickled(type_info) else DataFrameOperator)(type_info)

    def ended(vertex: CompiledVertex) -> CompiledVertex:
        operators = tuple(
            replace(one, operator=last) if one.node == node else one for one in vertex.chain.operators
        )
        return replace(vertex, chain=replace(vertex.chain, operators=operators))

    return CompiledJob(tuple(map(ended, compiled.vertices)), compiled.terminals)
