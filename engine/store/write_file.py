"""A Parquet file for a table on a local file system, and what a commit says of it."""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from json import dumps
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from engine.machine.make_durable import make_durable
from engine.store.column_encodings import with_dictionary


class OpenFile:
    """A new Parquet file in the subfolder `inside` of `folder`, to which rows are added."""

    def __init__(self, folder: str, inside: str, schema: pa.Schema) -> None:
        """Raises OSError."""
        self._folder = folder
        self._path = os.path.join(inside, f"part-00000-{uuid4()}-c000.zstd.parquet")
        self._whole = os.path.join(folder, self._path)
        os.makedirs(os.path.dirname(self._whole), exist_ok=True)
        self._writer = pq.ParquetWriter(
            self._whole,
            schema,
            compression="zstd",
            use_dictionary=with_dictionary(schema),
            write_statistics=_with_statistics(schema),
        )

    def write(self, rows: pa.Table) -> None:
        """Add rows, which are not kept in memory. Raises OSError."""
        self._writer.write_table(rows)

    def close(self) -> str:
        """The path of the file, relative to its folder, which is durable now. Raises OSError."""
        self._writer.close()
        make_durable([self._whole], below=self._folder)
        return self._path

    def abandon(self) -> None:
        """Remove what was written."""
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            os.unlink(self._whole)


def _with_statistics(schema: pa.Schema) -> list[str]:
    """The columns whose least and largest values are recorded for each row group.

    Readers pass over row groups by topology, which is a number. Texts are hashes and names, in no order:
    their statistics would rule nothing out, and take as long as zstd takes beyond snappy.
    """
    return [field.name for field in schema if pa.types.is_primitive(field.type)]


def write_file(folder: str, inside: str, batches: Iterator[pa.Table], schema: pa.Schema) -> str:
    """The path, relative to `folder`, of a new durable Parquet file in its subfolder `inside`.

    Raises OSError; what was written of the file is removed then.
    """
    file = OpenFile(folder, inside, schema)
    try:
        for rows in batches:
            file.write(rows)
        return file.close()
    except BaseException:
        file.abandon()
        raise


def add_action(folder: str, path: str, rows: int, partition: dict[str, str | None]) -> AddAction:
    """What a commit to a table's log says of a new file."""
    size = os.path.getsize(os.path.join(folder, path))
    return AddAction(path, size, partition, time.time_ns() // 1_000_000, True, dumps({"numRecords": rows}))


def make_log_durable(folder: str, since: int) -> None:
    """Sync what the log of the table in `folder` has got from version `since` on, and the folders above."""
    log = os.path.join(folder, "_delta_log")
    # Other names are of other writers' unfinished commits, which may be gone in a moment.
    new = [
        os.path.join(log, name)
        for name in os.listdir(log)
        if ((number := name.removeprefix(".")[:20]).isdecimal() and int(number) >= since)
        or name == "_last_checkpoint"
    ]
    # The parent too: the store itself may be new.
    make_durable(new, below=os.path.dirname(folder))
