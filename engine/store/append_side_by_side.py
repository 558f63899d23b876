"""Several tables of a write at a time."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from penstock.engine.store.store_tables import Rows, StoreTables

PARALLEL_WRITES = 4
"""Tables written side by side: the commits of small tables wait for the file system, not for the cores."""


def append_side_by_side(
    delta: StoreTables[Rows], tables: Mapping[str, Rows], write_id: str, rows: Mapping[str, int]
) -> None:
    """`delta.append` for all tables; the first error of any, after all have ended."""
    with ThreadPoolExecutor(PARALLEL_WRITES, thread_name_prefix="penstock-store") as pool:
        writes = [
            pool.submit(delta.in_thread(delta.append), table, of_table, write_id, rows.get(table))
            for table, of_table in tables.items()
        ]
    for write in writes:
        write.result()
