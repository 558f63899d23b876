"""Counts, sums, runs and connected components of arrays, and sorted rows, for walks."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.plans.errors import ErrorKind
from penstock.plans.frames.compiled import run_loop
from penstock.plans.tables.column_types import TOPOLOGY

# Look-up of rows by (topology, id) over arrays, for walks.


Ints = npt.NDArray[np.signedinteger[Any]]
Flags = npt.NDArray[np.bool_]
Halves = npt.NDArray[np.uint64]
"""128-bit hashes, one row each: the lower and the upper half."""


def topologies_of(rows: pa.Table) -> Ints:
    """Return the topology of each row, for rows sorted by topology; takes no memory if all rows share one."""
    column = rows.column(TOPOLOGY)
    if len(column) and column[0] == column[-1]:
        return np.broadcast_to(np.int64(column[0].as_py()), len(column))
    topologies: Ints = column.to_numpy()
    return topologies


def positions(topologies: Ints, ids: Ints) -> Callable[[Ints, Ints], Ints]:
    """Return a function from columns of (topology, id) to the positions of these pairs in the given columns.

    The function raises ValueError if a pair is missing: the rows of a topology are spread over several
    partitions.
    """
    distinct = np.unique(topologies[_starts(topologies)])
    numbers = _numbers(distinct, topologies)
    spans = np.zeros(len(distinct) + 1, dtype=np.int64)
    for rows in _slices(len(ids)):
        np.maximum.at(spans, numbers[rows], ids[rows].astype(np.int64) + 1)
    if spans.sum() > _CELLS_PER_ROW * len(ids) or (ids < 0).any():
        position = _by_search(numbers, ids)
    else:
        position = _rows_by_cells(numbers, ids, spans)

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


_CELLS_PER_ROW = 8
_ROWS_AT_A_TIME = 2**18
"""Rows per slice; intermediate arrays take several times the memory of their rows."""


def missing_node() -> ValueError:
    """Return the error for an edge whose node is missing."""
    return ValueError("an edge's node is missing: the rows of a topology are in several partitions")


def _starts(topologies: Ints) -> Ints:
    """Return the rows at which another topology begins."""
    return np.flatnonzero(np.concatenate(([True], topologies[1:] != topologies[:-1]))[: len(topologies)])


def _numbers(distinct: Ints, topologies: Ints) -> Ints:
    """Return the position in `distinct` of each row's topology, searched once per run of rows."""
    if len(distinct) == 1 and len(topologies) and (topologies == distinct[0]).all():
        return np.broadcast_to(np.int32(0), len(topologies))
    starts = _starts(topologies)
    lengths = np.diff(np.append(starts, len(topologies)))
    return np.repeat(np.searchsorted(distinct, topologies[starts]).astype(np.int32), lengths)


def _slices(count: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS_AT_A_TIME) for start in range(0, count, _ROWS_AT_A_TIME))


def _rows_by_cells(numbers: Ints, ids: Ints, spans: Ints) -> Callable[[Ints, Ints], Ints]:
    """Look up positions by direct addressing, for dense ids. A missing id gets an arbitrary position."""
    first = np.cumsum(spans) - spans
    cells = np.zeros(int(spans.sum()) + 1, dtype=np.int32)
    for rows in _slices(len(ids)):
        cells[first[numbers[rows]] + ids[rows]] = np.arange(rows.start, min(rows.stop, len(ids)))

    def position(of_topologies: Ints, of_ids: Ints) -> Ints:
        places: Ints = cells[np.clip(first[of_topologies] + of_ids, 0, len(cells) - 1)]
        return places

    return position


def _by_search(numbers: Ints, ids: Ints) -> Callable[[Ints, Ints], Ints]:
    """Look up positions by binary search, for ids below 2**32. A missing id gets an arbitrary position."""
    keys = _keys(numbers, ids)
    order = np.argsort(keys)

    def position(of_topologies: Ints, of_ids: Ints) -> Ints:
        rank = np.searchsorted(keys, _keys(of_topologies, of_ids), sorter=order)
        return order[np.minimum(rank, len(keys) - 1)]

    return position


def _keys(topologies: Ints, ids: Ints) -> Ints:
    return topologies.astype(np.int64) << 32 | ids


def sums_before(values: Ints) -> Ints:
    """Return the exclusive prefix sums of `values`."""
    return np.cumsum(values) - values


def counts_up(lengths: Ints) -> Ints:
    """Return 0, 1, … for each of `lengths` in turn."""
    return counts_from(np.zeros_like(lengths), lengths)


def counts_from(starts: Ints, lengths: Ints) -> Ints:
    """Return `lengths` consecutive numbers from each of `starts`, concatenated."""
    numbers: Ints = np.repeat(starts - sums_before(lengths), lengths)
    numbers += np.arange(len(numbers))
    return numbers


def bounds_of(owners: Ints, count: int) -> Ints:
    """Return bounds such that the elements with (sorted) owner i lie between bounds i and i + 1."""
    return np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=count))))


class Runs(NamedTuple):
    """The starts of runs, and the run of each row."""

    starts: Ints
    of_row: Ints

    def numbers(self) -> Ints:
        """Return each row's position in its run."""
        return np.arange(len(self.of_row), dtype=np.int64) - self.starts[self.of_row]

    def lengths(self) -> Ints:
        """Return the length of each row's run."""
        return np.diff(self.starts, append=len(self.of_row))[self.of_row]


def runs(*columns: Ints) -> Runs:
    """Return the runs of consecutive rows that agree in all columns."""
    differs = np.zeros(len(columns[0]), bool)
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    differs[:1] = True
    starts = np.flatnonzero(differs)
    return Runs(starts, np.repeat(np.arange(len(starts)), np.diff(starts, append=len(differs))))


def rows_in_order(owners: Ints, numbers: Ints) -> Ints:
    """Return the rows sorted by owner (from 0) and then by number."""
    counts = np.bincount(owners)
    if ((numbers >= 0) & (numbers < counts[owners])).all():
        rows = np.full(len(owners), -1)
        rows[sums_before(counts)[owners] + numbers] = np.arange(len(owners))
        if (rows >= 0).all():
            return rows
    return _by_cells(owners, numbers, len(counts))


def _by_cells(owners: Ints, numbers: Ints, count: int) -> Ints:
    """Sort by one cell per possible number of an owner; by lexsort if cells are too many or
    numbers repeat.
    """
    spans = np.zeros(count, np.int64)
    np.maximum.at(spans, owners, numbers.astype(np.int64) + 1)
    if (numbers >= 0).all() and spans.sum() <= _CELLS_PER_ROW * len(owners):
        cells = np.full(spans.sum(), -1)
        cells[sums_before(spans)[owners] + numbers] = np.arange(len(owners))
        rows: Ints = cells[cells >= 0]
        if len(rows) == len(owners):
            return rows
    return np.lexsort((numbers, owners))


def smallest_in_component(ranks: Ints, ones: Ints, others: Ints) -> Ints:
    """Return the smallest rank in each element's component; edges connect `ones` with `others`.

    Source: disjoint sets with path halving (Tarjan and van Leeuwen, 1984), linked towards the smaller rank.
    """
    smallest = np.array(ranks, dtype=np.int64)
    edges = (smallest.copy(), np.asarray(ones, np.int64), np.asarray(others, np.int64))
    run_loop(_unite, len(smallest) + len(ones), edges, (np.arange(len(smallest)), smallest))
    return smallest


def _unite(ranks: Ints, ones: Ints, others: Ints, parent: Ints, smallest: Ints) -> None:
    """The compiled loop (see run_loop)."""
    for edge in range(len(ones)):
        a, b = ones[edge], others[edge]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if ranks[a] < ranks[b]:
            parent[b] = a
        else:
            parent[a] = b
    for element in range(len(ranks)):
        a = element
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        smallest[element] = ranks[a]


# Limits on the tasks and task inputs of a topology, counted by vertices before any row is created.
#
# Flink holds an object of one or two kilobytes for each task.


MOST_TASKS = 1 << 26
"""Limit per topology; each vertex counts as its parallelism times (1 + the number of its inputs)."""

TASKS_OF_A_VERTEX = 4_096
"""A topology of many vertices may have this many for each of them."""

TOO_MANY_TASKS = str(ErrorKind.TOO_MANY_TASKS)
ALLOWED_TASKS = (
    f"at most {MOST_TASKS:,} tasks and inputs of tasks in a topology, "
    f"or {TASKS_OF_A_VERTEX:,} for each vertex"
)
HINT_TASKS = "lower the parallelism, or plan with --until job_graph, which has no tasks"

AROUND_FOUND = (": found ", f"; allowed: {ALLOWED_TASKS}; hint: {HINT_TASKS}")
"""The text of the message before and after the found value (see TopologyError.message)."""

OF_ALL = " tasks and inputs of tasks in the topology, most of them in this vertex: parallelism "
INPUTS_EACH = ", inputs of each task "
"""The text of the message after the total of tasks and inputs, and after the largest vertex's parallelism."""
