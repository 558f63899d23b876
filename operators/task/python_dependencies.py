"""Make the modules and archives available that a job's functions need.

In PyFlink a worker starts in a folder that holds the extracted archives, and its PYTHONPATH begins with the
job's Python files and packages. Spark's workers serve one job after the other; here a subtask changes to such
a folder when it begins, and leaves it when it ends.

Source: org.apache.flink.python.env.AbstractPythonEnvironmentManager, and
pyflink.fn_execution.beam.beam_worker_pool_service.
"""

import fcntl
import hashlib
import os
import shutil
import stat
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.operators.files.filesystem import relative_paths_from

_PREPARED = "penstock-python-"


@dataclass(frozen=True)
class ShippedFile:
    """A file that was sent to the workers."""

    sent_as: str  #: its name among Spark's files, which identifies its content
    name: str  #: the author's name for it
    folder: str  #: its folder, below the archives' or the modules' folder
    is_archive: bool


@dataclass(frozen=True)
class PythonDependencies:
    """All files a job's functions need; the modules in search order."""

    modules: tuple[ShippedFile, ...] = ()
    archives: tuple[ShippedFile, ...] = ()


NO_DEPENDENCIES = PythonDependencies()


@contextmanager
def python_dependencies(dependencies: PythonDependencies, spark_file: Callable[[str], str]) -> Iterator[None]:
    """Inside, these modules are found before all others, and relative paths lead to the archives, if any.

    `spark_file` returns the path of a file from its name among Spark's. Paths of sources and sinks mean the
    same inside as outside.
    """
    if not (dependencies.modules or dependencies.archives):
        _forget_modules_outside("")
        yield
        return
    folder = prepared_folder(dependencies, spark_file)
    _forget_modules_outside(str(folder))
    before = list(sys.path)
    sys.path[0:0] = module_folders(dependencies, folder)
    try:
        if dependencies.archives:
            with _working_in(folder / "archives"):
                yield
        else:
            yield
    finally:
        sys.path[:] = before


def is_prepared(path: str) -> bool:
    """Whether a path leads into the prepared folder of a job."""
    return f"/{_PREPARED}" in path


def module_folders(dependencies: PythonDependencies, folder: Path) -> list[str]:
    """Return the folders in which modules are searched for, below the prepared folder, in order."""
    return [str(folder / "modules" / module.folder) for module in dependencies.modules]


def prepared_folder(dependencies: PythonDependencies, spark_file: Callable[[str], str]) -> Path:
    """Return the folder with all files in place; it is made once per machine and application, atomically."""
    shipped = (*dependencies.modules, *dependencies.archives)
    place = Path(spark_file(shipped[0].sent_as)).parent
    folder = place / f"{_PREPARED}{hashlib.sha256(repr(dependencies).encode()).hexdigest()[:32]}"
    if folder.is_dir():
        return folder
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            unfinished = Path(f"{folder}.unfinished")
            discard(unfinished)
            for kind, files in (("modules", dependencies.modules), ("archives", dependencies.archives)):
                (unfinished / kind).mkdir(parents=True)
                for shipped_file in files:
                    _put(
                        shipped_file,
                        Path(spark_file(shipped_file.sent_as)),
                        unfinished / kind / shipped_file.folder,
                    )
            unfinished.rename(folder)
    return folder


def _put(shipped: ShippedFile, file: Path, folder: Path) -> None:
    if not shipped.is_archive:
        folder.mkdir(parents=True)
        shutil.copyfile(file, folder / shipped.name)
        return
    try:
        extract_archive(file, shipped.name, folder)
    except Exception as error:
        raise OSError(f"python archive {shipped.name} cannot be extracted: {error}") from error


@contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    with relative_paths_from(before):
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _forget_modules_outside(folder: str) -> None:
    """Forget modules that an earlier job's files brought into this process: another job must not see them."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and is_prepared(file) and not (folder and file.startswith(folder)):
            del sys.modules[name]


# Extracts an archive of a job into a folder, with its permissions and links
#
# Source: org.apache.flink.util.CompressionUtils.extractFile.


_TAR = (".tar", ".tar.gz", ".tgz")


def is_tar(name: str) -> bool:
    """Whether a file of this name is read as a tar file, not as a zip file."""
    return name.lower().endswith(_TAR)


def extract_archive(archive: Path, name: str, folder: Path) -> None:
    """Extract `archive` into `folder`, which is created; the author's `name` decides between zip and tar.

    Raises zipfile.BadZipFile, tarfile.TarError (both also if the archive leads out of `folder`) and OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if is_tar(name):
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="tar")
    else:
        _extract_zip(archive, folder)


def _extract_zip(archive: Path, folder: Path) -> None:
    links = []
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            mode = entry.external_attr >> 16
            if stat.S_ISLNK(mode):
                links.append((entry.filename, opened.read(entry).decode()))
                continue
            target = Path(opened.extract(entry, folder))
            if stat.S_IMODE(mode) and not entry.is_dir():
                target.chmod(stat.S_IMODE(mode) & 0o777)
    # links come last, so that no file is written through a link
    for name, leads_to in links:
        place = folder / name
        if not place.resolve().is_relative_to(folder.resolve()):
            raise zipfile.BadZipFile(f"{name} would lie outside of {folder}")
        place.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(leads_to, place)


def discard(folder: Path) -> None:
    """Remove as much of a folder and its content as possible."""
    shutil.rmtree(folder, ignore_errors=True)
