"""Build the jar of the capturing agent from its sources, for Penstock's build. Imports nothing of Penstock.

The jar is reproducible: the same sources, javac and jars of Flink give the same bytes.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

JAR_NAME = "penstock-capture.jar"
SOURCES_DIGEST = "META-INF/penstock/sources.sha256"

MINIMUM_JAVA = 11
"""The oldest Java on which Flink 1.20 to 2.3 run."""

_SHARED = (
    "FlinkVersions",
    "JobGraphJson",
    "Json",
    "PlannedTopology",
    "Scheduling",
    "SchedulingJson",
    "Step",
    "StreamGraphJson",
    "UnplannableTopologyException",
)
"""Sources of PlanTopologies with which the agent is compiled, too."""

_KEYS = "configuration_keys.txt"
_CLASSES = "META-INF/penstock/classes"
"""A list of all classes, each after its superclasses, for class loaders that get copies of them."""

_MANIFEST = "Manifest-Version: 1.0\r\nPremain-Class: penstock.flink.CaptureAgent\r\n\r\n"
_FIRST_DATE_OF_ZIP = (1980, 1, 1, 0, 0, 0)


def agent_sources() -> list[Path]:
    """Return the Java sources of the jar, and the list of options that leave the JVM."""
    own = Path(__file__).parent
    return [*sorted(own.glob("*.java")), *(own.parent / f"{name}.java" for name in _SHARED), own / _KEYS]


def digest_of_sources() -> str:
    """Return the SHA-256 of names and bytes of the sources."""
    digest = hashlib.sha256()
    for source in agent_sources():
        digest.update(f"{source.name}\n".encode() + source.read_bytes() + b"\n")
    return digest.hexdigest()


def digest_in_jar(jar: Path) -> str:
    """Return the digest of the sources from which `jar` was built; empty if it is not such a jar."""
    try:
        with zipfile.ZipFile(jar) as entries:
            return entries.read(SOURCES_DIGEST).decode()
    except (OSError, KeyError, zipfile.BadZipFile):
        return ""


def build_agent(flink_jars: Path, jar: Path) -> None:
    """Compile the sources against the jars in folder `flink_jars`, and replace `jar` atomically.

    Raises RuntimeError if there is no javac, or if it fails.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-capture-") as folder:
        classes = Path(folder)
        _compile(flink_jars, classes)
        entries = {
            path.relative_to(classes).as_posix(): path.read_bytes() for path in classes.rglob("*.class")
        }
    names = [name.removesuffix(".class").replace("/", ".") for name in sorted(entries)]
    entries[_CLASSES] = "\n".join(names).encode()
    entries[f"META-INF/penstock/{_KEYS}"] = (Path(__file__).parent / _KEYS).read_bytes()
    entries[SOURCES_DIGEST] = digest_of_sources().encode()
    _write_jar(entries, jar)


def _compile(flink_jars: Path, classes: Path) -> None:
    home = os.environ.get("JAVA_HOME")
    javac = shutil.which("javac", path=os.path.join(home, "bin")) if home else shutil.which("javac")
    if javac is None:
        raise RuntimeError("building Penstock needs a JDK: javac is neither in JAVA_HOME nor on PATH")
    sources = [str(path) for path in agent_sources() if path.suffix == ".java"]
    options = [
        "--release",
        str(MINIMUM_JAVA),
        "-nowarn",
        "-proc:none",
        "-encoding",
        "UTF-8",
        "-g:source,lines",
    ]
    command = [javac, *options, "-cp", str(flink_jars / "*"), "-d", str(classes), *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"javac does not compile the capturing agent:\n{done.stderr or done.stdout}")


def _write_jar(entries: dict[str, bytes], jar: Path) -> None:
    part = jar.with_name(f"{jar.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name in ["META-INF/MANIFEST.MF", *sorted(entries)]:
                info = zipfile.ZipInfo(name, _FIRST_DATE_OF_ZIP)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, entries.get(name, _MANIFEST.encode()))
        os.replace(part, jar)
    finally:
        part.unlink(missing_ok=True)
