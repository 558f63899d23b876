"""A durable file for a table on a local file system, and what a commit says of it."""

import os
import time
from collections.abc import Iterator
from json import dumps

import pyarrow as pa
from deltalake.transaction import AddAction

from penstock.engine.machine.replace_file import make_durable
from penstock.engine.store.open_file import OpenFile


def write_file(folder: str, inside: str, batches: Iterator[pa.Table], schema: pa.Schema) -> str:
    """The path, relative to `folder`, of a new durable Parquet file in its subfolder `inside`.

    Raises OSError; what was written of the file is removed then.
    """
    os.makedirs(os.path.join(folder, inside), exist_ok=True)
    file = OpenFile(folder, inside, schema)
    try:
        for rows in batches:
            file.write(rows)
        return file.close()
    except BaseException:
        file.abandon()
        raise


def add_action(folder: str, path: str, rows: int, partition: dict[str, str | None]) -> AddAction:
    """The action that adds a new file to a table's log."""
    size = os.path.getsize(os.path.join(folder, path))
    return AddAction(path, size, partition, time.time_ns() // 1_000_000, True, dumps({"numRecords": rows}))


def make_log_durable(folder: str, since: int) -> None:
    """Sync what the log of the table in `folder` has got from version `since` on, and the folders above."""
    log, first = os.path.join(folder, "_delta_log"), f"{since:020}"
    # Other names are of other writers' unfinished commits, which may be gone in a moment.
    new = [
        os.path.join(log, name)
        for name in os.listdir(log)
        if ((number := name.removeprefix(".")[:20]) >= first and number.isdecimal())
        or name == "_last_checkpoint"
    ]
    # The parent too: the store itself may be new.
    make_durable(new, below=os.path.dirname(folder))
