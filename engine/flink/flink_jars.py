"""Flink's jars, and Penstock's Java programs compiled against them.

The jars are those of the PyPI package apache-flink-libraries, which the extra `flink` installs. Programs
(the .java files beside this one, and those of `measured_jobs`) are compiled at their first use, into the
user's cache.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from penstock.engine.machine.state_folder import CACHE_DIR, cache_folder
from penstock.engine.spark.find_java import MINIMUM_JAVA, Java
from penstock.plans.errors import ConfigurationError
from penstock.plans.installation import install_command

FLINK_VERSION = "2.3.0"
_PACKAGE = "apache-flink-libraries"
_INSTALL = f"{install_command('flink')} (330 MB) into the Python that runs Penstock"
_SOURCES = Path(__file__).parent
_MAIN_CLASS_FILE = "penstock/flink/PlanTopologies.class"
_MEASURED_JOBS = "penstock/flink/measured/RunJobs.class"


def flink_jars() -> Path:
    """The folder with Flink's jars.

    Raises ConfigurationError if the package is not installed, is another version or has lost its jars.
    """
    try:
        package = distribution(_PACKAGE)
    except PackageNotFoundError as error:
        raise ConfigurationError(f"Flink's jars: {_PACKAGE} is not installed", _INSTALL) from error
    if package.version != FLINK_VERSION:
        raise ConfigurationError(
            f"Flink's jars: found {_PACKAGE} {package.version}, allowed {FLINK_VERSION}", _INSTALL
        )
    folder = Path(str(package.locate_file("pyflink/lib")))
    if not (folder / f"flink-dist-{FLINK_VERSION}.jar").is_file():
        raise ConfigurationError(
            f"Flink's jars: {_PACKAGE} is installed, but {folder} holds no flink-dist-{FLINK_VERSION}.jar",
            f"pip install --force-reinstall {_PACKAGE}=={FLINK_VERSION}",
        )
    return folder


def compiled_planner(jars: Path, java: Java) -> Path:
    """The folder with the classes of PlanTopologies. Raises ConfigurationError (see _compiled)."""
    return _compiled(_SOURCES, _MAIN_CLASS_FILE, jars, java)


def compiled_measured_jobs(jars: Path, java: Java) -> Path:
    """The folder with the classes of RunJobs. Raises ConfigurationError (see _compiled)."""
    return _compiled(_SOURCES / "measured_jobs", _MEASURED_JOBS, jars, java)


def _compiled(folder: Path, main_class_file: str, jars: Path, java: Java) -> Path:
    """The sources of a folder, compiled against `jars` unless that was done before.

    Several processes may call this at once: each compiles into its own folder and renames that, and the
    first one's is taken. Raises ConfigurationError if there is no javac, if it fails, or if the cache cannot
    be written.
    """
    sources = sorted(folder.glob("*.java"))
    try:
        classes = cache_folder() / f"flink-{_fingerprint(sources)}"
    except OSError as error:
        raise _unusable(error) from error
    if (classes / main_class_file).is_file():
        return classes
    javac = _find_javac(java)
    try:
        with tempfile.TemporaryDirectory(
            prefix="compiling-", dir=classes.parent, ignore_cleanup_errors=True
        ) as compiling:
            own = Path(compiling) / "classes"
            _compile(javac, jars, sources, own)
            _publish(own, classes, main_class_file)
    except OSError as error:
        raise _unusable(error) from error
    return classes


def _unusable(error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"Penstock's cache cannot be used: {error}", f"{CACHE_DIR} names another folder for it"
    )


def _fingerprint(sources: list[Path]) -> str:
    """A digest of everything that the classes depend on."""
    digest = hashlib.sha256(f"{FLINK_VERSION} {MINIMUM_JAVA}".encode())
    for source in sources:
        digest.update(f"\n{source.name}\n".encode() + source.read_bytes())
    return digest.hexdigest()[:16]


def _find_javac(java: Java) -> str:
    """The javac beside `java`, else the first on PATH. Raises ConfigurationError."""
    beside = (Path(java.path).parent, Path(java.path).resolve().parent)
    search = os.pathsep.join([*map(str, beside), os.environ.get("PATH", os.defpath)])
    javac = shutil.which("javac", path=search)
    if javac is None:
        raise ConfigurationError(
            f"javac: found none (Java is {java.version}, {java.path})",
            f"planning with Flink needs a JDK and not only a JRE: install JDK {MINIMUM_JAVA} or newer, and "
            "put it on PATH or name it by JAVA_HOME",
        )
    return javac


def _compile(javac: str, jars: Path, sources: list[Path], into: Path) -> None:
    options = ["--release", str(MINIMUM_JAVA), "-nowarn", "-proc:none", "-encoding", "UTF-8"]
    command = [javac, *options, "-cp", str(jars / "*"), "-d", str(into), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise ConfigurationError(
            f"{javac} does not compile Penstock's program for Flink:\n  " + "\n  ".join(said[:8]),
            f"is it a JDK of {MINIMUM_JAVA} or newer?",
        )


def _publish(own: Path, classes: Path, main_class_file: str) -> None:
    try:
        own.rename(classes)
    except OSError:
        # Another process was first: a rename never replaces a folder that holds something.
        if not (classes / main_class_file).is_file():
            raise
