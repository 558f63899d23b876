"""Rows found by (topology, id) over arrays, for the walks of both planners."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.plans.tables.column_types import TOPOLOGY

Ints = npt.NDArray[np.signedinteger[Any]]
Flags = npt.NDArray[np.bool_]
Halves = npt.NDArray[np.uint64]
"""Hashes of 128 bits, one row for each: the lower and the upper half."""


def topologies_of(rows: pa.Table) -> Ints:
    """The topology of each row, of rows sorted by topology; where all are of one, this takes no memory."""
    column = rows.column(TOPOLOGY)
    if len(column) and column[0] == column[-1]:
        return np.broadcast_to(np.int64(column[0].as_py()), len(column))
    topologies: Ints = column.to_numpy()
    return topologies


def positions(topologies: Ints, ids: Ints) -> Callable[[Ints, Ints], Ints]:
    """A function from columns of (topology, id) to the places of these pairs in the given columns.

    It raises ValueError if a pair is missing: the rows of its topology are spread over several partitions.
    """
    distinct = np.unique(topologies[_starts(topologies)])
    numbers = _numbers(distinct, topologies)
    spans = np.zeros(len(distinct) + 1, dtype=np.int64)
    for rows in _slices(len(ids)):
        np.maximum.at(spans, numbers[rows], ids[rows].astype(np.int64) + 1)
    if spans.sum() > _CELLS_A_ROW * len(ids) or (ids < 0).any():
        position = _by_search(numbers, ids)
    else:
        position = _by_cells(numbers, ids, spans)

    def find_places(wanted_topologies: Ints, wanted_ids: Ints) -> Ints:
        if len(wanted_ids) and not len(ids):
            raise missing_node()
        places = np.empty(len(wanted_ids), dtype=np.int64)
        for rows in _slices(len(wanted_ids)):
            part_topologies, part_ids = wanted_topologies[rows], wanted_ids[rows]
            places[rows] = position(_numbers(distinct, part_topologies), part_ids)
            if (topologies[places[rows]] != part_topologies).any() or (ids[places[rows]] != part_ids).any():
                raise missing_node()
        return places

    return find_places


_CELLS_A_ROW = 8
_ROWS_AT_A_TIME = 2**18
"""What is computed on the way takes several times the memory of its rows."""


def missing_node() -> ValueError:
    """The error of an edge whose node is missing."""
    return ValueError("an edge's node is missing: the rows of a topology are in several partitions")


def _starts(topologies: Ints) -> Ints:
    """The rows at which another topology begins."""
    return np.flatnonzero(np.concatenate(([True], topologies[1:] != topologies[:-1]))[: len(topologies)])


def _numbers(distinct: Ints, topologies: Ints) -> Ints:
    """The place of each row's topology, searched once for each run of rows."""
    if len(distinct) == 1 and len(topologies) and (topologies == distinct[0]).all():
        return np.broadcast_to(np.int32(0), len(topologies))
    starts = _starts(topologies)
    lengths = np.diff(np.append(starts, len(topologies)))
    return np.repeat(np.searchsorted(distinct, topologies[starts]).astype(np.int32), lengths)


def _slices(count: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS_AT_A_TIME) for start in range(0, count, _ROWS_AT_A_TIME))


def _by_cells(numbers: Ints, ids: Ints, spans: Ints) -> Callable[[Ints, Ints], Ints]:
    """Places by direct addressing, for dense ids. A missing id gets any place."""
    first = np.cumsum(spans) - spans
    cells = np.zeros(int(spans.sum()) + 1, dtype=np.int32)
    for rows in _slices(len(ids)):
        cells[first[numbers[rows]] + ids[rows]] = np.arange(rows.start, min(rows.stop, len(ids)))

    def position(of_topologies: Ints, of_ids: Ints) -> Ints:
        places: Ints = cells[np.clip(first[of_topologies] + of_ids, 0, len(cells) - 1)]
        return places

    return position


def _by_search(numbers: Ints, ids: Ints) -> Callable[[Ints, Ints], Ints]:
    """Places by binary search, for ids below 2**32. A missing id gets any place."""
    keys = _keys(numbers, ids)
    order = np.argsort(keys)

    def position(of_topologies: Ints, of_ids: Ints) -> Ints:
        rank = np.searchsorted(keys, _keys(of_topologies, of_ids), sorter=order)
        return order[np.minimum(rank, len(keys) - 1)]

    return position


def _keys(topologies: Ints, ids: Ints) -> Ints:
    return topologies.astype(np.int64) << 32 | ids
