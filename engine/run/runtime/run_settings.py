"""Settings of a run: the Flink options that have an effect here, and what Spark needs meanwhile."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.engine.configuration.cluster_options import Option
from penstock.engine.configuration.run_options import (
    BLOCK_BYTES,
    PENSTOCK_OPTIONS,
    SEED,
    SORT_MEMORY_BYTES,
    STATE_MEMORY_BYTES,
)
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.run.runtime.errors import JobCompileError
from penstock.engine.run.runtime.transformations import Job, topology_of, topology_to_run
from penstock.engine.spark.shared_settings import shared_settings
from penstock.operators.task.report import ReportAddress, ResultsAddress, TaskSettings

#: Blocks are up to a megabyte each: few of them make an Arrow batch large enough. Checksums show whether a
#: task whose shuffle files were lost wrote other rows when it ran again; then all of its readers run again.
_SPARK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32",
    "spark.sql.execution.sortBeforeRepartition": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch": "true",
}


def task_settings(
    job: Job,
    job_id: str,
    reports: ReportAddress | None,
    cached_files: Mapping[str, str],
    results: ResultsAddress | None = None,
) -> TaskSettings:
    """What every task of `job` is told; JobCompileError for a Penstock option that is no number."""
    numbers = {option.key: _number(job.config, option) for option in PENSTOCK_OPTIONS}
    return TaskSettings(
        job_id=job_id,
        job_name=job.name,
        batch=job.batch,
        seed=numbers[SEED.key],
        block_bytes=numbers[BLOCK_BYTES.key],
        sort_memory_bytes=numbers[SORT_MEMORY_BYTES.key],
        state_memory_bytes=numbers[STATE_MEMORY_BYTES.key],
        auto_watermark_interval_milliseconds=job.auto_watermark_interval_milliseconds,
        job_parameters=dict(job.job_parameters),
        cached_files=dict(cached_files),
        reports=reports,
        results=results,
    )


def _number(config: Mapping[str, str], option: Option) -> int:
    text = config.get(option.key)
    if text is None:
        return int(option.default)
    try:
        return int(option.parse(text))
    except ValueError as error:
        raise JobCompileError(f"option {option.key}: {text!r} {error}, allowed {option.allowed}") from None


def spark_settings_for_runs(spark: SparkSession) -> AbstractContextManager[None]:
    """Set what exchanges rely on while a job is built and runs; runs that overlap share it."""
    return shared_settings(spark, _SPARK)


# A job's plan, made in this process.


def plan_job(job: Job) -> dict[str, pa.Table]:
    """Tables of all layers, as PyFlink submits the job.

    Raises JobCompileError with what Flink says where it refuses the job.
    """
    return _plan(job, topology_of(job))


def plan_to_run(job: Job) -> dict[str, pa.Table]:
    """Tables of all layers of the job as it runs here: in BATCH mode, too, with the script's parallelism.

    Raises JobCompileError with what Flink says where it refuses the job.
    """
    return _plan(job, topology_to_run(job))


def _plan(job: Job, topology: dict[str, Any]) -> dict[str, pa.Table]:
    planned = plan_in_process([topology], choices=job.plan_options.choices)
    refused = planned.tables["rejected"].to_pylist()
    if refused:
        rejection = refused[0]
        raise JobCompileError(
            f"job {job.name!r} cannot be planned ({rejection['error']}): {rejection['message']}"
        )
    return planned.tables
