"""The Parquet files of a write: what the manifest records of them, and how damage shows."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from json import dumps
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.machine.replace_file import make_durable
from penstock.plans.errors import StoreError

if TYPE_CHECKING:
    from deltalake.transaction import AddAction

# A Parquet file of a table, row group by row group.


# Which columns of a store's Parquet files are worth a dictionary.


_HARDLY_REPEATED = ("data_set_id", "edge_id", "operator_id", "uid", "uid_hash", "vertex_id")


def with_dictionary(schema: Iterable[pa.Field]) -> list[str]:
    """The paths of columns whose values are numbered by a dictionary in each row group.

    Numbers and texts that hardly repeat take zstd less time without, and come out about as small.
    """
    return [path for field in schema if _repeats(field) for path in _leaves(field.name, field.type)]


def without_dictionary(schema: Iterable[pa.Field]) -> list[str]:
    """The paths of columns whose values are stored without a dictionary."""
    return [field.name for field in schema if not _repeats(field)]


def _repeats(field: pa.Field) -> bool:
    return not pa.types.is_integer(field.type) and field.name not in _HARDLY_REPEATED


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """The paths that Parquet gives to the values of a column."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


class OpenFile:
    """A new Parquet file in the subfolder `inside` of `folder`, which is there, to which rows are added."""

    def __init__(self, folder: str, inside: str, schema: pa.Schema) -> None:
        """Create the file. Raises OSError."""
        self._folder = folder
        self._path = os.path.join(inside, f"part-00000-{uuid4()}-c000.zstd.parquet")
        self._whole = os.path.join(folder, self._path)
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


# A durable file for a table on a local file system, and what a commit says of it.


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


def add_action(folder: str, path: str, rows: int, partition: dict[str, str | None]) -> "AddAction":
    """The action that adds a new file to a table's log."""
    from deltalake.transaction import AddAction

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


class DataFile(NamedTuple):
    """A Parquet file of a write.

    `path` is relative to the table's folder, not percent-encoded; `checksum` is the file's XXH3-128 as 32 hex
    digits, None in stores that are not on a local file system: object stores and HDFS keep checksums of
    their own.
    """

    table: str
    path: str
    rows: int | None
    bytes: int
    checksum: str | None = None


class Damage(NamedTuple):
    """A fault of a version's table, or of one of its files."""

    table: str
    file: str | None
    problem: str


def compare_files(table: str, recorded: Iterable[DataFile], listed: Iterable[DataFile]) -> list[Damage]:
    """Where the files of one write that a table's log lists differ from those that the manifest records."""
    expected = {file.path: file for file in recorded}
    now_listed = {file.path: file for file in listed}
    missing = [
        Damage(table, path, f"the table's Delta log has lost it, and {file.rows} rows with it")
        for path, file in expected.items()
        if path not in now_listed
    ]
    added = [
        Damage(table, path, "is not one of those written") for path in now_listed if path not in expected
    ]
    changed = [
        Damage(
            table, path, f"found {now.rows} rows in {now.bytes} bytes, written {file.rows} in {file.bytes}"
        )
        for path, file in expected.items()
        if (now := now_listed.get(path)) is not None and (now.rows, now.bytes) != (file.rows, file.bytes)
    ]
    return [*missing, *added, *changed]


def miscounted(table: str, rows: int | None, listed: Sequence[DataFile]) -> list[Damage]:
    """Where the manifest does not record files, but for some tables how many `rows` there are."""
    listed_rows = sum(file.rows or 0 for file in listed)
    if rows is None or any(file.rows is None for file in listed) or rows == listed_rows:
        return []
    return [Damage(table, None, f"found {listed_rows} rows, written {rows}")]


def damaged(store: str, version: int | None, damage: Sequence[Damage]) -> StoreError:
    """That a version cannot be read as it was written."""
    first, more = damage[0], len(damage) - 1
    where = f"table {first.table}" if first.file is None else f"table {first.table}: {first.file}"
    others = f" (and {more:,} more)" if more else ""
    return StoreError(
        f"{store} version {version} is damaged: {where}: {first.problem}{others}",
        f"penstock verify {store} lists all damage; penstock plan of the same input writes a sound version",
    )
