"""The session of a run, its files on the workers, and a display of its progress."""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import cast

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.machine.folders import temporary_folder
from penstock.engine.run.clusters.session_folder import live_session
from penstock.engine.run.clusters.start_session import EXECUTOR_CORES
from penstock.engine.run.lowering.transformations import CachedFile, Job
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.job_monitor import JobMonitor
from penstock.engine.run.runtime.run_context import RunContext, SessionSettings
from penstock.engine.run.runtime.spark_application import is_remote, local_path_of_sent, send_file
from penstock.engine.spark.session import any_session, use_this_python
from penstock.operators.task.python_dependencies import (
    PythonDependencies,
    ShippedFile,
    is_prepared,
    is_tar,
    module_folders,
    prepared_folder,
)
from penstock.plans.errors import JobCompileError
from penstock.plans.printable import printable

# Python files, packages and archives of a job on their way to Spark's workers.
#
# Source: org.apache.flink.python.util.PythonDependencyUtils.


def ship_python(spark: SparkSession, job: Job) -> PythonDependencies:
    """Send the files that the functions of `job` need, and put its modules on the path of this process too.

    Raises JobCompileError for a file that does not exist, is not an archive, or whose target is not allowed,
    and for requirements that pip cannot install.
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
        here = module_folders(own, prepared_folder(own, local_path_of_sent(spark, _folder_of_sent())))
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
        kind = "a folder" if path.is_dir() else f"not a {'tar' if is_tar(path.name) else 'zip'} file"
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
    # Spark sends each name once: the name holds a digest of the content, so it is right for every job
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


def run_session(slots: int, context: RunContext, dataframes: Sequence[DataFrame] = ()) -> SparkSession:
    """Return the session that jobs run in: the session of the DataFrames they read, else the connected
    session of `context`, else the process's own session or a new one.

    The last two get the context's settings. If it has none, the process's own session is used unchanged, and
    a new one gets the settings of the configuration directory. A new session on a
    cluster requests executors (TaskManagers) with as many cores as the plan has slots: on spark:// by
    spark.cores.max, on yarn and k8s by spark.executor.instances, unless these are set.
    """
    if dataframes:
        return use_this_python(dataframes[0].sparkSession)
    if context.spark is not None and context.spark.session is not None:
        from penstock.engine.run.clusters.session_server import connected_session

        live_session(context.spark.session.name)  # it may have ended since the script began
        return cast(SparkSession, connected_session())
    is_new = SparkContext._active_spark_context is None
    settings = context.spark or SessionSettings(conf=find_configuration().spark if is_new else {})
    conf = dict(settings.conf)
    master = settings.master or conf.get("spark.master", "")
    executor_cores = int(conf.get(EXECUTOR_CORES) or 1)
    executors = -(-slots // executor_cores)
    if is_new and master.startswith("spark://"):
        conf.setdefault("spark.cores.max", str(executors * executor_cores))
    elif is_new and master.startswith(("yarn", "k8s://")):
        conf.setdefault("spark.executor.instances", str(executors))
    return any_session(master=settings.master, conf=conf)


def cached_files_on_spark(spark: SparkSession, files: Mapping[str, CachedFile]) -> dict[str, str]:
    """Send the files of the distributed cache to the workers; return each file's name among Spark's files."""
    sent = {}
    for name, file in files.items():
        path = Path(file.path.removeprefix("file://"))
        if not path.exists():
            raise JobCompileError(f"cached file {name!r}: {path} does not exist")
        if is_remote(spark):  # on the machine of the server; other clients may have sent this name
            sent[name] = str(path.absolute())
            continue
        send_file(spark, str(path), is_folder=path.is_dir())
        sent[name] = path.name
    return sent


@contextmanager
def show_run(name: str, compiled: CompiledJob) -> Iterator[Callable[[JobMonitor], None]]:
    """Show the progress of each JobVertex if standard error is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda monitor: None
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:.0f}/{task.total:.0f} subtasks"),
        TextColumn("{task.fields[records]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[int, TaskID] = {
            compiled_vertex.chain.vertex: bar.add_task(
                printable(compiled_vertex.chain.name[:48]),
                total=compiled_vertex.chain.parallelism,
                records="",
                start=False,
            )
            for compiled_vertex in compiled.vertices
        }

        def on_change(monitor: JobMonitor) -> None:
            for vertex, task in tasks.items():
                summary = monitor.summary(vertex)
                if any(
                    attempt.vertex == vertex and attempt.host for attempt in monitor.attempts.copy().values()
                ):
                    bar.start_task(task)
                records = max(summary["records_in"], summary["records_out"])
                bar.update(
                    task, completed=summary["finished"], records=f"{records:,} records" if records else ""
                )

        yield on_change
