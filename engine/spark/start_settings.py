"""Compute the settings of a new Spark, in addition to its spark-defaults.conf."""

import os
import re
import secrets
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from penstock.engine.machine.available_memory import import_root, is_checkout
from penstock.engine.machine.folders import home_folder, short_lived_folder, temporary_folder
from penstock.engine.machine.machine_error import machine_error
from penstock.engine.output.redaction import redact_value, remember_secrets
from penstock.engine.spark.class_archive import archive_settings, write_wheel
from penstock.engine.spark.spark_conf import (
    offline_jars,
    spark_conf_dir,
    spark_conf_dir_in_use,
    spark_settings,
)
from penstock.engine.spark.spark_memory_estimate import heap_mebibytes
from penstock.plans.errors import ConfigurationError, MachineError

# Pass settings to Spark's JVM in a file that only its owner can read, never on a command line.
#
# Every user of a machine can see the arguments of every process.


_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
"""Settings that Spark puts on the JVM's command line."""


@contextmanager
def submit_arguments(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield quoted arguments of spark-submit for `settings`, which override its spark-defaults.conf.

    They are in files of mode 600 in a directory of mode 700 that is removed at the end of the block: a JVM
    that has started no longer needs them. PYSPARK_SUBMIT_ARGS follow, as in PySpark.
    """
    with short_lived_folder("settings") as folder:
        own = {
            key: _java_options(Path(folder), key, value) if key in _JAVA_OPTIONS else value
            for key, value in settings.items()
        }
        properties = Path(folder) / "spark.properties"
        write_properties(properties, own)
        submitted = os.environ.get("PYSPARK_SUBMIT_ARGS") or "pyspark-shell"
        yield f"--properties-file {shlex.quote(str(properties))} --load-spark-defaults {submitted}"


def write_properties(path: Path, settings: Mapping[str, str]) -> None:
    """Write `settings` for spark-submit's --properties-file, readable by this user only."""
    _write_private(path, "".join(f"{_key(key)}={_value(value)}\n" for key, value in settings.items()))


def _java_options(folder: Path, key: str, value: str) -> str:
    """Return `value`, or if it contains a secret, an option that makes Java read it from a file."""
    if redact_value(key, value) == value:
        return value
    file = folder / f"{key}.options"
    _write_private(file, value)
    return f"-XX:VMOptionsFile={file}"


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _key(text: str) -> str:
    """Escape a key for java.util.Properties."""
    return re.sub(r"[=:#!\s]", lambda match: "\\" + match.group(), _value(text))


def _value(text: str) -> str:
    """Escape a value for java.util.Properties; Spark itself strips white space at both ends."""
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return re.sub(r"^ ", r"\\ ", escaped.replace("\f", "\\f"))


# Folders for shuffles, spills, blocks and jars of a local Spark.


HINT = (
    "free some space there, or name folders on a larger disk by SPARK_LOCAL_DIRS=DIR or --conf "
    "spark.local.dir=DIR"
)


def local_folders(settings: Mapping[str, str]) -> list[str]:
    """Return the paths of these folders. Source: org.apache.spark.util.Utils.getConfiguredLocalDirs."""
    folders = (
        os.environ.get("SPARK_EXECUTOR_DIRS")
        or os.environ.get("SPARK_LOCAL_DIRS")
        or settings.get("spark.local.dir", "/tmp")
    )
    return [folder.strip() for folder in folders.split(",") if folder.strip()]


def _is_local_folder_set(settings: Mapping[str, str]) -> bool:
    """Return whether the user has named folders."""
    named = any(os.environ.get(name) for name in ("SPARK_EXECUTOR_DIRS", "SPARK_LOCAL_DIRS"))
    return named or "spark.local.dir" in settings


def require_local_folders(settings: Mapping[str, str]) -> None:
    """Raise MachineError if none can be written to, because Spark's JVM would end without a message."""
    refused = [_refusal(folder) for folder in local_folders(settings)]
    if refused and all(refused):
        raise next(filter(None, refused))


def describe_local_folders(settings: Mapping[str, str]) -> str:
    """Return a text for users, which lists the folders with their size and free space."""
    return ", ".join(f"{folder}{_space(folder)}" for folder in local_folders(settings))


def _refusal(folder: str) -> MachineError | None:
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
    except OSError as error:
        known = machine_error(error, f"writing Spark's local files to {folder}")
        message = (
            f"writing Spark's local files to {folder}: {error.strerror}" if known is None else known.message
        )
        return MachineError(message, HINT)
    return None


def _space(folder: str) -> str:
    try:
        status = os.statvfs(folder)
    except OSError:
        return ""
    size, free = (blocks * status.f_frsize / 2**20 for blocks in (status.f_blocks, status.f_bavail))
    return f" ({size:,.0f} MiB, of which {free:,.0f} MiB are free now)"


_DEPLOY_MODE = "spark.submit.deployMode"
_WITHOUT_PENSTOCK = ("yarn", "k8s://")
"""Masters whose machines need not have Penstock; workers of spark:// use the installed one."""

_NO_HEARTBEATS = "spark.storage.blockManagerHeartbeatTimeoutMs"
"""Set for a local Spark, which is one process and does not need its own heartbeats.

Spark 4.2's thread that sends them ends with a NullPointerException (PartitionKeyedAccumulator) if it reads
a task that is just starting, and two minutes later the only executor is removed: the job would never end.
"""

AUTHENTICATE = "spark.authenticate"
_SECRET = "spark.authenticate.secret"
_SECRET_BYTES = 32


def start_settings(master: str | None, settings: Mapping[str, str], app_name: str) -> dict[str, str]:
    """Return the settings of a session on `master` (default: as configured, or local[*]) with the user's.

    Raises ConfigurationError for Spark's cluster mode: the driver is this process.
    """
    conf_dir = spark_conf_dir_in_use()
    files = spark_settings(conf_dir)
    profile = files if spark_conf_dir() in conf_dir.parents else {}
    merged = {**profile, **settings, "spark.app.name": app_name}
    chosen = {**files, **settings}
    remember_secrets(chosen)
    if chosen.get(_DEPLOY_MODE, "client") != "client":
        raise ConfigurationError(
            f"{_DEPLOY_MODE} must be client, because the driver is this process, got {chosen[_DEPLOY_MODE]}",
            "penstock run --deploy-mode cluster runs a script whose driver is on the cluster",
        )
    # Not left to Spark, which would put them on a command line.
    merged |= {key: chosen[key] for key in _JAVA_OPTIONS if key in chosen}
    merged["spark.master"] = master or chosen.get("spark.master", "local[*]")
    if jars := offline_jars():
        merged |= {"spark.jars": ",".join(map(str, jars)), "spark.jars.packages": ""}
    merged.setdefault("spark.jars.ivy", str(ivy_dir()))
    merged |= authentication(merged["spark.master"], chosen)
    remember_secrets({key: merged[key] for key in (_SECRET,) if key in merged})
    if merged["spark.master"].startswith(_WITHOUT_PENSTOCK):
        wheel = temporary_folder("wheel") / "penstock.zip"
        write_wheel(wheel)
        merged |= archive_settings(merged["spark.master"], chosen, wheel)
    if merged["spark.master"].startswith("local"):
        if "spark.driver.memory" not in chosen:
            merged["spark.driver.memory"] = f"{heap_mebibytes()}m"
        if not _is_local_folder_set(chosen) and (folder := _private_local_folder()) is not None:
            merged["spark.local.dir"] = folder
        if _NO_HEARTBEATS not in chosen:
            merged[_NO_HEARTBEATS] = "7d"
        if "spark.driver.bindAddress" not in chosen and "spark.driver.host" not in chosen:
            merged |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        if is_checkout():  # workers do not see the working directory
            merged["spark.executorEnv.PYTHONPATH"] = str(import_root())
    return merged


def authentication(master: str, chosen: Mapping[str, str]) -> dict[str, str]:
    """Return settings with which Spark's processes on `master` accept only holders of the session's secret.

    Without them, Spark's driver obeys every user of the machine (StopExecutor). Spark makes the secret itself
    on local, YARN and Kubernetes; a local-cluster must be given one. Nothing is set if other processes would
    need the secret: on spark://, whose master and workers are configured by their owner, and on YARN with a
    shuffle service. The user's settings, `chosen`, win. Source:
    org.apache.spark.SecurityManager.initializeAuth.
    """
    if chosen.get(AUTHENTICATE, "true").strip().lower() != "true":
        return {}
    if master.startswith("local-cluster"):
        return {AUTHENTICATE: "true", _SECRET: chosen.get(_SECRET) or secrets.token_hex(_SECRET_BYTES)}
    has_service = chosen.get("spark.shuffle.service.enabled", "false").strip().lower() == "true"
    makes_secret = master.startswith(("local", "k8s://")) or (master == "yarn" and not has_service)
    return {AUTHENTICATE: "true"} if makes_secret else {}


@cache
def _private_local_folder() -> str | None:
    """Return a private folder for Spark's shuffles, blocks and functions, removed when the process ends.

    None if it cannot be created: errors then concern the folder that Spark uses instead.
    """
    try:
        return str(temporary_folder("spark"))
    except OSError:
        return None


def ivy_dir() -> Path:
    """Return the folder of fetched jars for sessions that Penstock starts: Spark's default below HOME."""
    configured = spark_settings(spark_conf_dir_in_use()).get("spark.jars.ivy")
    return Path(configured) if configured else home_folder() / ".ivy2.5.2"
