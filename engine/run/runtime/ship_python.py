"""Sends Python files, packages and archives of a job to Spark's workers.

Source: org.apache.flink.python.util.PythonDependencyUtils.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from functools import cache
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.engine.machine.temporary_folders import temporary_folder
from penstock.engine.run.runtime.errors import JobCompileError
from penstock.engine.run.runtime.spark_application import local_path_of_sent, send_file
from penstock.engine.run.runtime.transformations import Job
from penstock.operators.task.python_dependencies import (
    PythonDependencies,
    ShippedFile,
    is_prepared,
    is_tar,
    module_folders,
    prepared_folder,
)


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
