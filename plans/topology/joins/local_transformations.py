"""Local files of given transformations that Spark's workers read themselves."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from plans.errors import InputError
from plans.tables import TRANSFORMATIONS
from plans.tables.type_names import type_name
from plans.topology.columnar.find_topology_files import local_path
from plans.topology.columnar.open_given_table import is_delta, plain_files

ROWS_OF_A_RANGE = 200_000
"""About how many rows one task reads."""

_ROWS_OF_A_BATCH = 2**15
_PLAIN = pa.schema([field.remove_metadata().with_nullable(True) for field in TRANSFORMATIONS])
_DEFAULTS = {"name": "", "inputs": [], "managed_memory": [], "slot_scope": []}
"""As plans.topology.joins.normalized_tables has them."""


class RowGroups(NamedTuple):
    """Row groups of a Parquet file, from `first` up to `end`."""

    path: str
    first: int
    end: int


def local_transformations(folder: str) -> tuple[RowGroups, ...] | None:
    """What the table `transformations` in a folder consists of, some ROWS_OF_A_RANGE rows each.

    None where its rows are not just those in local files with the declared columns: then Spark reads it.
    """
    from deltalake import DeltaTable
    from pyarrow import parquet

    try:
        table = Path(local_path(folder)) / "transformations"
    except InputError:
        return None
    try:
        paths = plain_files(table, DeltaTable(table)) if is_delta(table) else _flat_files(table)
        ranges: list[RowGroups] = []
        for path in paths or ():
            file = parquet.ParquetFile(path)
            if any(
                type_name(_PLAIN.field(field.name).type) != type_name(field.type)
                for field in file.schema_arrow
            ):
                return None
            ranges += _ranges(path, [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
    except Exception:  # whatever is wrong, Spark's reader says it
        return None
    return tuple(ranges) or None


def read_row_groups(
    ranges: Sequence[RowGroups],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for mapInArrow over numbers into `ranges` (column id); gives rows of TRANSFORMATIONS.

    Columns that a file lacks, and null where a column has a default, are filled in.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyarrow import dataset

        for batch in batches:
            for number in batch.column("id").to_pylist():
                path, first, end = ranges[number]
                file = next(iter(dataset.dataset([path], _PLAIN, format="parquet").get_fragments()))
                some = file.subset(row_group_ids=list(range(first, end)))
                for rows in some.to_batches(_PLAIN, batch_size=_ROWS_OF_A_BATCH, use_threads=False):
                    yield _filled(rows)

    return read


def _flat_files(table: Path) -> list[str] | None:
    """The files of a folder of Parquet files; None if something else is in it."""
    names = [path for path in table.iterdir() if not path.name.startswith((".", "_"))]
    if all(path.is_file() and path.suffix == ".parquet" for path in names):
        return sorted(map(str, names))
    return None


def _ranges(path: str, rows: Sequence[int]) -> Iterator[RowGroups]:
    first = held = 0
    for place, some in enumerate(rows):
        held += some
        if held >= ROWS_OF_A_RANGE or place + 1 == len(rows):
            yield RowGroups(path, first, place + 1)
            first, held = place + 1, 0


def _filled(rows: pa.RecordBatch) -> pa.RecordBatch:
    for place, field in enumerate(_PLAIN):
        column = rows.column(place)
        if field.name in _DEFAULTS and column.null_count:
            default = pa.scalar(_DEFAULTS[field.name], field.type)
            rows = rows.set_column(place, field, pc.if_else(column.is_valid(), column, default))
    return rows
