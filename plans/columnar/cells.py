"""Rows found by topology and id through direct addressing: a table with one cell for each possible id."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from plans.arrow_walks import Ints

Places = npt.NDArray[np.int32]
NONE = -1
_CELLS_A_ROW = 8
_FEW_CELLS = 1 << 16


class Cells(NamedTuple):
    """Where the rows of a table stand: a cell for each id, topology by topology."""

    topologies: Ints  #: in order
    first: Ints  #: of each topology its first cell
    spans: Ints  #: and how many it has
    places: Places  #: per cell; the last one, which is nobody's, is NONE
    in_runs: Ints  #: topologies as they follow each other in the table
    numbers: Ints  #: and where each of those is among `topologies`


def places_by_cells(
    topologies: pl.Series, ids: pl.Series | None, of_topologies: pl.Series, of_ids: pl.Series | None
) -> Places | None:
    """For each (topology, id) of the first two columns its place in the other two, or NONE.

    Without ids, rows are found by topology.

    None if direct addressing does not apply: a key is duplicated or null, an id is negative or not an Int32,
    or ids are sparse.
    """
    if not len(topologies) or not _are_keys(topologies, ids):
        return None
    cells = cells_of(of_topologies, of_ids)
    return None if cells is None else find_in_cells(cells, topologies, ids)


def cells_of(topologies: pl.Series, ids: pl.Series | None) -> Cells | None:
    """The cells of a table's rows; None if it has no rows or direct addressing does not apply."""
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
    if count > _FEW_CELLS + _CELLS_A_ROW * len(topologies):
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
    found: Places = cells.places[at]
    return found


def _are_keys(topologies: pl.Series, ids: pl.Series | None) -> bool:
    return not topologies.has_nulls() and (ids is None or (ids.dtype == pl.Int32 and not ids.has_nulls()))


def _runs(topologies: Ints) -> tuple[Ints, Ints, Ints]:
    """For each run of rows of one topology: the topology, where the run starts and how long it is."""
    starts = np.flatnonzero(np.concatenate(([True], topologies[1:] != topologies[:-1])))
    return topologies[starts], starts, np.diff(starts, append=len(topologies))
