"""The fleet that others are drawn after, as arrays over the rows of all its transformations."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from plans.tables import TOPOLOGIES, TRANSFORMATIONS
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import TopologyForm

Ints = npt.NDArray[np.int64]


class GivenFleet(NamedTuple):
    """Topologies by name, and their transformations by topology and id, which are numbered as `rows`.

    Topology t has the rows from `starts[t]` to `starts[t + 1]`. The inputs of row r are the rows
    `inputs[input_starts[r]:input_starts[r + 1]]`.
    """

    topologies: pl.DataFrame
    transformations: pl.DataFrame
    starts: Ints
    input_starts: Ints
    inputs: Ints


def given_fleet(topologies: pl.DataFrame, transformations: pl.DataFrame) -> GivenFleet:
    """A GivenFleet of the tables of these names; topologies that came as stream graphs are left out.

    `topologies` may hold fewer than `transformations`.
    """
    kept = (
        topologies.filter(pl.col("form") == TopologyForm.TRANSFORMATIONS)
        .select(TOPOLOGIES.names)
        .sort("name")
        .with_row_index("place")
    )
    rows = (
        transformations.select(TRANSFORMATIONS.names)
        .join(kept.select(TOPOLOGY, "place"), on=TOPOLOGY, how="inner")
        .sort("place", "id")
    )
    starts = _starts(np.bincount(rows["place"].to_numpy(), minlength=len(kept)))
    counts = rows["inputs"].list.len().to_numpy()
    ids = rows["inputs"].explode(empty_as_null=False, keep_nulls=False).to_numpy().astype(np.int64)
    first = starts[:-1][rows["place"].to_numpy()]
    return GivenFleet(
        kept.drop("place"),
        rows.drop("place"),
        starts,
        _starts(counts),
        np.repeat(first, counts) + ids - 1,
    )


def _starts(counts: npt.NDArray[np.generic]) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
