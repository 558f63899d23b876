"""The environment of a run: its Spark session, its files and its Python on the workers, and its settings."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.configuration.cluster_options import Option
from penstock.engine.configuration.find_configuration import find_configuration
from penstock.engine.configuration.run_options import (
    BLOCK_BYTES,
    PENSTOCK_OPTIONS,
    SEED,
    SORT_MEMORY_BYTES,
    STATE_MEMORY_BYTES,
)
from penstock.engine.machine.folders import temporary_folder
from penstock.engine.output.print_line import print_error
from penstock.engine.run.clusters.session_folder import live_session
from penstock.engine.run.clusters.start_session import EXECUTOR_CORES
from penstock.engine.run.lowering.transformations import CachedFile, Job, Transformation
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.run_context import RunContext, SessionSettings
from penstock.engine.run.runtime.spark_application import is_remote, local_path_of_sent, send_file
from penstock.engine.spark.session import any_session, use_this_python
from penstock.engine.spark.shared_settings import shared_settings
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.process.keyed_process_operators import BroadcastProcessOperator
from penstock.operators.task.python_dependencies import (
    PythonDependencies,
    ShippedFile,
    is_prepared,
    is_tar,
    module_folders,
    prepared_folder,
)
from penstock.operators.task.report import ReportAddress, ResultsAddress, TaskSettings
from penstock.plans.errors import JobCompileError
from penstock.plans.frames.spark_schemas import has_ended

# The Spark session that a job runs in.


def run_session(
    context: RunContext, name: str, compiled: CompiledJob, tables: Mapping[str, pa.Table]
) -> SparkSession:
    """Return the session that the job `name` runs in: the session of the DataFrames that it reads, else the
    connected session of `context`, else the process's own session or a new one.

    The last two get the context's settings. If it has none, the process's own session is used unchanged, and
    a new one gets the settings of the configuration directory. A new session on a
    cluster requests executors (TaskManagers) with as many cores as the plan has slots: on spark:// by
    spark.cores.max, on yarn and k8s by spark.executor.instances, unless these are set.
    """
    dataframes = source_dataframes(name, compiled)
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
    executors = -(-sum(tables["required_slots"]["slots"].to_pylist()) // executor_cores)
    if is_new and master.startswith("spark://"):
        conf.setdefault("spark.cores.max", str(executors * executor_cores))
    elif is_new and master.startswith(("yarn", "k8s://")):
        conf.setdefault("spark.executor.instances", str(executors))
    return any_session(master=settings.master, conf=conf)


def source_dataframes(name: str, compiled: CompiledJob) -> list[DataFrame]:
    """Return the DataFrames that the job `name` reads.

    Raises JobCompileError if some belong to Spark Connect and some to classic Spark, or if the session of one
    has been stopped.
    """
    frames = [
        operator.operator.dataframe()
        for vertex in compiled.vertices
        for operator in vertex.chain.operators
        if operator.source and getattr(operator.operator, "reads_dataframe", False)
    ]
    if any(is_remote(frame.sparkSession) != is_remote(frames[0].sparkSession) for frame in frames):
        raise JobCompileError(f"job {name!r} reads DataFrames of Spark Connect and of classic Spark")
    if any(has_ended(frame.sparkSession) for frame in frames):
        raise JobCompileError(f"job {name!r} reads a DataFrame whose Spark session has been stopped")
    return frames


#: The local property in which Spark has the id of the streaming query whose batch a thread works on.
QUERY_ID = "sql.streaming.queryId"


def require_bounded_state(job: Job, compiled: CompiledJob) -> None:
    """Raise JobCompileError if `job` has keyed or broadcast state and reads a micro-batch in STREAMING mode.

    Its state would begin empty in every batch of the stream, and its windows would end with each.
    """
    stateful = [
        f"operator {spec.name!r} has {kind} state"
        for vertex in compiled.vertices
        for spec in vertex.chain.operators
        for kind, operator_class in (("keyed", KeyedOperator), ("broadcast", BroadcastProcessOperator))
        if issubclass(compiled.classes.get(spec.node, object), operator_class)
    ]
    frames = source_dataframes(job.name, compiled) if stateful and not job.batch else []
    if not frames or is_remote(frames[0].sparkSession):
        return
    if frames[0].sparkSession.sparkContext.getLocalProperty(QUERY_ID) is not None:
        raise JobCompileError(
            f"job {job.name!r} reads a batch of a stream, and its {stateful[0]}, which would begin empty in "
            "every batch",
            "penstock.foreach_batch(build, state=PATH) runs it with state that lasts; in BATCH mode (mode="
            '"BATCH") each batch is computed by itself',
        )


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


# The Python interpreter on which the workers of one job run.
#
# Source: org.apache.flink.python.PythonOptions.PYTHON_EXECUTABLE.


_OPTION = "python.executable"
_PROBE = (
    "import importlib, json, sys\n"
    "missing = []\n"
    "for name in ('penstock.operators', 'pyspark', 'pyarrow'):\n"
    "    try: importlib.import_module(name)\n"
    "    except ImportError: missing.append(name)\n"
    "print(json.dumps([list(sys.version_info[:2]), missing]))"
)


@contextmanager
def workers_python(spark: SparkSession, job: Job) -> Iterator[None]:
    """Inside the block, functions handed to Spark run on the interpreter that `job` names, if any.

    Raises JobCompileError if the interpreter does not exist, or if workers cannot run on it.
    """
    wanted = job.python_executable
    if wanted is None:
        yield
        return
    if is_remote(spark):
        print_once([f"{_OPTION} {wanted}"], "the workers of a session run on the session's own Python")
        yield
        return
    if any(wanted.startswith(f"{folder or os.path.basename(path)}/") for path, folder in job.archives):
        print_once([f"{_OPTION} {wanted}"], "workers already run when they unpack a job's archives")
        yield
        return
    context = spark.sparkContext
    executable = _usable(wanted) if str(context.master).startswith("local") else wanted
    before, context.pythonExec = context.pythonExec, executable
    try:
        yield
    finally:
        context.pythonExec = before


@cache
def _usable(wanted: str) -> str:
    """Return the path of an interpreter on this machine; JobCompileError if workers cannot run on it."""
    executable = shutil.which(wanted)
    if executable is None:
        raise JobCompileError(f"{_OPTION} {wanted!r}: this program does not exist")
    if os.path.samefile(executable, sys.executable):
        return sys.executable
    done = subprocess.run([executable, "-c", _PROBE], capture_output=True, text=True, check=False)
    try:
        version, missing = json.loads(done.stdout)
    except ValueError:
        raise JobCompileError(f"{_OPTION} {wanted!r} is not a Python interpreter") from None
    here = list(sys.version_info[:2])
    if version != here:
        raise JobCompileError(
            f"{_OPTION} {wanted!r} is Python {'.'.join(map(str, version))}, and this process runs on "
            f"{'.'.join(map(str, here))}: Spark's workers need the same version"
        )
    if missing:
        raise JobCompileError(
            f"{_OPTION} {wanted!r} lacks {' and '.join(missing)}: install Penstock for it as for this "
            "process, because workers run Penstock's operators"
        )
    return executable


# The settings of tasks, and Spark's settings while a job is built and runs.


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
    numbers = {option.key: int(read_option(job.config, option)) for option in PENSTOCK_OPTIONS}
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


def read_option(config: Mapping[str, str], option: Option) -> Any:
    """Return the value of an option, by its key or a deprecated one. Raises JobCompileError if wrong."""
    key = next((key for key in (option.key, *option.deprecated) if key in config), None)
    if key is None:
        return option.default
    try:
        return option.parse(config[key])
    except ValueError as error:
        raise JobCompileError(f"option {key}: {config[key]!r} {error}; it must be {option.allowed}") from None


def spark_settings_for_runs(spark: SparkSession) -> AbstractContextManager[None]:
    """Set Spark settings that exchanges need while a job is built and runs; overlapping runs share them."""
    return shared_settings(spark, _SPARK)


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
