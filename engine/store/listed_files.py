"""The Parquet files of a write, as a table's log lists them and as the manifest is to record them."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

from deltalake import DeltaTable
from xxhash import xxh3_128

from engine.machine.make_durable import make_durable
from engine.store.data_files import DataFile
from engine.store.delta_tables import WRITE_ID, table_path
from engine.store.is_local import is_local, local_folder
from engine.store.without_spark.delta_tables import open_table, to_table
from engine.store.write_file import make_log_durable

PARALLEL_READS = 4
_BYTES_AT_A_TIME = 1 << 20


def listed_files(store: str, table: str, write_id: str) -> list[DataFile]:
    """The files of a write that the table's Delta log lists, without checksums. Raises DeltaError."""
    actions = to_table(DeltaTable(table_path(store, table)).get_add_actions(flatten=True))
    if not len(actions):
        return []
    columns = ["path", "num_records", "size_bytes", f"partition.{WRITE_ID}"]
    rows = zip(*(actions[name].to_pylist() for name in columns), strict=True)
    return [DataFile(table, unquote(path), count, size) for path, count, size, of in rows if of == write_id]


def recorded_files(store: str, tables: Iterable[str], write_id: str) -> tuple[DataFile, ...]:
    """The files of a write as the manifest is to record them: with checksums if the store is local."""

    def of_table(table: str) -> list[DataFile]:
        files = listed_files(store, table, write_id)
        if not is_local(store):
            return files
        folder = local_folder(store, table)
        return [file._replace(checksum=checksum(os.path.join(folder, file.path))) for file in files]

    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="penstock-checksum") as pool:
        return tuple(file for found in pool.map(of_table, tables) for file in found)


def log_version(store: str, table: str) -> int:
    """The newest version of the log of a local table; 0 if there is no table, or it is not local."""
    made = open_table(table_path(store, table)) if is_local(store) else None
    return 0 if made is None else made.version()


def make_write_durable(store: str, table: str, write_id: str, since: int) -> None:
    """Sync what a write, which another process may have made, has put into a local table.

    `since`: the version that the table's log had before.
    """
    if is_local(store):
        folder = local_folder(store, table)
        files = [os.path.join(folder, file.path) for file in listed_files(store, table, write_id)]
        # Hadoop refuses a file whose own checksums, in a file beside it, are not whole.
        sums = [os.path.join(os.path.dirname(file), f".{os.path.basename(file)}.crc") for file in files]
        make_durable([*files, *sums], below=folder)
        make_log_durable(folder, since)


def checksum(path: str) -> str:
    """XXH3-128 of a file, as hex digits."""
    summed, buffer = xxh3_128(), bytearray(_BYTES_AT_A_TIME)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            summed.update(view[:count])
    return summed.hexdigest()
