"""Which rows the inputs of transformations are."""

from typing import NamedTuple

import numpy as np
import polars as pl

from plans.arrow_walks import Ints
from plans.columnar.frames import TOPOLOGY


class InputRows(NamedTuple):
    """Transformations by their rows, wherever they stand."""

    order: Ints  #: all rows, those of one topology behind each other and by id, so that inputs come first
    bounds: Ints  #: row r has the inputs bounds[r] to bounds[r + 1]
    rows: Ints  #: the row of each input


def input_rows(transformations: pl.DataFrame) -> InputRows:
    """The inputs of all transformations, whose ids are 1, 2, … in each topology."""
    topologies, ids = (transformations[name].to_numpy() for name in (TOPOLOGY, "id"))
    lengths = transformations["inputs"].list.len().to_numpy()
    inputs = transformations["inputs"].explode(empty_as_null=False).to_numpy()
    bounds = offsets(lengths)
    places = np.arange(len(ids))
    first = ids == 1
    follows = (ids[1:] == ids[:-1] + 1) & (topologies[1:] == topologies[:-1])
    if first[:1].all() and (first[1:] | follows).all():
        return InputRows(places, bounds, np.repeat(places - ids, lengths) + inputs)
    order = np.lexsort((ids, topologies))
    places[order] = places.copy()
    return InputRows(order, bounds, order[np.repeat(places - ids, lengths) + inputs])


def offsets(lengths: Ints) -> Ints:
    """Where spans of these lengths start if they stand behind each other, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
