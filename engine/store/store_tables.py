"""The operations that a store needs of a library that reads and writes Delta tables."""

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from penstock.engine.store.data_files import DataFile
from penstock.engine.store.manifest import Listed
from penstock.plans.errors import StoreError

ATTEMPTS = 30
TRANSACTION_VERSION = 1
"""The version of a write's transaction under `application_id`: each write has one in each table."""

Rows = TypeVar("Rows")
Result = TypeVar("Result")


class ManifestRead(NamedTuple):
    """The writes that a manifest lists, and the state of the table that they were read from.

    `rows` reads whole rows, with the columns that the manifest has: those of some write_ids, or of all
    (None). A row names the files of its version, so all of them are much in a store of many versions.
    """

    listed: list[Listed]
    rows: Callable[[Collection[str] | None], list[Mapping[str, Any]]]
    state: Any


class Commits(Protocol):
    """How a library says that it could not commit."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The exceptions of the library."""

    def is_conflict(self, error: Exception) -> bool:
        """Whether one of `errors` says that another transaction was committed first."""


class StoreTables(Commits, Protocol[Rows]):
    """The Delta tables of one store, whose rows are of the type Rows.

    `DeltaRsTables` reads and writes Arrow tables in this process, `SparkTables` DataFrames anywhere, and
    `LocalSparkTables` DataFrames on a file system that Spark's workers and this process share.
    Whatever either one writes, both read. A commit to a local store is on disk when a method returns.
    """

    @property
    def store(self) -> str:
        """The path or URI of the store."""

    def has(self, table: str) -> bool:
        """Whether there is such a Delta table."""

    def create(self, table: str) -> None:
        """Make the table empty unless it is there, and add to the manifest the columns that it lacks.

        Another writer may do the same at this moment.
        """

    def append(self, table: str, rows: Rows, write_id: str, about_rows: int | None = None) -> None:
        """Append `rows`, which must have the declared columns, under `write_id` in one transaction.

        Appending the same write_id again does nothing. No rows leave a table without rows of this write.
        `about_rows`: how many there are, if the caller knows. Raises SchemaError if columns are not those
        declared.
        """

    def append_all(self, tables: Mapping[str, Rows], write_id: str, rows: Mapping[str, int]) -> None:
        """`append` for all tables of a plan; `rows`: about how many a table has, of those that are known."""

    def read(self, table: str, write_id: str, columns: Sequence[str] | None = None) -> Rows:
        """The rows of one write, with the declared columns or some of them."""

    def delete(self, table: str, write_ids: Collection[str]) -> None:
        """Delete what these writes left in `table`: whole partitions, so no file is rewritten."""

    def write_ids(self, table: str) -> set[str]:
        """The writes that have files in `table`, by its log; none if there is no table."""

    def listed_files(self, table: str, write_id: str) -> list[DataFile] | None:
        """The files of a write that the table's log lists, without checksums; None if there is no table."""

    def read_manifest(self) -> ManifestRead | None:
        """The manifest as it is now; None if there is none."""

    def insert_version(self, row: Mapping[str, Any], seen: ManifestRead) -> None:
        """Insert a row of the manifest, unless another has its write_id or its version number.

        May raise a conflict if the manifest is no longer as `seen`.
        """

    def set_state(self, write_id: str, state: str) -> None:
        """Change the state of one write in the manifest. May raise a conflict."""

    def in_thread(self, action: Callable[..., Result]) -> Callable[..., Result]:
        """`action` as a thread of its own is to call it."""

    def count(self, rows: Rows) -> int:
        """How many rows there are."""

    def among(self, rows: Rows, others: Rows, key: Sequence[str]) -> Rows:
        """The part of `rows` whose key occurs in `others`."""

    def same(self, rows: Rows, others: Rows, columns: Sequence[str]) -> bool:
        """Whether both have the same values in these columns, each as many times."""


def application_id(write_id: str) -> str:
    """The id under which Delta remembers a table's part of a write."""
    return f"penstock-{write_id}"


def retry_conflicts(tables: Commits, action: Callable[[], Result], doing: str) -> Result:
    """`action`, again while a concurrent transaction wins; StoreError after ATTEMPTS."""
    return retry(action, doing, tables.errors, tables.is_conflict)


def retry(
    action: Callable[[], Result],
    doing: str,
    errors: tuple[type[Exception], ...],
    passes: Callable[[Exception], bool],
) -> Result:
    """`action`, again after each of `errors` that `passes`; StoreError after ATTEMPTS."""
    for attempt in range(ATTEMPTS):
        try:
            return action()
        except errors as error:
            if not passes(error):
                raise
            time.sleep(random.uniform(0.005, 0.03) * min(attempt + 1, 10))
    raise StoreError(
        f"{doing}: {ATTEMPTS} times another writer was quicker",
        "try again when fewer runs write to this store",
    )
