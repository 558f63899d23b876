"""Joins that find at most one row for each row of a wide frame."""

from collections.abc import Mapping

import polars as pl

from plans.columnar.frames import TOPOLOGY, join_topology


def look_up(rows: pl.DataFrame, found: pl.DataFrame, on: Mapping[str, str]) -> pl.DataFrame:
    """The left join of `rows` with `found` (see join_topology) without copying the columns of `rows`.

    `found` has at most one row for a key; polars raises ShapeError where it has several.
    """
    keys = [TOPOLOGY, *on]
    if found.is_empty():
        return rows.hstack(found.drop(TOPOLOGY, *on.values()).clear(len(rows)))
    return rows.hstack(join_topology(rows.select(keys), found, on, "left").get_columns()[len(keys) :])
