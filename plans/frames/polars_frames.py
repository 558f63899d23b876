"""Helpers of columnar passes for Arrow conversion, joins on the topology, and look-ups by topology and id."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from penstock.plans.frames.arrays import Ints, sums_before
from penstock.plans.frames.compiled import run_loop
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY

Places = npt.NDArray[np.int32]
NONE = -1
_CELLS_PER_ROW = 8
_FEW_CELLS = 1 << 16


class Cells(NamedTuple):
    """An index of a table's rows with one cell per possible id, topology by topology."""

    topologies: Ints  #: sorted
    first: Ints  #: each topology's first cell
    spans: Ints  #: number of cells of each topology
    places: Places  #: position per cell; the last cell belongs to no row and is NONE
    in_runs: Ints  #: topologies in table order
    numbers: Ints  #: position of each of those in `topologies`


def places_by_cells(
    topologies: pl.Series, ids: pl.Series | None, of_topologies: pl.Series, of_ids: pl.Series | None
) -> Places | None:
    """Return the position of each (topology, id) of the first two columns in the other two, or NONE.

    Without ids, rows are looked up by topology alone.

    Return None if direct addressing does not apply: a key is duplicated or null, an id is negative or not an
    Int32, or ids are sparse.
    """
    if not len(topologies) or not _are_keys(topologies, ids):
        return None
    cells = cells_of(of_topologies, of_ids)
    return None if cells is None else find_in_cells(cells, topologies, ids)


def cells_of(topologies: pl.Series, ids: pl.Series | None) -> Cells | None:
    """Build the cells of a table's rows; None if it has no rows or direct addressing does not apply."""
    if not len(topologies) or not _are_keys(topologies, ids):
        return None
    in_runs, starts, lengths = _runs(topologies.to_numpy())
    own_ids = np.zeros(len(topologies), np.int32) if ids is None else ids.to_numpy()
    if own_ids.min() < 0:
        return None
    by_topology = np.argsort(in_runs)
    in_order = in_runs[by_topology]
    is_new = np.concatenate(([True], in_order[1:] != in_order[:-1]))
    numbers = np.empty_like(by_topology)
    numbers[by_topology] = np.cumsum(is_new) - 1
    spans_of_runs = np.maximum.reduceat(own_ids, starts)[by_topology].astype(np.int64) + 1
    spans = np.maximum.reduceat(spans_of_runs, np.flatnonzero(is_new))
    count = int(spans.sum())
    if count > _FEW_CELLS + _CELLS_PER_ROW * len(topologies):
        return None
    first = np.cumsum(spans) - spans
    own = np.repeat(first[numbers], lengths) + own_ids
    rows = np.arange(len(topologies), dtype=np.int32)
    places = np.full(count + 1, NONE, np.int32)
    places[own] = rows
    if (places[own] != rows).any():
        return None
    return Cells(in_order[is_new], first, spans, places, in_runs, numbers)


def find_in_cells(cells: Cells, topologies: pl.Series, ids: pl.Series | None) -> Places:
    """places_by_cells for at least one row, ids of type Int32 and no nulls."""
    in_runs, _, lengths = _runs(topologies.to_numpy())
    if np.array_equal(in_runs, cells.in_runs):
        numbers, spans = cells.numbers, cells.spans[cells.numbers]
    else:
        numbers = np.minimum(np.searchsorted(cells.topologies, in_runs), len(cells.topologies) - 1)
        spans = np.where(cells.topologies[numbers] == in_runs, cells.spans[numbers], 0)
    first, nowhere = cells.first[numbers], len(cells.places) - 1
    if ids is None:
        return np.repeat(cells.places[np.where(spans > 0, first, nowhere)], lengths)
    wanted = ids.to_numpy()
    inside = (wanted >= 0) & (wanted < np.repeat(spans, lengths))
    at = np.repeat(first, lengths) + wanted
    if not inside.all():
        at[~inside] = nowhere
    row_places: Places = cells.places[at]
    return row_places


def _are_keys(topologies: pl.Series, ids: pl.Series | None) -> bool:
    return not topologies.has_nulls() and (ids is None or (ids.dtype == pl.Int32 and not ids.has_nulls()))


def _runs(topologies: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the topology, start and length of each run of rows of one topology."""
    starts = np.flatnonzero(np.concatenate(([True], topologies[1:] != topologies[:-1])))
    return topologies[starts], starts, np.diff(starts, append=len(topologies))


MANY = 1000
"""Rows from which arrays are faster."""

_ROWS_PER_CHUNK = 1 << 22
"""Few enough that the strings of a column take less than 2 GiB, the limit of Arrow's 32-bit offsets."""

_STRINGS = pa.list_(pa.string())

How = Literal["inner", "left", "semi", "anti"]
Kernel = Callable[[pa.Table], pa.RecordBatch]


def from_arrow(table: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    """Convert an Arrow table to a frame."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def to_arrow(frame: pl.DataFrame, table: str, kept: pl.Series | None = None) -> pa.Table:
    """Return the declared columns of `table`, with the declared types; only the `kept` rows, if given."""
    return pa.concat_tables(arrow_parts(frame, table, kept))


def arrow_parts(
    frame: pl.DataFrame, table: str, kept: pl.Series | None = None, rows: int = _ROWS_PER_CHUNK
) -> Iterator[pa.Table]:
    """Yield the result of `to_arrow` in parts of `rows` rows; at least one part, which may be empty."""
    schema = TABLES[table]
    declared = frame[schema.names]
    # Column by column: columns handed over together would be freed only together, and filtering needs memory
    # for one column at a time.
    for start in range(0, len(declared) or 1, rows):
        part = declared.slice(start, rows)
        mask = None if kept is None else kept.slice(start, rows)
        columns = (part[name] if mask is None else part[name].filter(mask) for name in schema.names)
        yield pa.table([_as_declared(column, schema.field(column.name).type) for column in columns], schema)


def _as_declared(column: pl.Series, kind: pa.DataType) -> pa.Array:
    """Convert a column to the declared type with as few copies as possible."""
    if column.null_count() == len(column):
        return pa.nulls(len(column), kind)
    newest = pa.types.is_string(kind) or kind == _STRINGS
    level = pl.CompatLevel.newest() if newest else pl.CompatLevel.oldest()
    return column.to_arrow(compat_level=level).cast(kind)


def empty(table: str) -> pl.DataFrame:
    """Return a declared table without rows."""
    # Not empty_table, which imports pandas.
    return from_arrow(pa.Table.from_batches([], TABLES[table]))


def join_topology(
    left: pl.DataFrame, right: pl.DataFrame, on: Mapping[str, str], how: How = "inner"
) -> pl.DataFrame:
    """Join `left` with `right` on the topology and on the pairs of columns in `on` (left to right).

    Return the columns of left, then the columns of right without its keys, as join_local. Rows keep the order
    of `left`. If (topology, id), or the topology alone, is unique in `right`, rows are found by direct
    addressing, at under half the cost of a hash join.
    """
    if len(on) <= 1 and len(left) >= MANY:
        left_column, right_column = next(iter(on.items()), (None, None))
        at = places_by_cells(
            left[TOPOLOGY],
            None if left_column is None else left[left_column],
            right[TOPOLOGY],
            None if right_column is None else right[right_column],
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
    """Join by position; `at` is the position in right of each row of left."""
    if how != "left":
        kept = at < 0 if how == "anti" else at >= 0
        if not kept.all():
            left, at = left.filter(pl.Series(values=kept)), at[kept]
    if how in ("semi", "anti") or not right.width:
        return left
    taken = right.select(pl.all().gather(pl.Series(values=at.view(np.uint32)), null_on_oob=how == "left"))
    return left.hstack(taken)


def rename(frame: pl.DataFrame, **names: str) -> pl.DataFrame:
    """Select the topology and the columns that `names` maps to, renamed: rename(frame, new="old")."""
    return frame.select(TOPOLOGY, **{new: pl.col(old) for new, old in names.items()})


def walk(rows: pl.DataFrame, order: list[str], kernel: Kernel, schema: pa.Schema) -> pl.DataFrame:
    """Apply the `kernel` of a Spark walk pass to all rows, sorted by topology and `order`."""
    if rows.is_empty():
        return from_arrow(pa.Table.from_batches([], schema))
    ordered = rows.sort(TOPOLOGY, *order)
    return from_arrow(kernel(ordered.to_arrow(compat_level=pl.CompatLevel.oldest())))


def look_up(rows: pl.DataFrame, lookup: pl.DataFrame, on: Mapping[str, str]) -> pl.DataFrame:
    """Left-join `rows` with `lookup`, which has at most one row per key; see join_topology.

    The columns of `rows` are not copied. Raises ValueError or polars' ShapeError if a key has several rows.
    """
    keys = on.values()
    if lookup.is_empty():
        return rows.hstack(lookup.drop(TOPOLOGY, *keys).clear(len(rows)))
    if len(on) > 1:
        joined = join_topology(rows.select(TOPOLOGY, *on), lookup, on, "left")
        return rows.hstack(joined.get_columns()[1 + len(on) :])
    columns = lookup[[name for name in lookup.columns if name != TOPOLOGY and name not in keys]]
    at = pl.Series(places(rows, lookup, on).view(np.uint32))
    return rows.hstack(columns.select(pl.all().gather(at, null_on_oob=True)))


def places(rows: pl.DataFrame, lookup: pl.DataFrame, on: Mapping[str, str]) -> Places:
    """Return the position in `lookup` of the row with each row's key, or NONE.

    `on`: one pair of columns, or empty for the topology alone. Raises ValueError if a key has several rows.
    """
    row_column, lookup_column = next(iter(on.items()), (None, None))
    at = places_by_cells(
        rows[TOPOLOGY],
        None if row_column is None else rows[row_column],
        lookup[TOPOLOGY],
        None if lookup_column is None else lookup[lookup_column],
    )
    if at is not None:
        return at
    numbered = lookup.select(TOPOLOGY, *on.values(), place=pl.int_range(pl.len(), dtype=pl.Int32))
    joined = rows.select(TOPOLOGY, *on).join(
        numbered,
        left_on=[TOPOLOGY, *on],
        right_on=[TOPOLOGY, *on.values()],
        how="left",
        maintain_order="left",
    )
    if len(joined) != len(rows):
        raise ValueError(f"several rows for one key: {[TOPOLOGY, *on.values()]}")
    return joined["place"].fill_null(NONE).to_numpy()


# Groups of rows over arrays, and repeated rows.


def groups(frame: pl.DataFrame, *keys: str) -> Ints:
    """Return per row the first row of its topology with equal `keys` (null equals null)."""
    first = frame.with_row_index("_row").select(pl.col("_row").first().over(TOPOLOGY, *keys))
    return ints(first, "_row")


def ints(frame: pl.DataFrame, column: str) -> Ints:
    """Return a column of integers without nulls as an array."""
    return frame[column].cast(pl.Int64).to_numpy()


def first_of_equal(keys: Ints) -> Ints:
    """Return per row the first row with the same key."""
    rows = np.arange(len(keys))
    in_order = np.sort(keys)
    if (in_order[1:] != in_order[:-1]).all():
        return rows
    by_key = np.argsort(keys, kind="stable")
    starts_new = np.append(True, keys[by_key][1:] != keys[by_key][:-1])
    first = np.empty_like(rows)
    first[by_key] = by_key[np.flatnonzero(starts_new)][np.cumsum(starts_new) - 1]
    return first


def first_rows(numbers: Ints) -> Ints:
    """Return per row the first row with the same number; numbers must not exceed the number of
    rows by much.
    """
    first = np.empty(int(numbers.max(initial=-1)) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first[numbers]


def number_in_turn(first: Ints, starts: Ints) -> Ints:
    """Return per row the rank of its group among the groups that begin in the same stretch of rows.

    `first`: the first row of each row's group. `starts`: the first row of each stretch; a group never spans
    two.
    """
    counted = np.cumsum(first == np.arange(len(first)))
    before = np.repeat(counted[starts] - 1, np.diff(starts, append=len(first)))
    numbers: Ints = counted[first] - 1 - before
    return numbers


def count_in_groups(of_rows: Places, groups: int) -> Places:
    """Return per row the number of earlier rows in its group; `of_rows` numbers the groups of rows from 0."""
    numbers, seen = np.zeros(len(of_rows), np.int32), np.zeros(groups, np.int32)
    run_loop(_count, len(of_rows), (of_rows,), (numbers, seen))
    return numbers


def _count(of_rows: Places, numbers: Places, seen: Places) -> None:
    """The compiled loop (see run_loop)."""
    for row in range(len(of_rows)):
        group = of_rows[row]
        numbers[row] = seen[group]
        seen[group] += 1


Int32s = npt.NDArray[np.int32]


class RepeatedRows(NamedTuple):
    """The original row of each repeated row, and its number among the repetitions."""

    originals: Ints
    numbers: Int32s

    def taken(self, columns: pl.DataFrame) -> dict[str, npt.NDArray[np.generic]]:
        """Return the columns of the original rows."""
        return {column.name: column.to_numpy()[self.originals] for column in columns}


def repeated_rows(counts: pl.Series) -> RepeatedRows:
    """Repeat each row `counts` times."""
    lengths = counts.to_numpy()
    originals = np.repeat(np.arange(len(lengths)), lengths)
    first = sums_before(lengths.astype(np.int64))
    return RepeatedRows(originals, (np.arange(len(originals)) - first[originals]).astype(np.int32))
