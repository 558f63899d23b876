"""The rows of the inputs of transformations, and their kinds."""

from typing import NamedTuple

import numpy as np
import polars as pl

from plans.arrow_walks import Ints
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import VIRTUAL_KINDS, Kind

KINDS = list(Kind)
FIRST_VIRTUAL = min(map(KINDS.index, VIRTUAL_KINDS))
"""Virtual kinds are the last ones."""


class InputRows(NamedTuple):
    """How to get from row to row among transformations in any order."""

    order: Ints  #: all rows, those of one topology together and by id, so that inputs come first
    bounds: Ints  #: row r has the inputs bounds[r] to bounds[r + 1]
    rows: Ints  #: the row of each input
    kinds: Ints  #: of each row, as numbered by KINDS


def input_rows(transformations: pl.DataFrame) -> InputRows:
    """The inputs of all transformations, whose ids are 1, 2, … in each topology."""
    topologies, ids = (transformations[name].to_numpy() for name in (TOPOLOGY, "id"))
    lengths = transformations["inputs"].list.len().to_numpy()
    inputs = transformations["inputs"].explode(empty_as_null=False).to_numpy()
    kinds = transformations["kind"].cast(pl.Enum(Kind)).to_physical().to_numpy().astype(np.int64)
    bounds = offsets(lengths)
    places = np.arange(len(ids))
    first = ids == 1
    follows = (ids[1:] == ids[:-1] + 1) & (topologies[1:] == topologies[:-1])
    if first[:1].all() and (first[1:] | follows).all():
        return InputRows(places, bounds, np.repeat(places - ids, lengths) + inputs, kinds)
    order = np.lexsort((ids, topologies))
    places[order] = places.copy()
    return InputRows(order, bounds, order[np.repeat(places - ids, lengths) + inputs], kinds)


def offsets(lengths: Ints) -> Ints:
    """Where consecutive spans of these lengths start, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
