"""Write archives of the classes that a local Spark loads, which halve its start, and zips for clusters.

The first are Java's class data sharing (JEP 350). The first JVM without an archive writes one when it ends,
into this user's cache; later ones map it into memory. Java itself ignores an archive of another Java or of
other jars.
"""

import hashlib
import json
import os
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlparse
from uuid import uuid4

from penstock.engine.machine.available_memory import import_root
from penstock.engine.machine.folders import cache_folder
from penstock.engine.machine.replace_file import make_durable, replace_file, sync_folder
from penstock.engine.machine.stop_on_signals import handles_signals
from penstock.engine.output.print_line import print_error
from penstock.engine.output.redaction import redact
from penstock.engine.spark.find_java import Java
from penstock.engine.spark.spark_conf import offline_jars, spark_conf_dir, spark_conf_dir_in_use
from penstock.engine.spark.submitted_driver import WHEEL_FOLDER
from penstock.operators.files.durable_files import NotOwnError
from penstock.plans.errors import PenstockError
from penstock.plans.installation import DISTRIBUTION, own_version

_ADDS_CLASSES = (
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "SPARK_CLASSPATH",
    "SPARK_DIST_CLASSPATH",
    "SPARK_PREPEND_CLASSES",
    "SPARK_TESTING",
)
"""Environment variables that put folders on Spark's class path; Java does not archive classes in folders."""

_CLASS_PATH = "spark.driver.extraClassPath"
_PACKAGES = "spark.jars.packages"
_OPTIONS = "spark.driver.extraJavaOptions"

_QUIETLY = ("-Xlog:cds*=off", "-XX:+VerifySharedSpaces")
"""Log nothing about archives, and ignore a damaged one."""

_FORMAT = 1
"""In the names of archives and notes; raised whenever an older Penstock would misread them."""

_MOST_ARCHIVES = 3
"""Archives, of 150 MB each: for other Javas and installations."""

_SECONDS_OF_A_WRITER = 86_400
"""After this time, an unfinished file next to an archive counts as a leftover of a killed JVM."""


@dataclass(frozen=True)
class ArchivedStart:
    """The start of a JVM with an archive, or of one that writes an archive."""

    settings: Mapping[str, str]  #: all settings of the JVM
    archive: Path
    written: Path | None
    """The file for the archive that the JVM writes when it ends; None if it reads an existing one."""

    @property
    def environment(self) -> dict[str, str]:
        """Return environment variables of the JVM that keep folders of settings off its class path."""
        return {"SPARK_CONF_DIR": str(self.archive.parent / "no-settings")}


class _CurrentJvm:
    """The start of this process's JVM, which names the archive that it writes when it ends."""

    start: ArchivedStart | None = None


def archived_start(
    settings: Mapping[str, str], defaults: Mapping[str, str], java: Java
) -> ArchivedStart | None:
    """Return the start of a JVM with an archive; `settings` win over `defaults` (of spark-defaults.conf).

    None if its class path is not only jars (on clusters, with a user's own SPARK_CONF_DIR or class path,
    before Spark has resolved its packages for the first time), or if the cache cannot be written.
    """
    merged = {**defaults, **settings}
    ours = spark_conf_dir_in_use() in (spark_conf_dir(), *spark_conf_dir().glob("*"))
    if not (merged.get("spark.master", "").startswith("local") and ours) or _CLASS_PATH in merged:
        return None
    if any(os.environ.get(name) for name in _ADDS_CLASSES) or "SharedArchiveFile" in merged.get(_OPTIONS, ""):
        return None
    jars = offline_jars() or remembered_jars(merged)
    if (
        jars is None
        or (merged.get("spark.jars") and not offline_jars())
        or any(":" in str(jar) for jar in jars)
    ):
        return None
    try:
        archive = cache_folder() / f"classes-{_FORMAT}-{_key(java, jars)}.jsa"
        written = None if archive.is_file() else archive.with_suffix(f".{uuid4().hex}.new")
    except NotOwnError as error:
        _refuse_cache(str(error))
        return None
    except OSError:
        return None
    if written is not None and not handles_signals():
        return None  # a program that uses the library does not wait for its JVM
    named = f"-XX:SharedArchiveFile={archive}" if written is None else f"-XX:ArchiveClassesAtExit={written}"
    log4j = f"-Dlog4j2.configurationFile={(spark_conf_dir_in_use() / 'log4j2.properties').as_uri()}"
    options = [merged.get(_OPTIONS, ""), f'"{named}"', *_QUIETLY, f'"{log4j}"']
    own = {_PACKAGES: "", "spark.jars": "", _CLASS_PATH: ":".join(map(str, jars))}
    return ArchivedStart({**merged, **own, _OPTIONS: " ".join(filter(None, options))}, archive, written)


@cache
def _refuse_cache(why: str) -> None:
    """Print once, in a command, why the cache is not used, so that each start of Spark takes longer."""
    if handles_signals():
        print_error(f"penstock: {why}")


def remember_written(start: ArchivedStart) -> None:
    """Remember that this process's JVM was started by `start`."""
    _CurrentJvm.start = start


def writes_archive() -> bool:
    """Return whether this process's JVM writes an archive when it ends, which takes some seconds."""
    return _CurrentJvm.start is not None and _CurrentJvm.start.written is not None


def save_archive(*, complete: bool) -> None:
    """Move the archive that this process's JVM wrote into the cache; remove it unless `complete`."""
    start, _CurrentJvm.start = _CurrentJvm.start, None
    if start is None or start.written is None or not start.written.is_file():
        return
    if not complete:
        with suppress(OSError):
            start.written.unlink()
        return
    with suppress(OSError):
        make_durable([str(start.written)], str(start.written))
        start.written.rename(start.archive)
        sync_folder(str(start.archive.parent))
        _remove_old(start.archive)


def forget_archive(start: ArchivedStart) -> None:
    """Remove an archive with which a JVM did not start."""
    with suppress(OSError):
        start.archive.unlink(missing_ok=True)


def _key(java: Java, jars: Sequence[Path]) -> str:
    """Return a digest of everything that Java checks before it accepts the archive."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    digest = hashlib.sha256(f"{os.path.realpath(java.path)} {java.version}".encode())
    for jar in [*sorted((home / "jars").glob("*.jar")), *jars]:
        status = jar.stat()
        digest.update(f"\n{jar} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


def _remove_old(newest: Path) -> None:
    archives = sorted(
        newest.parent.glob("classes-*.jsa"), key=lambda archive: archive.stat().st_mtime, reverse=True
    )
    unfinished = newest.parent.glob("classes-*.new")
    dead = [archive for archive in unfinished if archive.stat().st_mtime < time.time() - _SECONDS_OF_A_WRITER]
    for archive in [*archives[_MOST_ARCHIVES:], *dead]:
        if archive != newest:
            archive.unlink(missing_ok=True)


# Reproducible zip archives, readable by this user only.


_MODE_OF_A_FILE = 0o600 << 16


def write_archive(target: Path, entries: Mapping[str, Path | str]) -> None:
    """Write a zip with an entry (a file, all files below a folder, or a text) for each name.

    Python's compiled files are left out. Raises FileExistsError if `target` exists.
    """
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            for within, data in _files(name, content):
                info = zipfile.ZipInfo(within)  # dated 1980 at any time
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = _MODE_OF_A_FILE
                archive.writestr(info, data)


def _files(name: str, content: Path | str) -> Iterator[tuple[str, bytes]]:
    if isinstance(content, str):
        yield name, content.encode()
    elif content.is_file():
        yield name, content.read_bytes()
    else:
        for path in sorted(content.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{name}/{path.relative_to(content).as_posix()}", path.read_bytes()


# The jars to which Spark has resolved its packages, so that Ivy need not resolve them at each start.


_KEYS = ("spark.jars.packages", "spark.jars.excludes", "spark.jars.ivy", "spark.jars.ivySettings")


def remembered_jars(settings: Mapping[str, str]) -> list[Path] | None:
    """Return the jars that `settings` were resolved to before; None if unknown, or if one is missing."""
    try:
        jars = [Path(jar) for jar in json.loads(_note(settings).read_text(encoding="utf-8"))]
    except NotOwnError as error:
        _refuse_cache(str(error))
        return None
    except (OSError, ValueError, TypeError):
        return None
    return jars if jars and all(jar.is_file() for jar in jars) else None


def uses_only_its_packages(settings: Mapping[str, str]) -> bool:
    """Return whether the jars of a context started with `settings` come only from its packages.

    A user's own jars would be among them, and a command line for spark-submit may name other packages.
    """
    return not settings.get("spark.jars") and not os.environ.get("PYSPARK_SUBMIT_ARGS")


def remember_jars(settings: Mapping[str, str], resolved: str) -> None:
    """Save `resolved`, the spark.jars of a context that was started with `settings`. Best effort."""
    jars = [unquote(urlparse(uri).path) for uri in resolved.split(",") if uri.startswith("file:")]
    if not jars or redact(resolved) != resolved:
        return
    with suppress(OSError, PenstockError), replace_file(_note(settings)) as file:
        file.write(json.dumps(jars).encode())


def _note(settings: Mapping[str, str]) -> Path:
    values = json.dumps([settings.get(key, "") for key in _KEYS])
    return cache_folder() / f"jars-{_FORMAT}-{hashlib.sha256(values.encode()).hexdigest()[:16]}.json"


# Penstock itself for machines of a cluster: the files of its wheel, in a zip that Spark unpacks.


_ARCHIVES, _ARCHIVES_ON_YARN = "spark.archives", "spark.yarn.dist.archives"
_PYTHON_PATH = "spark.executorEnv.PYTHONPATH"
_SPARK_CONF = "penstock/engine/spark-conf"


def write_wheel(target: Path) -> None:
    """Write this installation, a wheel or a checkout, as the zip `target`.

    Its dependencies are not included: the Python of the cluster must have them.
    """
    root = import_root()
    entries: dict[str, Path | str] = {
        f"penstock/{part.name}": part.resolve()  # a checkout has links to the packages
        for part in (root / "penstock").iterdir()
        if part.name != "__pycache__"
    }
    if not (root / _SPARK_CONF).is_dir():  # a checkout
        entries[_SPARK_CONF] = spark_conf_dir()
    name = f"{DISTRIBUTION.replace('-', '_')}-{own_version()}"
    entries[f"{name}.dist-info/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: {own_version()}\n"
    )
    write_archive(target, entries)


def archive_settings(master: str, settings: Mapping[str, str], wheel: Path, *others: str) -> dict[str, str]:
    """Return settings that unpack `wheel`, and `others` (PATH#FOLDER), where workers find them.

    They win over `settings`. YARN unpacks archives itself; if spark.archives named them, Spark's driver would
    unpack them a second time.
    """
    key = _ARCHIVES_ON_YARN if master == "yarn" else _ARCHIVES
    archives = [f"{wheel}#{WHEEL_FOLDER}", *others, *filter(None, [settings.get(key)])]
    paths = [WHEEL_FOLDER, *filter(None, [settings.get(_PYTHON_PATH)])]
    return {key: ",".join(archives), _PYTHON_PATH: ":".join(paths)}
