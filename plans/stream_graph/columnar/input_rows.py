"""The rows of the inputs of transformations, and their kinds."""

from typing import NamedTuple

import numpy as np
import polars as pl

from penstock.plans.arrow_walks import Ints
from penstock.plans.columnar.frames import places
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import VIRTUAL_KINDS, Kind

KINDS = list(Kind)
FIRST_VIRTUAL = min(map(KINDS.index, VIRTUAL_KINDS))
"""Virtual kinds are the last ones."""

_WRITER = KINDS.index(Kind.WRITER)


class InputRows(NamedTuple):
    """How to get from row to row among transformations in any order."""

    order: Ints  #: all rows, those of one topology together and by id, so that inputs come first
    bounds: Ints  #: row r has the inputs bounds[r] to bounds[r + 1]
    rows: Ints  #: the row of each input
    kinds: Ints  #: of each row, as numbered by KINDS


def input_rows(transformations: pl.DataFrame) -> InputRows:
    """The inputs of all transformations. Ids are 1, 2, … in each topology of which no sink was expanded."""
    topologies, ids = (transformations[name].to_numpy() for name in (TOPOLOGY, "id"))
    lengths = transformations["inputs"].list.len().to_numpy()
    inputs = transformations["inputs"].explode(empty_as_null=False).to_numpy()
    kinds = transformations["kind"].cast(pl.Enum(Kind)).to_physical().to_numpy().astype(np.int64)
    bounds = offsets(lengths)
    if (kinds == _WRITER).any():
        return _input_rows_by_id(transformations, bounds, kinds)
    own = np.arange(len(ids))
    first = ids == 1
    follows = (ids[1:] == ids[:-1] + 1) & (topologies[1:] == topologies[:-1])
    if first[:1].all() and (first[1:] | follows).all():
        return InputRows(own, bounds, np.repeat(own - ids, lengths) + inputs, kinds)
    order = np.lexsort((ids, topologies))
    own[order] = own.copy()
    return InputRows(order, bounds, order[np.repeat(own - ids, lengths) + inputs], kinds)


def _input_rows_by_id(transformations: pl.DataFrame, bounds: Ints, kinds: Ints) -> InputRows:
    """As `input_rows`, in the order of translation and with inputs that are looked up."""
    order = transformations.select(pl.arg_sort_by(TOPOLOGY, "position")).to_series().to_numpy()
    inputs = transformations.select(TOPOLOGY, pl.col("inputs").alias("input")).explode(
        "input", empty_as_null=False
    )
    rows = places(inputs, transformations, {"input": "id"})
    return InputRows(order.astype(np.int64), bounds, rows.astype(np.int64), kinds)


def offsets(lengths: Ints) -> Ints:
    """Where consecutive spans of these lengths start, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
