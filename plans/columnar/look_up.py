"""Rows found by topology and id."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from plans.columnar.cells import NONE, Places, places_by_cells
from plans.columnar.frames import join_topology
from plans.tables.column_types import TOPOLOGY


def look_up(rows: pl.DataFrame, found: pl.DataFrame, on: Mapping[str, str]) -> pl.DataFrame:
    """The left join of `rows` with `found`, which has at most one row per key; see frames.join_topology.

    The columns of `rows` are not copied. Raises ValueError or polars' ShapeError if a key has several rows.
    """
    given = on.values()
    if found.is_empty():
        return rows.hstack(found.drop(TOPOLOGY, *given).clear(len(rows)))
    if len(on) > 1:
        joined = join_topology(rows.select(TOPOLOGY, *on), found, on, "left")
        return rows.hstack(joined.get_columns()[1 + len(on) :])
    columns = found[[name for name in found.columns if name != TOPOLOGY and name not in given]]
    at = pl.Series(places(rows, found, on).view(np.uint32))
    return rows.hstack(columns.select(pl.all().gather(at, null_on_oob=True)))


def places(rows: pl.DataFrame, found: pl.DataFrame, on: Mapping[str, str]) -> Places:
    """For each row the place of the row of `found` with its key, or NONE. `on`: one column of each, or none.

    Raises ValueError if a key has several rows.
    """
    wanted, given = next(iter(on.items()), (None, None))
    at = places_by_cells(
        rows[TOPOLOGY],
        None if wanted is None else rows[wanted],
        found[TOPOLOGY],
        None if given is None else found[given],
    )
    if at is not None:
        return at
    numbered = found.select(TOPOLOGY, *on.values(), place=pl.int_range(pl.len(), dtype=pl.Int32))
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
