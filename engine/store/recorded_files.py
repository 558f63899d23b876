"""The Parquet files of a write, as the manifest is to record them."""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from xxhash import xxh3_128

from penstock.engine.store.data_files import DataFile
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.store_tables import Rows, StoreTables
from penstock.engine.store.tables_of import log_reader

PARALLEL_READS = 4
_BYTES_AT_A_TIME = 1 << 20


def recorded_files(delta: StoreTables[Rows], tables: Iterable[str], write_id: str) -> tuple[DataFile, ...]:
    """The files of a write in these tables: with checksums if the store is local."""

    logs = log_reader(delta)

    def list_files(table: str) -> list[DataFile]:
        files = logs.listed_files(table, write_id) or []
        if not is_local(delta.store):
            return files
        folder = local_folder(delta.store, table)
        return [file._replace(checksum=checksum(os.path.join(folder, file.path))) for file in files]

    with ThreadPoolExecutor(PARALLEL_READS, thread_name_prefix="penstock-checksum") as pool:
        return tuple(file for files_of_table in pool.map(list_files, tables) for file in files_of_table)


def checksum(path: str) -> str:
    """XXH3-128 of a file, as hex digits."""
    summed, buffer = xxh3_128(), bytearray(_BYTES_AT_A_TIME)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(buffer):
            summed.update(view[:count])
    return summed.hexdigest()
