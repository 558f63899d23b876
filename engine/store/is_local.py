"""Distinguish local stores, and find the folders of their tables."""

import os
import re
from pathlib import Path
from urllib.parse import unquote

from penstock.plans.errors import InputError, StoreError
from penstock.plans.topology.find_topology_files import local_path


def is_local(store: str) -> bool:
    """Return whether a store is a path or a file: URI, so that it is read without Spark."""
    try:
        local_path(store)
    except InputError:
        return False
    return True


def local_folder(store: str, table: str = "") -> str:
    """Return the folder of a table of a local store, or of the store itself."""
    path = table_path(store, table).rstrip("/")
    return os.path.abspath(unquote(path.removeprefix("file://")) if "://" in path else path)


AT_VERSION = re.compile(r"(?P<store>.+)@(?P<version>\d+)")
"""A version of a store, as in arguments of plan and diff."""


# Paths of tables.


_NOT_IN_PATHS = re.compile(r"[\x00-\x1f\x7f\[\]\\]|%[0-9A-Fa-f]{2}|[\ud800-\udfff]")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
FILE_SYSTEMS = "a file system that Spark reaches (s3a, gs, abfss, hdfs, …)"

_OF_THIS_MACHINE = re.compile(r"file:///+[^/]")
_IN_HOME = re.compile(r"~(/|$)")


def table_path(store: str, table: str) -> str:
    """Return the path of a table; `store` may be a path or a URI, and a leading `~/` is the home folder.

    Raises StoreError for a path that Delta cannot have: delta-rs would fail or use another folder.
    """
    if not store.strip():
        raise StoreError("the path of a store is required", "name a folder, e.g. --out plans")
    if "://" in store:
        if store.startswith("file:") and not _OF_THIS_MACHINE.match(store):
            raise _not_a_file_uri(store)
        return f"{store.rstrip('/')}/{table}"
    if store.startswith("file:"):
        raise _not_a_file_uri(store)
    if scheme := _SCHEME.match(store):  # such a URI does not mean a folder of that name here
        raise StoreError(
            f"{store!r} must be a path of this machine, file:///PATH, or SCHEME://HOST/PATH of "
            f"{FILE_SYSTEMS}, got the URI scheme {scheme[1]!r} without //",
            f"write {scheme[1]}://HOST/PATH, or ./{store} for a folder of that name",
        )
    # When it creates a table, Spark takes a relative location for the table's name.
    root = Path(os.path.expanduser(store) if _IN_HOME.match(store) else store).absolute()
    if match := _NOT_IN_PATHS.search(str(root)):
        raise StoreError(
            f"{store!r}: the path of a Delta table must not contain {match.group()!r}",
            "choose a path of UTF-8 without control codes, [ ] \\ and % with two hex digits",
        )
    return f"{root}/{table}"


def _not_a_file_uri(store: str) -> StoreError:
    return StoreError(
        f"{store!r} is not a folder of this machine", "write file:///path/of/the/store, or the path alone"
    )
