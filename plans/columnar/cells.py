"""Rows found by topology and id, in tables with a cell for each id that might be there."""

import numpy as np
import numpy.typing as npt
import polars as pl

from plans.arrow_walks import Ints
from plans.columnar.runs import runs

Places = npt.NDArray[np.int32]
NONE = -1
_CELLS_A_ROW = 8
_FEW_CELLS = 1 << 16


def places_by_cells(
    topologies: pl.Series, ids: pl.Series | None, of_topologies: pl.Series, of_ids: pl.Series | None
) -> Places | None:
    """Per (topology, id) of the first two where it stands among the others, or NONE; without ids by topology.

    None where this is not the way: a key stands there twice or is null, an id is negative or no Int32, or ids
    are far apart.
    """
    columns = [topologies, of_topologies, *(s for s in (ids, of_ids) if s is not None)]
    if any(column.has_nulls() for column in columns) or not len(topologies) or not len(of_topologies):
        return None
    if any(column.dtype != pl.Int32 for column in columns[2:]):
        return None
    table = _table(of_topologies.to_numpy(), None if of_ids is None else of_ids.to_numpy())
    if table is None:
        return None
    distinct, spans, cells = table
    first = np.cumsum(spans) - spans

    wanted = topologies.to_numpy()
    of_wanted = runs(wanted)
    in_runs = wanted[of_wanted.starts]
    numbers = np.minimum(np.searchsorted(distinct, in_runs), len(distinct) - 1)
    run_spans = np.where(distinct[numbers] == in_runs, spans[numbers], 0)
    nowhere = len(cells) - 1
    if ids is None:
        return cells[np.where(run_spans > 0, first[numbers], nowhere)][of_wanted.of_row]
    wanted_ids = ids.to_numpy()
    inside = (wanted_ids >= 0) & (wanted_ids < run_spans[of_wanted.of_row])
    return cells[np.where(inside, first[numbers][of_wanted.of_row] + wanted_ids, nowhere)]


def _table(topologies: Ints, ids: npt.NDArray[np.int32] | None) -> tuple[Ints, Ints, Places] | None:
    """Topologies in order, how many cells each has, and the cells: places of keys; the last is NONE."""
    of_topologies = runs(topologies)
    distinct = np.unique(topologies[of_topologies.starts])
    numbers = np.searchsorted(distinct, topologies[of_topologies.starts])
    spans = np.zeros(len(distinct), np.int64)
    if ids is None:
        spans += 1
    else:
        np.maximum.at(spans, numbers, np.maximum.reduceat(ids, of_topologies.starts).astype(np.int64) + 1)
    count = int(spans.sum())
    if count > _FEW_CELLS + _CELLS_A_ROW * len(topologies) or (ids is not None and ids.min() < 0):
        return None
    cells = np.full(count + 1, NONE, np.int32)
    own = (np.cumsum(spans) - spans)[numbers][of_topologies.of_row]
    if ids is not None:
        own += ids
    places = np.arange(len(topologies), dtype=np.int32)
    cells[own] = places
    return None if (cells[own] != places).any() else (distinct, spans, cells)
