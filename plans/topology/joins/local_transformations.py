"""Local files of given transformations that Spark's workers read themselves."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.tables import TRANSFORMATIONS
from penstock.plans.tables.column_types import type_name
from penstock.plans.topology.columnar.open_given_table import is_delta
from penstock.plans.topology.joins.files_of_delta_table import files_of_delta_table

ROWS_OF_A_TASK = 200_000
"""About how many rows one task reads."""

MOST_FILES = 1_000
"""More are for Spark to read: here they are opened one after the other first."""

_ROWS_OF_A_BATCH = 2**15
_PLAIN = pa.schema([field.remove_metadata().with_nullable(True) for field in TRANSFORMATIONS])
_DEFAULTS = {"name": "", "inputs": [], "managed_memory": [], "slot_scope": []}
"""As plans.topology.joins.normalized_tables has them."""


class RowGroups(NamedTuple):
    """Row groups of a Parquet file, from `first` up to `end`."""

    path: str
    first: int
    end: int


def local_transformations(folder: str) -> tuple[tuple[RowGroups, ...], ...] | None:
    """The row groups of the table `transformations` in a local folder, about ROWS_OF_A_TASK rows per task.

    None, so that Spark reads the table, if it has more than MOST_FILES files, if these differ in their
    columns, or if its rows are not just those in the files.
    """
    from pyarrow import parquet

    table = Path(folder) / "transformations"
    try:
        if is_delta(table):
            table_files = files_of_delta_table(table)
            paths = None if table_files is None else table_files[0]
        else:
            paths = _flat_files(table)
        if paths is None or len(paths) > MOST_FILES:
            return None
        ranges: list[tuple[RowGroups, int]] = []
        columns: set[tuple[str, ...]] = set()
        for path in paths:
            file = parquet.ParquetFile(path)
            if any(
                type_name(_PLAIN.field(field.name).type) != type_name(field.type)
                for field in file.schema_arrow
            ):
                return None
            columns.add(tuple(sorted(file.schema_arrow.names)))
            ranges += _ranges(path, [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
    except Exception:  # Spark's reader reports what is wrong
        return None
    return tuple(_tasks(ranges)) if len(columns) == 1 else None


def read_row_groups(
    tasks: Sequence[Sequence[RowGroups]],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow over numbers into `tasks` (column id); gives rows of TRANSFORMATIONS.

    Columns that a file lacks, and nulls in columns with a default, are filled in.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyarrow import dataset

        for batch in batches:
            numbers = batch.column("id").to_pylist()
            for path, first, end in (of_task for number in numbers for of_task in tasks[number]):
                file = next(iter(dataset.dataset([path], _PLAIN, format="parquet").get_fragments()))
                row_groups = file.subset(row_group_ids=list(range(first, end)))
                for rows in row_groups.to_batches(_PLAIN, batch_size=_ROWS_OF_A_BATCH, use_threads=False):
                    yield _filled(rows)

    return read


def _flat_files(table: Path) -> list[str] | None:
    """The files of a folder of Parquet files; None if something else is in it."""
    names = [path for path in table.iterdir() if not path.name.startswith((".", "_"))]
    if all(path.is_file() and path.suffix == ".parquet" for path in names):
        return sorted(map(str, names))
    return None


def _ranges(path: str, rows: Sequence[int]) -> Iterator[tuple[RowGroups, int]]:
    """Ranges of a file's row groups, with their rows."""
    first = held = 0
    for place, row_count in enumerate(rows):
        held += row_count
        if held >= ROWS_OF_A_TASK or place + 1 == len(rows):
            yield RowGroups(path, first, place + 1), held
            first, held = place + 1, 0


def _tasks(ranges: Iterable[tuple[RowGroups, int]]) -> Iterator[tuple[RowGroups, ...]]:
    """Ranges together: files may be small."""
    together: list[RowGroups] = []
    held = 0
    for row_groups, rows in ranges:
        if together and held + rows > ROWS_OF_A_TASK:
            yield tuple(together)
            together, held = [], 0
        together.append(row_groups)
        held += rows
    if together:
        yield tuple(together)


def _filled(rows: pa.RecordBatch) -> pa.RecordBatch:
    for place, field in enumerate(_PLAIN):
        column = rows.column(place)
        if field.name in _DEFAULTS and column.null_count:
            default = pa.scalar(_DEFAULTS[field.name], field.type)
            rows = rows.set_column(place, field, pc.if_else(column.is_valid(), column, default))
    return rows
