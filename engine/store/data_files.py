"""The Parquet files of a write: what the manifest records of them, and how damage shows."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from penstock.plans.errors import StoreError


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
