"""Sends Python files, packages and archives of a job to Spark's workers.

Source: org.apache.flink.python.util.PythonDependencyUtils.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from penstock.engine.machine.temporary_folders import temporary_folder
from penstock.engine.run.runtime.errors import JobCompileError
from penstock.engine.run.runtime.transformations import Job
from penstock.operators.task.python_dependencies import (
    PythonDependencies,
    ShippedFile,
    is_prepared,
    is_tar,
    module_folders,
    prepared_folder,
)
from penstock.plans.errors import ConfigurationError, PenstockError
from penstock.plans.frames.spark_schemas import has_ended

# What a run asks of Spark beside DataFrames, from a session of this process or from one over Spark Connect.
#
# Over Spark Connect there is no SparkContext: jobs are grouped by a tag, files are artifacts.


_SECONDS_BETWEEN_INTERRUPTS = 0.2


def is_remote(spark: SparkSession) -> bool:
    """Whether this is a client of a session, over Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def in_running_session(spark: Any, call: str) -> Iterator[None]:
    """ConfigurationError that names `call` where the session has been stopped before the block or during it.

    What Spark raises of a session that has ended says nothing of that: null pointers, closed channels.
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
"""Of a session of Spark Connect that its server has ended."""


def _stopped(call: str) -> ConfigurationError:
    return ConfigurationError(
        f"{call}: the Spark session has been stopped, or has ended", "do this before the session ends"
    )


def has_several_executors(spark: SparkSession) -> bool:
    """Whether tasks may run in other processes than the driver's, which can be lost."""
    return re.fullmatch(r"local(\[.*\])?", spark.conf.get("spark.master", None) or "") is None


def driver_host(spark: SparkSession) -> str:
    """Where workers reach this process. (A session's server and its clients are on one machine.)"""
    if is_remote(spark):
        return spark.conf.get("spark.driver.host", None) or "127.0.0.1"
    return spark.sparkContext.getConf().get("spark.driver.host") or "127.0.0.1"


@contextmanager
def job_group(spark: SparkSession, job_id: str, description: str) -> Iterator[None]:
    """Spark jobs that this thread starts inside the block belong to `job_id`."""
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
    """Cancel the Spark jobs of `job_id`, those too that Spark does not know yet."""
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

    JobCompileError for what cannot be sent over Spark Connect: folders, and files that are not local.
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


def _local_path_of_sent(spark: SparkSession, folder: Path) -> Callable[[str], str]:
    """A function from the name of a file that was sent from `folder` to its path on this machine."""
    return (lambda name: str(folder / name)) if is_remote(spark) else SparkFiles.get


def _add_artifact(spark: SparkSession) -> Callable[[str], None]:
    return lambda path: spark.addArtifacts(path, file=True)


# Sends a file to Spark's workers once in an application; Spark would warn each further time.


_sent: dict[str, set[str]] = {}


def send_once(application: str, send: Callable[..., None], path: str, *arguments: Any) -> None:
    """Call `send(path, *arguments)`, unless the path has been sent to this Spark application before."""
    sent = _sent.setdefault(application, set())
    if path not in sent:
        send(path, *arguments)
        sent.add(path)


def ship_python(spark: SparkSession, job: Job) -> PythonDependencies:
    """Send what the functions of `job` need, and make its modules known to this process too.

    JobCompileError names a file that does not exist, is no archive, or may not be put where it is wanted, and
    requirements that pip cannot install.
    """
    modules = [_module(spark, file, number) for number, file in enumerate(job.python_files)]
    if job.requirements is not None:
        installed = _installed(job.requirements, job.requirements_cache)
        modules.append(_shipped(spark, installed, installed.name, "requirements", is_archive=True))
    archives = [_archive(spark, path, folder) for path, folder in job.archives]
    dependencies = PythonDependencies(tuple(modules), tuple(archives))
    if modules:
        # results are unpickled here, and may be of these modules' classes
        own = PythonDependencies(dependencies.modules)
        here = module_folders(own, prepared_folder(own, _local_path_of_sent(spark, _folder_of_sent())))
        sys.path[:] = [*(folder for folder in sys.path if not is_prepared(folder)), *here]
    return dependencies


def _module(spark: SparkSession, location: str, number: int) -> ShippedFile:
    folder = str(number)
    if _is_remote(location):
        name = location.rsplit("/", 1)[-1]
        return _shipped(spark, location, name, folder, is_archive=not name.endswith(".py"))
    path = _local(location, "python file")
    if path.is_dir():
        return _shipped(spark, _zipped(path), f"{path.name}.zip", folder, is_archive=True)
    is_archive = path.suffix != ".py" and (zipfile.is_zipfile(path) or is_tar(path.name))
    return _shipped(spark, path, path.name, folder, is_archive=is_archive)


def _archive(spark: SparkSession, location: str, folder: str | None) -> ShippedFile:
    name = location.rstrip("/").rsplit("/", 1)[-1]
    target = name if folder is None else folder
    if Path(target).is_absolute() or ".." in Path(target).parts:
        raise JobCompileError(
            f"python archive {location}: its target {target!r} lies outside of the functions' working "
            "folder; give a relative path without .."
        )
    if _is_remote(location):
        return _shipped(spark, location, name, target, is_archive=True)
    path = _local(location, "python archive")
    if path.is_dir() or not (tarfile.is_tarfile(path) if is_tar(path.name) else zipfile.is_zipfile(path)):
        kind = "a folder" if path.is_dir() else f"no {'tar' if is_tar(path.name) else 'zip'} file"
        raise JobCompileError(
            f"python archive {location} is {kind}; archives are .zip, .jar, .whl, .tar, .tar.gz or .tgz files"
        )
    return _shipped(spark, path, path.name, target, is_archive=True)


def _is_remote(path: str) -> bool:
    return "://" in path and not path.startswith("file://")


def _local(location: str, role: str) -> Path:
    path = Path(location.removeprefix("file://"))
    if not path.exists():
        raise JobCompileError(f"{role} {location} does not exist")
    return path


def _shipped(
    spark: SparkSession, file: Path | str, name: str, folder: str, *, is_archive: bool
) -> ShippedFile:
    if isinstance(file, str):
        send_file(spark, file)
        return ShippedFile(name, name, folder, is_archive)
    # Spark sends one file for each name, once: the name tells the content, so it is right for every job
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()[:32]
    named = _folder_of_sent() / f"{digest}-{name}"
    if not named.exists():
        shutil.copyfile(file, named)
    send_file(spark, str(named))
    return ShippedFile(named.name, name, folder, is_archive)


@cache
def _folder_of_sent() -> Path:
    return temporary_folder("py")


def _zipped(folder: Path) -> Path:
    target = temporary_folder("py") / f"{folder.name}.zip"
    with zipfile.ZipFile(target, "w", strict_timestamps=False) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, file.relative_to(folder))
    return target


def _installed(requirements: str, packages: str | None) -> Path:
    target = temporary_folder("requirements")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), "-r", requirements]
    if packages is not None:
        command += ["--no-index", "--find-links", packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise JobCompileError(f"requirements {requirements}: pip failed: {done.stderr.strip()[-500:]}")
    return _zipped(target)
