"""Commits of another process, such as the JVM, that last once they are made."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from penstock.engine.machine.make_durable import make_durable
from penstock.engine.store.delta_rs_table import open_table, to_table
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.table_path import table_path
from penstock.engine.store.write_file import make_log_durable


@contextmanager
def durable_commits(store: str, table: str) -> Iterator[None]:
    """Sync what is put into a local table within: first the files of data, then the log that names them."""
    if not is_local(store):
        yield
        return
    since, before = _files(store, table)
    yield
    folder = local_folder(store, table)
    files = [os.path.join(folder, path) for path in _files(store, table)[1] - before]
    # Hadoop refuses a file whose own checksums, in a file beside it, are not whole.
    sums = [os.path.join(os.path.dirname(file), f".{os.path.basename(file)}.crc") for file in files]
    make_durable([*files, *sums], below=folder)
    make_log_durable(folder, since)


def _files(store: str, table: str) -> tuple[int, set[str]]:
    """The version of a table's log and the files that it lists; version 0 and none if there is no table."""
    made = open_table(table_path(store, table))
    if made is None:
        return 0, set()
    actions = to_table(made.get_add_actions())
    paths = actions["path"].to_pylist() if len(actions) else []
    return made.version(), {unquote(path) for path in paths}
