"""Whether a store is on a file system of this machine."""

import os
from urllib.parse import unquote

from penstock.engine.store.table_path import table_path
from penstock.plans.errors import InputError
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
