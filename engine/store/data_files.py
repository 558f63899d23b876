"""Write the Parquet files of a store, and find damage in them."""

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from json import dumps
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from xxhash import xxh3_128

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.machine.replace_file import make_durable
from penstock.engine.store.store_location import Location
from penstock.engine.store.store_tables import DataFile, PlanVersion, Rows, StoreTables
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


# Find damage in the files of a version.


class Damage(NamedTuple):
    """A fault of a version's table or file."""

    table: str
    file: str | None
    problem: str


_PARALLEL_CHECKS = 4


def find_damage(delta: StoreTables[Rows], version: PlanVersion, tables: Sequence[str]) -> list[Damage]:
    """Find damage in rows, files and, if local, bytes of these tables of a version.

    Other file systems have checksums of their own. If the version was written before the manifest recorded
    files, only damage visible without these records is found. Raises OSError if the machine refuses to read.
    """
    logs = delta.logs
    with ThreadPoolExecutor(_PARALLEL_CHECKS, thread_name_prefix="penstock-check") as pool:
        damage_by_table = pool.map(lambda table: _damage_of_table(logs, version, table), tables)
        return [damage for table_damage in damage_by_table for damage in table_damage]


def _damage_of_table(delta: StoreTables[Rows], version: PlanVersion, table: str) -> list[Damage]:
    from deltalake.exceptions import DeltaError

    folder = None if delta.store.folder is None else os.path.join(delta.store.folder, table)
    if folder is not None:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.listdir(folder)  # delta-rs reports an unreadable folder as missing
    try:
        listed = delta.listed_files(table, version.write_id)
    except (DeltaError, OSError) as error:
        if machine_error_in_text(error, ""):
            raise
        return [Damage(table, None, f"its Delta log cannot be read: {str(error).splitlines()[0]}")]
    if listed is None:
        return [Damage(table, None, "the table is missing")]
    recorded, rows = version.files_of(table), version.rows_of(table)
    files = listed if recorded is None else recorded
    wrong = _miscounted(table, rows, listed) if recorded is None else compare_files(table, recorded, listed)
    return wrong if wrong or folder is None else [d for file in files for d in _damage_of_file(folder, file)]


def _damage_of_file(folder: str, file: DataFile) -> Iterator[Damage]:
    path = os.path.join(folder, file.path)
    try:
        size = os.stat(path).st_size
        if size != file.bytes:
            yield Damage(file.table, file.path, f"must have {file.bytes} bytes, got {size}")
        elif file.checksum is None:
            # Decode the whole file here: if polars cannot decode it, it may print a Rust panic.
            with pq.ParquetFile(path) as parquet:
                rows = sum(len(batch) for batch in parquet.iter_batches())
            if file.rows is not None and rows != file.rows:
                yield Damage(file.table, file.path, f"must have {file.rows} rows, got {rows}")
        elif checksum(path) != file.checksum:
            yield Damage(file.table, file.path, "its bytes have changed since it was written")
    except FileNotFoundError:
        yield Damage(file.table, file.path, "the file is missing")
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        yield Damage(file.table, file.path, f"it cannot be decoded: {error}")


_BYTES_AT_A_TIME = 1 << 20


def checksum(path: str) -> str:
    """Return the XXH3-128 of a file in hex digits."""
    summed, buffer = xxh3_128(), bytearray(_BYTES_AT_A_TIME)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            summed.update(view[:count])
    return summed.hexdigest()


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


def _miscounted(table: str, rows: int | None, listed: Sequence[DataFile]) -> list[Damage]:
    """Compare rows with the manifest's count `rows`, for tables whose files it does not record."""
    listed_rows = sum(file.rows or 0 for file in listed)
    if rows is None or any(file.rows is None for file in listed) or rows == listed_rows:
        return []
    return [Damage(table, None, f"must have {rows} rows, got {listed_rows}")]


def damaged(store: str | Location, version: int | None, damage: Sequence[Damage]) -> StoreError:
    """Return the error for a version with `damage`."""
    first, more = damage[0], len(damage) - 1
    where = f"table {first.table}" if first.file is None else f"table {first.table}: {first.file}"
    others = f" (and {more:,} more)" if more else ""
    return StoreError(
        f"{store} version {version} is damaged: {where}: {first.problem}{others}",
        f"penstock verify {store} lists all damage; penstock plan of the same input writes a sound version",
    )
