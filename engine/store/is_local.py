"""Whether a store is on a file system of this machine."""

import os
import re
from pathlib import Path
from urllib.parse import unquote

from penstock.plans.errors import InputError, StoreError
from penstock.plans.topology.columnar.find_topology_files import local_path


def is_local(store: str) -> bool:
    """Whether a store is read without Spark: a path, or a file: URI."""
    try:
        local_path(store)
    except InputError:
        return False
    return True


def local_folder(store: str, table: str = "") -> str:
    """The folder of a table of a local store, or of the store itself."""
    path = table_path(store, table).rstrip("/")
    return os.path.abspath(unquote(path.removeprefix("file://")) if "://" in path else path)


# Where a table of a store is.


_NOT_IN_PATHS = re.compile(r"[\x00-\x1f\x7f\[\]\\]|%[0-9A-Fa-f]{2}|[\ud800-\udfff]")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
FILE_SYSTEMS = "a file system that Spark reaches (s3a, gs, abfss, hdfs, …)"

_OF_THIS_MACHINE = re.compile(r"file:///+[^/]")
_IN_HOME = re.compile(r"~(/|$)")


def table_path(store: str, table: str) -> str:
    """Where a table of the store is; `store` may be a path or a URI, and `~/` in front is the home folder.

    Raises StoreError for a path that Delta cannot have: delta-rs would fail or take another folder.
    """
    if not store.strip():
        raise StoreError("found no path of a store", "name a folder, e.g. --out plans")
    if "://" in store:
        if store.startswith("file:") and not _OF_THIS_MACHINE.match(store):
            raise _not_a_file_uri(store)
        return f"{store.rstrip('/')}/{table}"
    if store.startswith("file:"):
        raise _not_a_file_uri(store)
    if scheme := _SCHEME.match(store):  # a folder of that name here is not what such a URI means
        raise StoreError(
            f"{store!r}: found the URI scheme {scheme[1]!r} without //; allowed: a path of this machine, "
            f"file:///PATH, or SCHEME://HOST/PATH of {FILE_SYSTEMS}",
            f"write {scheme[1]}://HOST/PATH, or ./{store} for a folder of that name",
        )
    # Spark takes a relative location for a table's name where it makes a table.
    root = Path(os.path.expanduser(store) if _IN_HOME.match(store) else store).absolute()
    if match := _NOT_IN_PATHS.search(str(root)):
        raise StoreError(
            f"{store!r}: found {match.group()!r} in the store's path, which Delta tables cannot have",
            "allowed: UTF-8 without control codes, [ ] \\ and % with two hex digits; choose another folder",
        )
    return f"{root}/{table}"


def _not_a_file_uri(store: str) -> StoreError:
    return StoreError(
        f"{store!r} names no folder of this machine", "write file:///path/of/the/store, or the path alone"
    )
