"""Where tables of a version are not as they were written."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.store.data_files import Damage, DataFile, compare_files, miscounted
from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.plan_versions import checksum, log_reader
from penstock.engine.store.store_tables import Rows, StoreTables
from penstock.engine.store.version_notes import PlanVersion

PARALLEL_CHECKS = 4


def find_damage(delta: StoreTables[Rows], version: PlanVersion, tables: Sequence[str]) -> list[Damage]:
    """Where these tables of a version are not as they were written: rows, files and, if local, bytes.

    Other file systems have checksums of their own. If the version was written before the manifest recorded
    files, only what can be seen without that is found. Raises OSError where the machine refuses to read.
    """
    logs = log_reader(delta)
    with ThreadPoolExecutor(PARALLEL_CHECKS, thread_name_prefix="penstock-check") as pool:
        damage_by_table = pool.map(lambda table: _damage_of_table(logs, version, table), tables)
        return [damage for of_table in damage_by_table for damage in of_table]


def _damage_of_table(delta: StoreTables[Rows], version: PlanVersion, table: str) -> list[Damage]:
    store = delta.store
    local = is_local(store)
    if local:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.listdir(local_folder(store, table))  # delta-rs takes what may not be read for missing
    try:
        listed = delta.listed_files(table, version.write_id)
    except (DeltaError, OSError) as error:
        if machine_error_in_text(error, ""):
            raise
        return [Damage(table, None, f"its Delta log cannot be read: {str(error).splitlines()[0]}")]
    if listed is None:
        return [Damage(table, None, "the table is missing")]
    recorded = version.files_of(table)
    if recorded is None:
        wrong = miscounted(table, version.rows_of(table), listed)
    else:
        wrong = compare_files(table, recorded, listed)
    files = listed if recorded is None else recorded
    return wrong if wrong or not local else [d for file in files for d in _damage_of_file(store, file)]


def _damage_of_file(store: str, file: DataFile) -> Iterator[Damage]:
    path = os.path.join(local_folder(store, file.table), file.path)
    try:
        size = os.stat(path).st_size
        if size != file.bytes:
            yield Damage(file.table, file.path, f"found {size} bytes, written {file.bytes}")
        elif file.checksum is None:
            # Decoded as a whole: where polars meets what it cannot decode, it may print a Rust panic.
            with pq.ParquetFile(path) as parquet:
                rows = sum(len(batch) for batch in parquet.iter_batches())
            if file.rows is not None and rows != file.rows:
                yield Damage(file.table, file.path, f"found {rows} rows, written {file.rows}")
        elif checksum(path) != file.checksum:
            yield Damage(file.table, file.path, "its bytes are not those that were written")
    except FileNotFoundError:
        yield Damage(file.table, file.path, "the file is missing")
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        yield Damage(file.table, file.path, f"it cannot be decoded: {error}")
