"""Flink's options that have an effect on a run, and Spark's settings during the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager

from pyspark.sql import SparkSession

from penstock.engine.configuration.cluster_options import Option
from penstock.engine.configuration.run_options import (
    BLOCK_BYTES,
    PENSTOCK_OPTIONS,
    SEED,
    SORT_MEMORY_BYTES,
    STATE_MEMORY_BYTES,
)
from penstock.engine.output.print_line import print_error
from penstock.engine.run.lowering.transformations import Job, Transformation
from penstock.engine.spark.shared_settings import shared_settings
from penstock.operators.task.report import ReportAddress, ResultsAddress, TaskSettings
from penstock.plans.errors import JobCompileError

# Warnings, once in a process, for settings of a script or configuration that have no effect here.


_JAVA = (
    "jobs run no Java code here: read and write with Penstock's own sources and sinks, and add "
    "Python code with add_python_file"
)
_CHECKPOINTS = (
    "no checkpoints are taken here; `penstock run --checkpoint-dir` saves the output of finished vertices"
)
_STATE = "state is held in memory and, if that is short, in files of the workers"
_WORKERS = "Spark's Python workers run the functions"

#: Prefix to reason, for options that are accepted and have no effect. Options shown in plans are not listed.
WITHOUT_EFFECT: dict[str, str] = {
    "pipeline.jars": _JAVA,
    "pipeline.classpaths": _JAVA,
    "execution.checkpointing.dir": _CHECKPOINTS,
    "execution.checkpointing.interval": _CHECKPOINTS,
    "execution.checkpointing.savepoint-dir": _CHECKPOINTS,
    "state.checkpoints.dir": _CHECKPOINTS,
    "state.savepoints.dir": _CHECKPOINTS,
    "state.backend.type": _STATE,
    "state.backend.rocksdb.": _STATE,
    "state.changelog.enabled": _STATE,
    "python.fn-execution.": _WORKERS,
    "python.execution-mode": _WORKERS,
    "python.profile.enabled": _WORKERS,
    "pipeline.object-reuse": "records are never shared between functions that could change them",
    "metrics.latency.interval": "there are no latency markers",
}
_warned_names: set[str] = set()


def print_ignored_options(options: Mapping[str, str]) -> None:
    """Print one warning per reason, with its options except those of earlier warnings."""
    by_reason: dict[str, list[str]] = {}
    for key in sorted(options):
        why = next((why for start, why in WITHOUT_EFFECT.items() if key.startswith(start)), None)
        if why is not None:
            by_reason.setdefault(why, []).append(key)
    for why, keys in by_reason.items():
        print_once(keys, why)


def print_left_out(job: Job, roots: Iterable[Transformation]) -> None:
    """Warn of the sinks among `roots` that PyFlink leaves out of a job whose records are collected."""
    names = [root.name for root in roots if root.kind == "sink" and root not in job.transformations]
    if names:
        print_error(
            f"warning: job {job.name!r} collects records, and as in PyFlink it leaves out the sinks "
            f"{', '.join(names)}; run them with execute, or set python.operator-chaining.enabled to false"
        )


def print_once(names: Iterable[str], why: str) -> None:
    """Warn that `names` have no effect; names of an earlier warning are left out."""
    new = [name for name in names if name not in _warned_names]
    if new:
        _warned_names.update(new)
        print_error(f"warning: {', '.join(new)}: no effect, because {why}")


#: Rows of a DataFrame are small, and a batch of many of them costs its function's worker less; blocks are up
#: to a megabyte each, so bytes limit a batch of them. Checksums show whether a task whose shuffle files were
#: lost wrote other rows when it ran again; then all of its readers run again.
_SPARK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
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
    """Return the settings of every task of `job`; JobCompileError if a Penstock option is not a number."""
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
        raise JobCompileError(f"option {option.key}: {text!r} {error}; it must be {option.allowed}") from None


def spark_settings_for_runs(spark: SparkSession) -> AbstractContextManager[None]:
    """Set Spark settings that exchanges need while a job is built and runs; overlapping runs share them."""
    return shared_settings(spark, _SPARK)
