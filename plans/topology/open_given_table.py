"""A given Delta or Parquet table, read batch by batch."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from penstock.plans.errors import PenstockError
from penstock.plans.tables.column_types import type_name
from penstock.plans.topology.find_topology_files import is_delta
from penstock.plans.topology.input_errors import missing_table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow import dataset

_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")
"""Beginning of a path outside the table's folder, as in shallow clones."""

_BATCHES_AHEAD = 2
_ROWS_PER_BATCH = 2**15
"""Arrow holds some batches besides; with its default size they take a third of the memory of a fleet."""


class GivenTable(NamedTuple):
    """The columns of a table in a folder, and a function that reads its rows, repeatably."""

    path: Path
    schema: pa.Schema
    read: Callable[[Sequence[str] | None], pa.RecordBatchReader]

    @property
    def types(self) -> dict[str, str]:
        """Column to type name (see type_name), in order."""
        return {field.name: type_name(field.type) for field in self.schema}

    def batches(
        self, columns: Sequence[str] | None = None, before_block: Callable[[], None] = lambda: None
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows, in the same order each time, with the given columns (None: all). Raises InputError.

        `before_block` is called before each batch is read; its exceptions stop the reading.
        """
        try:
            reader = self.read(columns)
            while True:
                before_block()
                batch = next(reader, None)
                if batch is None:
                    return
                yield batch
        except PenstockError:
            raise
        except Exception as error:
            raise _unreadable(self.path, error) from None


def open_given_table(table: Path) -> GivenTable:
    """Open a Delta or Parquet table; deletion vectors and renamed columns are applied. Raises InputError."""
    # Needed for folders of tables only, and slow to import.
    from pyarrow import dataset

    try:
        if not is_delta(table):
            return _open_files(table, dataset.dataset(table, format="parquet", partitioning="hive"))
        from deltalake import DeltaTable

        delta = DeltaTable(table)
        plain = plain_files(table, delta)
        if plain is not None:
            return _open_files(table, dataset.dataset(plain, pa.schema(delta.schema()), format="parquet"))
        whole = pa.RecordBatchReader.from_stream(delta.scan())
        return GivenTable(
            table,
            whole.schema,
            lambda columns: pa.RecordBatchReader.from_stream(
                delta.scan(None if columns is None else list(columns))
            ),
        )
    except Exception as error:
        raise _unreadable(table, error) from None


def _open_files(table: Path, files: "dataset.Dataset") -> GivenTable:
    def read(columns: Sequence[str] | None) -> pa.RecordBatchReader:
        scanner = files.scanner(
            columns=None if columns is None else list(columns),
            batch_size=_ROWS_PER_BATCH,
            batch_readahead=_BATCHES_AHEAD,
            fragment_readahead=1,
        )
        return scanner.to_reader()

    return GivenTable(table, files.schema, read)


def _unreadable(table: Path, error: Exception) -> PenstockError:
    return missing_table(str(table), str(error).splitlines()[0][:300])


def plain_files(table: Path, delta: "DeltaTable") -> list[str] | None:
    """Return the files of a Delta table that Arrow alone reads correctly; None if there is more to apply.

    Arrow reads them in half the memory of delta-rs.
    """
    if delta.protocol().min_reader_version > 1 or delta.metadata().partition_columns:
        return None
    actions = pa.RecordBatchReader.from_stream(delta.get_add_actions()).read_all()
    paths = [unquote(path) for path in actions["path"].to_pylist()]
    if not paths or any(_SCHEME.match(path) for path in paths):
        return None
    return [str(table / path) for path in paths]
