"""The folders in which a local Spark keeps shuffles, spills, blocks and jars."""

import os
import tempfile
from collections.abc import Mapping

from penstock.engine.machine.machine_error import machine_error
from penstock.plans.errors import MachineError

HINT = (
    "free some space there, or name folders on a larger disk by SPARK_LOCAL_DIRS=DIR or --conf "
    "spark.local.dir=DIR"
)


def local_folders(settings: Mapping[str, str]) -> list[str]:
    """The paths of these folders. Source: org.apache.spark.util.Utils.getConfiguredLocalDirs."""
    folders = (
        os.environ.get("SPARK_EXECUTOR_DIRS")
        or os.environ.get("SPARK_LOCAL_DIRS")
        or settings.get("spark.local.dir", "/tmp")
    )
    return [folder.strip() for folder in folders.split(",") if folder.strip()]


def is_local_folder_set(settings: Mapping[str, str]) -> bool:
    """Whether the user has named folders."""
    named = any(os.environ.get(name) for name in ("SPARK_EXECUTOR_DIRS", "SPARK_LOCAL_DIRS"))
    return named or "spark.local.dir" in settings


def require_local_folders(settings: Mapping[str, str]) -> None:
    """Raise MachineError if nothing can be written to any of them: Spark's JVM would end without a word."""
    refused = [_refusal(folder) for folder in local_folders(settings)]
    if refused and all(refused):
        raise next(filter(None, refused))


def said_of_local_folders(settings: Mapping[str, str]) -> str:
    """The folders with their size and free space, as a text for people."""
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
