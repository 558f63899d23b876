"""Settings of a run: the Flink options that have an effect here, and what Spark needs meanwhile."""

from collections.abc import Mapping
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from penstock.engine.configuration.option import Option
from penstock.engine.configuration.run_options import (
    BLOCK_BYTES,
    PENSTOCK_OPTIONS,
    SEED,
    SORT_MEMORY_BYTES,
    STATE_MEMORY_BYTES,
)
from penstock.engine.runtime.errors import JobCompileError
from penstock.engine.runtime.job import Job
from penstock.engine.spark.shared_settings import shared_settings
from penstock.operators.task.task_spec import ReportAddress, ResultsAddress, TaskSettings

#: Blocks are up to a megabyte each: few of them make an Arrow batch large enough.
_SPARK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "32",
    "spark.sql.execution.sortBeforeRepartition": "false",
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
    given = config.get(option.key)
    if given is None:
        return int(option.default)
    try:
        return int(option.parse(given))
    except ValueError as error:
        raise JobCompileError(f"option {option.key}: {given!r} {error}, allowed {option.allowed}") from None


def spark_settings_for_runs(spark: SparkSession) -> AbstractContextManager[None]:
    """Set what exchanges rely on while a job is built and runs; runs that overlap share it."""
    return shared_settings(spark, _SPARK)
