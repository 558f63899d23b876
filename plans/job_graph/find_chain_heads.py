"""Heads of chains by pointer doubling over arrays; both planners call it."""

import numpy as np
import pyarrow as pa

from plans.arrow_walks import Flags, Ints, topologies_of
from plans.tables.column_types import BOOL, INT, LONG, TOPOLOGY

_NONE = -1
HEADS = pa.schema(
    [
        pa.field(TOPOLOGY, LONG, False),
        pa.field("node", INT, False),
        pa.field("head", INT, False),
        pa.field("distance", INT, False),
        pa.field("head_is_legacy_source", BOOL, False),
    ]
)


def find_heads(rows: pa.Table) -> pa.RecordBatch:
    """The kernel: rows of whole topologies sorted by node, each one pointing at its parent."""
    topologies = topologies_of(rows)
    nodes, parents = rows.column("node").to_numpy(), rows.column("parent").to_numpy()
    yielding = np.asarray(rows.column("yielding"))
    behind_legacy = np.asarray(rows.column("behind_legacy_source"))
    above = _positions_or_none(topologies, nodes, parents)
    if not (yielding.any() and behind_legacy.any()):
        return _heads(topologies, nodes, parents, above, behind_legacy)

    first = _first_of_chain(above)
    passed = _sum_to_first(above, yielding.astype(np.int64))
    below_cut = behind_legacy[first] & (passed >= 1)
    is_cut = below_cut & yielding & (passed == 1)
    above[(above >= 0) & is_cut[above]] = _NONE
    found = _heads(topologies, nodes, parents, above, behind_legacy, below_cut)
    return found.filter(pa.array(~is_cut))


def _heads(
    topologies: Ints,
    nodes: Ints,
    parents: Ints,
    above: Ints,
    behind_legacy: Flags,
    below_cut: Flags | None = None,
) -> pa.RecordBatch:
    """HEADS of all rows; `above` is where each row's parent stands, if it has a row."""
    first = _first_of_chain(above)
    legacy = behind_legacy[first]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(topologies),
            pa.array(nodes, pa.int32()),
            pa.array(parents[first], pa.int32()),
            pa.array(_sum_to_first(above, np.ones(len(nodes), np.int64)), pa.int32()),
            pa.array(legacy if below_cut is None else legacy & ~below_cut),
        ],
        names=HEADS.names,
    )


def _positions_or_none(topologies: Ints, nodes: Ints, wanted: Ints) -> Ints:
    """Where each wanted node of the same topology stands, rows being sorted by topology and node."""
    starts = np.concatenate(([True], topologies[1:] != topologies[:-1]))
    keys = np.cumsum(starts) << 32
    found = np.minimum(np.searchsorted(keys | nodes, keys | wanted), len(nodes) - 1)
    return np.where((keys | nodes)[found] == (keys | wanted), found, _NONE)


def _first_of_chain(above: Ints) -> Ints:
    """The topmost row that each row's pointers lead to; itself where it points nowhere."""
    reached = np.where(above >= 0, above, np.arange(len(above)))
    while True:
        further = reached[reached]
        if np.array_equal(further, reached):
            return reached
        reached = further


def _sum_to_first(above: Ints, values: Ints) -> Ints:
    """Of each row, the sum of its value and those of all rows above it."""
    total, pointer = values.copy(), above.copy()
    open_rows = np.flatnonzero(pointer >= 0)
    while len(open_rows):
        targets = pointer[open_rows]
        total[open_rows] += total[targets]
        pointer[open_rows] = pointer[targets]
        open_rows = open_rows[pointer[open_rows] >= 0]
    return total
