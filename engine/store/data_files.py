"""Write the Parquet files of a store, record them in the manifest, and detect damage."""

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

# Write a Parquet file of a table, row group by row group; only columns that gain from it get a dictionary.


_HARDLY_REPEATED = ("data_set_id", "edge_id", "operator_id", "uid", "uid_hash", "vertex_id")


def with_dictionary(schema: Iterable[pa.Field]) -> list[str]:
    """Return the paths of columns whose values are numbered by a dictionary in each row group.

    Numbers, and texts that rarely repeat, compress faster with zstd without one, to about the same size.
    """
    return [path for field in schema if _repeats(field) for path in _leaves(field.name, field.type)]


def without_dictionary(schema: Iterable[pa.Field]) -> list[str]:
    """Return the paths of columns whose values are stored without a dictionary."""
    return [field.name for field in schema if not _repeats(field)]


def _repeats(field: pa.Field) -> bool:
    return not pa.types.is_integer(field.type) and field.name not in _HARDLY_REPEATED


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """Yield the Parquet paths of a column's values."""
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
    """A new Parquet file in the existing subfolder `inside` of `folder`, to which rows are added."""

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
        """Add rows, which are not buffered in memory. Raises OSError."""
        self._writer.write_table(rows)

    def close(self) -> str:
        """Close the file, make it durable, and return its path relative to its folder. Raises OSError."""
        self._writer.close()
        make_durable([self._whole], below=self._folder)
        return self._path

    def abandon(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            os.unlink(self._whole)


def _with_statistics(schema: pa.Schema) -> list[str]:
    """Return the columns whose smallest and largest values are recorded for each row group.

    Readers skip row groups by topology, which is a number. Texts are hashes and names in no order:
    their statistics would exclude nothing, and take as much time as zstd does beyond snappy.
    """
    return [field.name for field in schema if pa.types.is_primitive(field.type)]


# Durable files for a table on a local file system, and their commit actions.


def write_file(folder: str, inside: str, batches: Iterator[pa.Table], schema: pa.Schema) -> str:
    """Write a new durable Parquet file in the subfolder `inside` of `folder`; return its path in `folder`.

    Raises OSError; a partial file is removed then.
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
    """Return the action that adds a new file to a table's log."""
    from deltalake.transaction import AddAction

    size = os.path.getsize(os.path.join(folder, path))
    return AddAction(path, size, partition, time.time_ns() // 1_000_000, True, dumps({"numRecords": rows}))


def make_log_durable(folder: str, since: int) -> None:
    """Sync the entries of the log of the table in `folder` from version `since` on, and the folders above."""
    log, first = os.path.join(folder, "_delta_log"), f"{since:020}"
    # Other names belong to other writers' unfinished commits, which may disappear at any moment.
    new = [
        os.path.join(log, name)
        for name in os.listdir(log)
        if ((number := name.removeprefix(".")[:20]) >= first and number.isdecimal())
        or name == "_last_checkpoint"
    ]
    # The parent, too: the store itself may be new.
    make_durable(new, below=os.path.dirname(folder))


class DataFile(NamedTuple):
    """A Parquet file of a write.

    `path` is relative to the table's folder, not percent-encoded; `checksum` is the file's XXH3-128 as 32 hex
    digits, None in stores that are not on a local file system: object stores and HDFS have checksums of
    their own.
    """

    table: str
    path: str
    rows: int | None
    bytes: int
    checksum: str | None = None


class Damage(NamedTuple):
    """A fault of a version's table or file."""

    table: str
    file: str | None
    problem: str


def compare_files(table: str, recorded: Iterable[DataFile], listed: Iterable[DataFile]) -> list[Damage]:
    """Compare the files of one write in a table's log with those recorded in the manifest."""
    expected = {file.path: file for file in recorded}
    now_listed = {file.path: file for file in listed}
    missing = [
        Damage(table, path, f"the table's Delta log has lost it, and {file.rows} rows with it")
        for path, file in expected.items()
        if path not in now_listed
    ]
    added = [
        Damage(table, path, "is not among the files of the version")
        for path in now_listed
        if path not in expected
    ]
    changed = [
        Damage(
            table, path, f"must have {file.rows} rows in {file.bytes} bytes, got {now.rows} in {now.bytes}"
        )
        for path, file in expected.items()
        if (now := now_listed.get(path)) is not None and (now.rows, now.bytes) != (file.rows, file.bytes)
    ]
    return [*missing, *added, *changed]


def miscounted(table: str, rows: int | None, listed: Sequence[DataFile]) -> list[Damage]:
    """Compare rows with the manifest's count `rows`, for tables whose files it does not record."""
    listed_rows = sum(file.rows or 0 for file in listed)
    if rows is None or any(file.rows is None for file in listed) or rows == listed_rows:
        return []
    return [Damage(table, None, f"must have {rows} rows, got {listed_rows}")]


def damaged(store: str, version: int | None, damage: Sequence[Damage]) -> StoreError:
    """Return the error for a version with `damage`."""
    first, more = damage[0], len(damage) - 1
    where = f"table {first.table}" if first.file is None else f"table {first.table}: {first.file}"
    others = f" (and {more:,} more)" if more else ""
    return StoreError(
        f"{store} version {version} is damaged: {where}: {first.problem}{others}",
        f"penstock verify {store} lists all damage; penstock plan of the same input writes a sound version",
    )
