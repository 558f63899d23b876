"""Understand once where a store is, and turn errors of the libraries that read and write it into messages."""

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.plans.errors import InputError, PenstockError, StoreError
from penstock.plans.topology.find_topology_files import local_path

MANIFEST = "plan_versions"
"""The table that lists a store's versions."""


class Location(NamedTuple):
    """Where a store, or one Delta table, is: the text of a user, understood once, by `locate`.

    `name`: as messages call it. `path`: as Delta takes it, an absolute path or a URI. `folder`: of this
    machine, so that it is read without Spark; None elsewhere.
    """

    name: str
    path: str
    folder: str | None

    def __str__(self) -> str:
        return self.name

    def of_table(self, table: str) -> "Location":
        """Return the location of a table of this store."""
        path = f"{self.path}/{table}"
        return Location(path, path, None if self.folder is None else os.path.join(self.folder, table))

    def join(self, *parts: str) -> str:
        """Return a path in the folder of a local store."""
        assert self.folder is not None
        return os.path.join(self.folder, *parts)


# Understand the path or URI that a user wrote.


_NOT_IN_PATHS = re.compile(r"[\x00-\x1f\x7f\[\]\\]|%[0-9A-Fa-f]{2}|[\ud800-\udfff]")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_FILE_SYSTEMS = "a file system that Spark reaches (s3a, gs, abfss, hdfs, …)"

_OF_THIS_MACHINE = re.compile(r"file:///+[^/]")
_IN_HOME = re.compile(r"~(/|$)")


def locate(store: str | Location) -> Location:
    """Return where a store is; `store` may be a path or a URI, and a leading `~/` is the home folder.

    Raises StoreError for a path that Delta cannot have: delta-rs would fail or use another folder.
    """
    if isinstance(store, Location):
        return store
    path = _delta_path(store)
    return Location(store, path, _folder(path) if is_local(store) else None)


def local_folder(path: str) -> str | None:
    """Return the folder of a local store; None for other paths. Raises StoreError like `locate`."""
    return _folder(_delta_path(path)) if is_local(path) else None


def is_local(path: str) -> bool:
    """Return whether this is a path of this machine or a file: URI, which is read without Spark."""
    try:
        local_path(path)
    except InputError:
        return False
    return True


def _folder(path: str) -> str:
    return os.path.abspath(unquote(path.removeprefix("file://")) if "://" in path else path)


def _delta_path(store: str) -> str:
    if not store.strip():
        raise StoreError("the path of a store is required", "name a folder, e.g. --out plans")
    if "://" in store:
        if store.startswith("file:") and not _OF_THIS_MACHINE.match(store):
            raise _not_a_file_uri(store)
        return store.rstrip("/")
    if store.startswith("file:"):
        raise _not_a_file_uri(store)
    if scheme := _SCHEME.match(store):  # such a URI does not mean a folder of that name here
        raise StoreError(
            f"{store!r} must be a path of this machine, file:///PATH, or SCHEME://HOST/PATH of "
            f"{_FILE_SYSTEMS}, got the URI scheme {scheme[1]!r} without //",
            f"write {scheme[1]}://HOST/PATH, or ./{store} for a folder of that name",
        )
    # When it creates a table, Spark takes a relative location for the table's name.
    root = Path(os.path.expanduser(store) if _IN_HOME.match(store) else store).absolute()
    if match := _NOT_IN_PATHS.search(str(root)):
        raise StoreError(
            f"{store!r}: the path of a Delta table must not contain {match.group()!r}",
            "choose a path of UTF-8 without control codes, [ ] \\ and % with two hex digits",
        )
    return str(root)


def _not_a_file_uri(store: str) -> StoreError:
    return StoreError(
        f"{store!r} is not a folder of this machine", "write file:///path/of/the/store, or the path alone"
    )


# Parse STORE or STORE@VERSION.


AT_VERSION = re.compile(r"(?P<store>.+)@(?P<version>\d+)")
"""A version of a store, as in arguments of plan and diff."""


def local_store_and_version(path: str) -> tuple[str, int | None] | None:
    """Return the local store and version (or None) of a path, or None for other paths."""
    if _is_store(path):
        return path, None
    match = AT_VERSION.fullmatch(path)
    if match is None or os.path.exists(path) or not _is_store(match["store"]):
        return None
    return match["store"], int(match["version"])


def require_no_version(store: str, folder: str | None) -> None:
    """Raise StoreError for STORE@VERSION as a new store, or other `folder` of results that lasts.

    Commands that read take it for a version. Such a name is valid if a folder with files has it already.
    """
    named = AT_VERSION.fullmatch(store.rstrip("/"))
    if named is None or (folder is not None and os.path.isdir(folder) and os.listdir(folder)):
        return
    raise StoreError(
        f"cannot write to {store}: it names version {named['version']} of {named['store']}, and versions "
        "never change",
        f"write to {named['store']}, which adds a version",
    )


def _is_store(path: str) -> bool:
    folder = local_folder(path)
    return folder is not None and os.path.isdir(os.path.join(folder, MANIFEST))


# Turn errors of delta-rs, Arrow, polars, Spark and the system into errors that a user can read.


_UNKNOWN_SCHEME = re.compile(
    r"""(?:Unknown scheme: |No FileSystem for scheme[: ]"?)([A-Za-z0-9+.-]*[A-Za-z0-9+-])"""
)


@contextmanager
def store_errors(store: str | Location, doing: str) -> Iterator[None]:
    """Raise MachineError if the machine refuses, and StoreError for other errors of the libraries below.

    `doing`: "reading" or "writing". Errors of Penstock pass unchanged, and so do other errors of Spark
    while it writes.
    """
    try:
        yield
    except PenstockError:
        raise
    except BaseException as error:
        is_from_spark = _is_from_spark(error)
        if not (is_from_spark or _is_from_below(error)) or (doing == "reading" and _comes_from_output(error)):
            raise
        if scheme := _UNKNOWN_SCHEME.search(str(error)):
            raise StoreError(
                f"{doing} {store}: a store must be a path of this machine, file:///PATH, or "
                f"SCHEME://HOST/PATH of {_FILE_SYSTEMS}, got the URI scheme {scheme[1]!r}"
            ) from error
        refused = _refused_to_spark(error, str(store)) if is_from_spark else None
        refused = refused or machine_error_in_text(error, f"{doing} {store}")
        if refused is not None:
            raise refused from error
        if is_from_spark and doing != "reading":  # the rows being written are also computed at that moment
            raise
        raise StoreError(
            f"{doing} {store} failed: {first_line(error)}",
            f"penstock verify {store} lists any damage",
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message (Spark's without stacks), or its class name."""
    if _is_from_spark(error):
        from penstock.engine.spark.describe_spark_error import describe_spark_error

        message = describe_spark_error(error)
    else:
        message = str(error).strip()
    return (message.splitlines() or [type(error).__name__])[0]


def _refused_to_spark(error: BaseException, store: str) -> PenstockError | None:
    from penstock.engine.spark.describe_spark_error import disk_error_of_spark

    return disk_error_of_spark(error, store=store)


def _is_from_below(error: BaseException) -> bool:
    import pyarrow as pa
    from deltalake.exceptions import DeltaError

    # Rust panics are not Exceptions, and each library has a class of its own for them.
    is_panic = type(error).__name__ == "PanicException"
    polars = type(error).__module__.startswith("polars")
    return is_panic or polars or isinstance(error, DeltaError | pa.ArrowException | OSError)


def _comes_from_output(error: BaseException) -> bool:
    """Return whether a command's output found no reader or no space."""
    full = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return isinstance(error, OSError) and error.errno in full


def _is_from_spark(error: BaseException) -> bool:
    if "pyspark.sql" not in sys.modules:
        return False
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, Py4JError | PySparkException)
