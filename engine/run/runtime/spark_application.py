"""Calls of Spark other than DataFrames, for a session of this process and for one over Spark Connect.

Over Spark Connect there is no SparkContext: jobs are grouped by a tag, files are artifacts.
"""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from penstock.plans.errors import ConfigurationError, JobCompileError, PenstockError
from penstock.plans.frames.spark_schemas import has_ended

_SECONDS_BETWEEN_INTERRUPTS = 0.2


def is_remote(spark: SparkSession) -> bool:
    """Whether `spark` is a client of a session over Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def in_running_session(spark: Any, call: str) -> Iterator[None]:
    """Raise a ConfigurationError that names `call` if the session is stopped before the block or during it.

    Spark's own errors in a session that has ended (null pointers, closed channels) do not name this cause.
    """
    if has_ended(spark):
        raise _stopped(call)
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        if not has_ended(spark) and not any(sign in str(error) for sign in _SIGNS_OF_AN_END):
            raise
        raise _stopped(call) from error


_SIGNS_OF_AN_END = ("INVALID_HANDLE.SESSION", "NO_ACTIVE_SESSION")
"""Parts of the errors of a session of Spark Connect that its server has ended."""


def _stopped(call: str) -> ConfigurationError:
    return ConfigurationError(
        f"{call}: the Spark session has been stopped, or has ended", "do this before the session ends"
    )


def has_several_executors(spark: SparkSession) -> bool:
    """Whether tasks may run in processes other than the driver, which can be lost."""
    return re.fullmatch(r"local(\[.*\])?", spark.conf.get("spark.master", None) or "") is None


def driver_host(spark: SparkSession) -> str:
    """Return the host at which workers reach this process; a session and its clients share a machine."""
    return spark.conf.get("spark.driver.host", None) or "127.0.0.1"


@contextmanager
def job_group(spark: SparkSession, job_id: str, description: str) -> Iterator[None]:
    """Assign the Spark jobs that this thread starts inside the block to `job_id`."""
    if is_remote(spark):
        spark.addTag(job_id)
        try:
            yield
        finally:
            spark.removeTag(job_id)
        return
    context = spark.sparkContext
    context.setJobGroup(job_id, description, interruptOnCancel=True)
    try:
        yield
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def cancel_group(spark: SparkSession, job_id: str) -> None:
    """Cancel the Spark jobs of `job_id` that are running."""
    if is_remote(spark):
        spark.interruptTag(job_id)
    else:
        spark.sparkContext.cancelJobGroup(job_id)


def cancel_group_and_future_jobs(spark: SparkSession, job_id: str, has_ended: Callable[[], bool]) -> None:
    """Cancel the Spark jobs of `job_id`, including jobs that are submitted later."""
    if not is_remote(spark):
        spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(job_id)
        return

    def interrupt() -> None:
        while not has_ended():
            with suppress(Exception):  # the server may have ended
                spark.interruptTag(job_id)
            time.sleep(_SECONDS_BETWEEN_INTERRUPTS)

    threading.Thread(target=interrupt, name="penstock-cancel", daemon=True).start()


def send_file(spark: SparkSession, path: str, *, is_folder: bool = False) -> None:
    """Send a file to the workers, which find it by its name among Spark's files.

    Raises JobCompileError for a path that Spark Connect cannot send: a folder, or a file that is not local.
    """
    if not is_remote(spark):
        context = spark.sparkContext
        arguments = (True,) if is_folder else ()
        send_once(context.applicationId, context.addFile, path, *arguments)
        return
    if is_folder or "://" in path:
        kind = "a folder" if is_folder else "not a local file"
        raise JobCompileError(f"{path} is {kind}, which a session does not take: copy or zip it first")
    send_once(str(spark.client._session_id), _add_artifact(spark), path)


def local_path_of_sent(spark: SparkSession, folder: Path) -> Callable[[str], str]:
    """Return a function from the name of a file that was sent from `folder` to its path on this machine."""
    return (lambda name: str(folder / name)) if is_remote(spark) else SparkFiles.get


def _add_artifact(spark: SparkSession) -> Callable[[str], None]:
    return lambda path: spark.addArtifacts(path, file=True)


# A file is sent to Spark's workers once in an application; Spark would warn each further time.


_sent: dict[str, set[str]] = {}


def send_once(application: str, send: Callable[..., None], path: str, *arguments: Any) -> None:
    """Call `send(path, *arguments)`, unless the path has been sent to this Spark application before."""
    sent = _sent.setdefault(application, set())
    if path not in sent:
        send(path, *arguments)
        sent.add(path)
