"""Runs a compiled job on Spark: as one Spark job, or vertex by vertex where what they finish is kept."""

from contextlib import suppress
from dataclasses import replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.runtime.compile_job import CompiledJob
from penstock.engine.runtime.deliver_rows import Rows, terminal_rows
from penstock.engine.runtime.describe_failure import describe_failure
from penstock.engine.runtime.errors import JobCancelledError, JobCompileError
from penstock.engine.runtime.exchange_on_spark import JobFrames
from penstock.engine.runtime.job import Job
from penstock.engine.runtime.job_monitor import JobMonitor
from penstock.engine.runtime.keep_vertices import KeptVertices
from penstock.engine.runtime.run_control import RunControl
from penstock.engine.runtime.run_environment import cached_files_on_spark
from penstock.engine.runtime.run_settings import spark_settings_for_runs, task_settings
from penstock.engine.runtime.ship_python import ship_python
from penstock.engine.runtime.spark_application import cancel_group, is_remote, job_group
from penstock.engine.runtime.workers_python import workers_python
from penstock.engine.spark.drop_dead_workers import drop_dead_workers
from penstock.operators.task.task_spec import ResultsAddress

_SIGNS_OF_CANCEL = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED")


def run_on_spark(
    spark: SparkSession,
    job: Job,
    control: RunControl,
    compiled: CompiledJob,
    monitor: JobMonitor,
    address: ResultsAddress | None,
) -> Rows:
    """What the terminal vertices of `compiled` give, while `monitor` listens to its tasks.

    Raises JobCancelledError, and JobExecutionError that says what failed.
    """
    if not is_remote(spark):
        drop_dead_workers(spark)
    dependencies = ship_python(spark, job)
    files = cached_files_on_spark(spark, job.cached_files)
    settings = task_settings(job, control.job_id, monitor.address, files, address)
    settings = replace(settings, first_attempts=monitor.first_attempts)
    frames = None
    try:
        with (
            job_group(spark, control.job_id, f"Penstock: {job.name}"),
            spark_settings_for_runs(spark),
            workers_python(spark, job),
        ):

            def submit() -> None:
                monitor.submitted(None if address is None else address.here)
                control.state = "RUNNING"
                control.submitted.set()
                if control.cancel_requested.is_set():
                    raise KeyboardInterrupt

            recovered = control.recovered
            kept = None if recovered is None else KeptVertices(spark, recovered.kept, compiled, submit)
            frames = JobFrames(spark, compiled, settings, dependencies, kept=kept)
            if kept is None:
                submit()
            table = frames.terminal().toArrow()
        monitor.ended(finished=True)
        if address is not None and address.here is not None and _only_to_driver(compiled, address):
            monitor.count_here(address.here, address.vertices)
        return terminal_rows(table)
    except KeyboardInterrupt as error:
        monitor.cancelling()
        with suppress(PySparkException):  # a session that has ended
            cancel_group(spark, control.job_id)
        monitor.ended(finished=False)
        raise JobCancelledError(f"job {job.name!r} was cancelled; nothing of it is committed") from error
    except (PySparkException, Py4JError) as error:
        # on Ctrl-C PySpark's own handler cancels all jobs, which may get here before KeyboardInterrupt does
        cancelled = control.cancel_requested.is_set() or any(sign in str(error) for sign in _SIGNS_OF_CANCEL)
        if cancelled:
            monitor.cancelling()
            monitor.ended(finished=False)
            raise JobCancelledError(f"job {job.name!r} was cancelled; nothing of it is committed") from None
        failure = describe_failure(job.name, compiled, monitor, error)
        monitor.ended(finished=False)
        raise failure from None
    finally:
        if frames is not None:
            frames.release()


def _only_to_driver(compiled: CompiledJob, address: ResultsAddress) -> bool:
    writers = [one.chain for one in compiled.vertices if one.chain.vertex in address.vertices]
    return all(output.to_driver for chain in writers for output in chain.outputs)


def source_dataframes(name: str, compiled: CompiledJob) -> list[DataFrame]:
    """The DataFrames that the job `name` reads. JobCompileError where they are of several sessions."""
    found = [
        one.operator.dataframe()
        for vertex in compiled.vertices
        for one in vertex.chain.operators
        if one.source and getattr(one.operator, "reads_dataframe", False)
    ]
    if any(is_remote(one.sparkSession) != is_remote(found[0].sparkSession) for one in found):
        raise JobCompileError(f"job {name!r} reads DataFrames of Spark Connect and of classic Spark")
    return found
