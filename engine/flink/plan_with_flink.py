"""Plan by the real Apache Flink 2.3.0, in a JVM that ends with the call."""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from penstock.engine.machine.folders import CACHE_DIR, cache_folder, short_lived_folder
from penstock.engine.machine.operating_system import with_parent
from penstock.engine.spark.find_java import MINIMUM_JAVA, Java, require_java
from penstock.plans.errors import ConfigurationError, LostTopologiesError, NotEnoughMemoryError, PenstockError
from penstock.plans.installation import install_command
from penstock.plans.vocabulary import Layer

# Flink's jars, and Penstock's Java programs compiled against them.
#
# The jars belong to the PyPI package apache-flink-libraries, which the extra `flink` installs. Programs
# (the .java files in this folder and in `measured_jobs`) are compiled at their first use, into the
# user's cache.


FLINK_VERSION = "2.3.0"
_PACKAGE = "apache-flink-libraries"
_INSTALL = f"{install_command('flink')} (330 MB) into the Python that runs Penstock"
_SOURCES = Path(__file__).parent
_MAIN_CLASS_FILE = "penstock/flink/PlanTopologies.class"
_MEASURED_JOBS = "penstock/flink/measured/RunJobs.class"


def flink_jars() -> Path:
    """Return the folder with Flink's jars.

    Raises ConfigurationError if the package is not installed, has another version or has lost its jars.
    """
    try:
        package = distribution(_PACKAGE)
    except PackageNotFoundError as error:
        raise ConfigurationError(f"Flink's jars: {_PACKAGE} is not installed", _INSTALL) from error
    if package.version != FLINK_VERSION:
        raise ConfigurationError(
            f"Flink's jars: {_PACKAGE} must be {FLINK_VERSION}, got {package.version}", _INSTALL
        )
    folder = Path(str(package.locate_file("pyflink/lib")))
    if not (folder / f"flink-dist-{FLINK_VERSION}.jar").is_file():
        raise ConfigurationError(
            f"Flink's jars: {_PACKAGE} is installed, but {folder} lacks flink-dist-{FLINK_VERSION}.jar",
            f"pip install --force-reinstall {_PACKAGE}=={FLINK_VERSION}",
        )
    return folder


def compiled_planner(jars: Path, java: Java) -> Path:
    """Return the folder with the classes of PlanTopologies. Raises ConfigurationError (see _compiled)."""
    return _compiled(_SOURCES, _MAIN_CLASS_FILE, jars, java)


def compiled_measured_jobs(jars: Path, java: Java) -> Path:
    """Return the folder with the classes of RunJobs. Raises ConfigurationError (see _compiled)."""
    return _compiled(_SOURCES / "measured_jobs", _MEASURED_JOBS, jars, java)


def _compiled(folder: Path, main_class_file: str, jars: Path, java: Java) -> Path:
    """Return the folder of a source folder's classes, compiled against `jars` if that was not done before.

    Several processes may call this at once: each compiles into its own folder and renames it, and the
    first one wins. Raises ConfigurationError if there is no javac, if it fails, or if the cache cannot
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
    """Return a digest of everything that the classes depend on."""
    digest = hashlib.sha256(f"{FLINK_VERSION} {MINIMUM_JAVA}".encode())
    for source in sources:
        digest.update(f"\n{source.name}\n".encode() + source.read_bytes())
    return digest.hexdigest()[:16]


def _find_javac(java: Java) -> str:
    """Return the javac next to `java`, else the first on PATH. Raises ConfigurationError."""
    java_folders = (Path(java.path).parent, Path(java.path).resolve().parent)
    search = os.pathsep.join([*map(str, java_folders), os.environ.get("PATH", os.defpath)])
    javac = shutil.which("javac", path=search)
    if javac is None:
        raise ConfigurationError(
            f"javac is required (Java is {java.version}, {java.path})",
            f"planning with Flink needs a JDK and not only a JRE: install JDK {MINIMUM_JAVA} or newer, and "
            "put it on PATH or name it by JAVA_HOME",
        )
    return javac


def _compile(javac: str, jars: Path, sources: list[Path], into: Path) -> None:
    options = ["--release", str(MINIMUM_JAVA), "-nowarn", "-proc:none", "-encoding", "UTF-8"]
    command = [javac, *options, "-cp", str(jars / "*"), "-d", str(into), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        messages = (done.stderr or done.stdout).strip().splitlines()
        raise ConfigurationError(
            f"{javac} does not compile Penstock's program for Flink:\n  " + "\n  ".join(messages[:8]),
            f"use a JDK of {MINIMUM_JAVA} or newer",
        )


def _publish(own: Path, classes: Path, main_class_file: str) -> None:
    try:
        own.rename(classes)
    except OSError:
        # Another process was first: a rename never replaces a folder that is not empty.
        if not (classes / main_class_file).is_file():
            raise


_MEMORY = re.compile(r"[1-9][0-9]*[kKmMgGtT]?").fullmatch
_JVM_DOES_NOT_START = (
    "Could not create the Java Virtual Machine",
    "Could not reserve enough space",
    "Cannot allocate memory",
)
_STACK_TRACE = re.compile(r"\s+(at |\.\.\. \d+ )").match
_LOG_LINES = 8


class FlinkPlannerError(PenstockError):
    """The planning JVM ended early; `log_tail` contains its last lines, without stack traces."""

    def __init__(self, message: str, hint: str | None = None, log_tail: str = "") -> None:
        super().__init__(message, hint)
        self.log_tail = log_tail


class FlinkOutOfMemoryError(FlinkPlannerError):
    """The JVM ran out of memory."""

    exit_code = NotEnoughMemoryError.exit_code


class FlinkPlanResult(NamedTuple):
    """The plans and times of a run of Flink.

    `plans` are parsed lines of plan JSON, in the order of the input; with `times_only`, only plans of refused
    topologies. `seconds` is keyed by read, the planned layers, and write; it is the last entry of `runs`.
    `peak_bytes` is the JVM's peak of resident memory, None if the system does not report it.
    """

    plans: list[dict[str, Any]]
    seconds: dict[str, float]
    runs: list[dict[str, float]]
    topologies: int
    refused: int
    peak_bytes: int | None


class PlannerFiles(NamedTuple):
    """Input and output files of the Java program."""

    topologies: Path
    plans: Path
    times: Path
    log: Path


def plan_with_flink(
    lines: Iterable[str],
    until: Layer = Layer.SLOTS,
    *,
    heap: str = "4g",
    stack: str | None = None,
    times_only: bool = False,
    repeat: int = 1,
    enough_seconds: float | None = None,
) -> FlinkPlanResult:
    """Plan topology lines (docs/topology-files.md) up to and including layer `until`, by Flink's own classes.

    `heap` and `stack` are Java's -Xmx and -Xss (None: Java's default, usually too small for a chain of 3,000
    operators). `times_only`: plans are dropped, which leaves memory to Flink. `repeat`: number of plans in
    one JVM, of which only the first is cold; fewer if all others would take longer than `enough_seconds`.

    A topology that Flink refuses has error_stage, error (Flink's exception class) and message in its plan; so
    has one for which stack or heap were too small (StackOverflowError, OutOfMemoryError). The stage is
    "unsupported" if Flink 2.3 has no API for it (`select`, a given `stream_graph`, unknown keys), and
    "input" if the line is not a topology; there the error is UnplannableTopologyException.

    Raises ConfigurationError (the extra `flink`, Java or javac are missing; wrong options), FlinkPlannerError
    (the whole JVM failed), LostTopologiesError.
    """
    options = _options(until, times_only, repeat, enough_seconds)
    memory = _memory_options(heap, stack)
    java, jars = require_java(), flink_jars()
    classes = compiled_planner(jars, java)
    with short_lived_folder("flink") as folder:
        files = PlannerFiles(*(Path(folder, name) for name in ("topologies", "plans", "times", "log")))
        written = _write_lines(lines, files.topologies)
        _run(planner_command(java, memory, [classes, jars / "*"], files, options), files.log)
        runs = [orjson.loads(line) for line in files.times.read_bytes().splitlines()]
        plans = [orjson.loads(line) for line in _lines_of(files.plans)]
    return _planned(written, plans, runs, until, times_only)


def planner_command(
    java: Java, memory: list[str], class_path: list[Path], files: PlannerFiles, options: list[str]
) -> list[str]:
    """Return the command line of the JVM."""
    return [
        java.path,
        *memory,
        "-Dlog4j2.level=ERROR",
        "-cp",
        os.pathsep.join(map(str, class_path)),
        "penstock.flink.PlanTopologies",
        *map(str, (files.topologies, files.plans, files.times)),
        *options,
    ]


def _options(until: Layer, times_only: bool, repeat: int, enough: float | None) -> list[str]:
    if until == Layer.TOPOLOGY:
        raise ConfigurationError("Flink has no layer topology", f"plan until {Layer.STREAM_GRAPH} or further")
    if repeat < 1:
        raise ConfigurationError(f"repeat must be 1 or more, got {repeat}")
    return [
        "--until",
        str(until),
        *(["--times-only"] if times_only else []),
        *(["--repeat", str(repeat)] if repeat > 1 else []),
        *(["--enough", str(enough)] if enough is not None else []),
    ]


def _memory_options(heap: str, stack: str | None) -> list[str]:
    for name, value in (("heap", heap), ("stack", stack)):
        if value is not None and not _MEMORY(value):
            raise ConfigurationError(f"{name} must be a size such as 512m or 4g, got {value!r}")
    return [f"-Xmx{heap}", *([f"-Xss{stack}"] if stack is not None else [])]


def _write_lines(lines: Iterable[str], path: Path) -> int:
    """Write and count the lines; line breaks inside one can only be white space of JSON."""
    written = 0
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            if line.strip():
                file.write(line.replace("\r", " ").replace("\n", " ") + "\n")
                written += 1
    return written


def _lines_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _run(command: list[str], log: Path) -> None:
    """Run the JVM; raise ConfigurationError or FlinkPlannerError if it fails."""
    with log.open("wb") as file:
        exit_code = subprocess.run(
            with_parent(command), stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
        ).returncode
    if exit_code:
        raise _failure(exit_code, log.read_text(encoding="utf-8", errors="replace"))


def _failure(exit_code: int, log: str) -> PenstockError:
    """Return the error for a JVM that ended."""
    lines = [line for line in log.splitlines() if line.strip() and not _STACK_TRACE(line)]
    tail = "\n".join(lines[-_LOG_LINES:])
    if any(words in log for words in _JVM_DOES_NOT_START):
        return ConfigurationError(
            f"Java does not start with the requested memory: {lines[0] if lines else ''}",
            "request another heap or stack",
        )
    if exit_code < 0:
        name = signal.strsignal(-exit_code) or f"signal {-exit_code}"
        return FlinkPlannerError(
            f"Flink's planner was ended from outside: {name}",
            "check that the machine has as much memory as the requested heap",
            tail,
        )
    if "java.lang.OutOfMemoryError" in log:
        return FlinkOutOfMemoryError(
            "Flink's planner ran out of memory between topologies", "request more heap", tail
        )
    if "StackOverflowError" in log:
        return FlinkPlannerError(
            "Flink's planner ran out of stack before the first topology", "request more stack", tail
        )
    return FlinkPlannerError(
        f"Flink's planner ended with exit code {exit_code}; its last lines:\n  " + tail.replace("\n", "\n  "),
        None,
        tail,
    )


def _planned(
    written: int, plans: list[dict[str, Any]], runs: list[dict[str, Any]], until: Layer, times_only: bool
) -> FlinkPlanResult:
    """Return the plans and times. `runs` are lines of times, one per run; layers after `until` have none."""
    last = runs[-1]
    expected = last["refused"] if times_only else written
    if last["topologies"] != written or len(plans) != expected:
        raise LostTopologiesError(
            f"{written} topologies went to Flink, {last['topologies']} were planned or refused and "
            f"{len(plans)} of {expected} came back",
            "this is a bug in Penstock: please report it with the input",
        )
    later = list(Layer)[list(Layer).index(until) + 1 :]
    seconds = [
        {step: spent / 1e9 for step, spent in run["nanoseconds"].items() if step not in later} for run in runs
    ]
    return FlinkPlanResult(
        plans, seconds[-1], seconds, written, last["refused"], last.get("peak_resident_bytes")
    )
