"""What columnar passes share: Arrow in and out, joins on the topology, windows in a given order."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import numpy as np
import polars as pl
import pyarrow as pa

from plans.columnar.cells import Places, places_by_cells
from plans.tables import TABLES
from plans.tables.column_types import TOPOLOGY

MANY = 1000
"""From this many rows on, arrays are faster."""

_ROWS_OF_A_CHUNK = 1 << 22
"""Few enough that the strings of a column take less than 2 GiB, the limit of Arrow's 32-bit offsets."""

_STRINGS = pa.list_(pa.string())

How = Literal["inner", "left", "semi", "anti"]
Kernel = Callable[[pa.Table], pa.RecordBatch]


def from_arrow(table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """An Arrow table as a frame."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def to_arrow(frame: pl.DataFrame, table: str, kept: pl.Series | None = None) -> pa.Table:
    """The declared columns of `table`, with exactly the declared types; the rows that are `kept`, or all."""
    return pa.concat_tables(arrow_parts(frame, table, kept))


def arrow_parts(
    frame: pl.DataFrame, table: str, kept: pl.Series | None = None, rows: int = _ROWS_OF_A_CHUNK
) -> Iterator[pa.Table]:
    """`to_arrow` of `rows` at a time; at least one part, which may be empty."""
    schema = TABLES[table]
    declared = frame[schema.names]
    # Column by column: what is handed over together is freed together, whatever becomes of it here, and
    # rows that are left out need memory for a column only.
    for start in range(0, len(declared) or 1, rows):
        part = declared.slice(start, rows)
        mask = None if kept is None else kept.slice(start, rows)
        columns = (part[name] if mask is None else part[name].filter(mask) for name in schema.names)
        yield pa.table([_as_declared(column, schema.field(column.name).type) for column in columns], schema)


def _as_declared(column: pl.Series, kind: pa.DataType) -> pa.Array:
    """The column converted to that type with as few copies as possible."""
    if column.null_count() == len(column):
        return pa.nulls(len(column), kind)
    newest = pa.types.is_string(kind) or kind == _STRINGS
    level = pl.CompatLevel.newest() if newest else pl.CompatLevel.oldest()
    return column.to_arrow(compat_level=level).cast(kind)


def empty(table: str) -> pl.DataFrame:
    """A declared table without rows."""
    # Not empty_table: it imports pandas.
    return from_arrow(pa.Table.from_batches([], TABLES[table]))


def join_topology(
    left: pl.DataFrame, right: pl.DataFrame, on: Mapping[str, str], how: How = "inner"
) -> pl.DataFrame:
    """`left` joined with `right` on the topology and on columns of left and right as `on` pairs them.

    Out: the columns of left, then those of right without its keys, as join_local gives them.
    Rows keep the order of `left`. If (topology, id), or the topology alone, is unique in `right`,
    rows are found by direct addressing, at under half the cost of a hash join.
    """
    if len(on) <= 1 and len(left) >= MANY:
        wanted, given = next(iter(on.items()), (None, None))
        at = places_by_cells(
            left[TOPOLOGY],
            None if wanted is None else left[wanted],
            right[TOPOLOGY],
            None if given is None else right[given],
        )
        if at is not None:
            return _taken(left, right.drop(TOPOLOGY, *on.values()), at, how)
    return left.join(
        right,
        left_on=[TOPOLOGY, *on],
        right_on=[TOPOLOGY, *on.values()],
        how=how,
        maintain_order="left" if how in ("inner", "left") else "none",
    )


def _taken(left: pl.DataFrame, right: pl.DataFrame, at: Places, how: How) -> pl.DataFrame:
    """The join; `at` has for each row of left the place of its row of right."""
    if how != "left":
        kept = at < 0 if how == "anti" else at >= 0
        if not kept.all():
            left, at = left.filter(pl.Series(values=kept)), at[kept]
    if how in ("semi", "anti") or not right.width:
        return left
    taken = right.select(pl.all().gather(pl.Series(values=at.view(np.uint32)), null_on_oob=how == "left"))
    return left.hstack(taken)


def rename(frame: pl.DataFrame, **names: str) -> pl.DataFrame:
    """The topology and the columns `names` maps to, renamed: rename(frame, new="old")."""
    return frame.select(TOPOLOGY, **{new: pl.col(old) for new, old in names.items()})


def walk(rows: pl.DataFrame, order: list[str], kernel: Kernel, schema: pa.Schema) -> pl.DataFrame:
    """`kernel` of a Spark walk pass applied to all rows, sorted by topology and `order`."""
    if rows.is_empty():
        return from_arrow(pa.Table.from_batches([], schema))
    ordered = rows.sort(TOPOLOGY, *order)
    return from_arrow(kernel(ordered.to_arrow(compat_level=pl.CompatLevel.oldest())))
