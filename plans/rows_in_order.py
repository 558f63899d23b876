"""Rows ordered by an owner and a number, without a sort where numbers are close together."""

import numpy as np

from plans.arrow_walks import Ints
from plans.counts import sums_before


def rows_in_order(owners: Ints, numbers: Ints) -> Ints:
    """The rows by owner (from 0) and then by number."""
    counts = np.bincount(owners)
    if ((numbers >= 0) & (numbers < counts[owners])).all():
        rows = np.full(len(owners), -1)
        rows[sums_before(counts)[owners] + numbers] = np.arange(len(owners))
        if (rows >= 0).all():
            return rows
    return _by_cells(owners, numbers, len(counts))


_CELLS_A_ROW = 8


def _by_cells(owners: Ints, numbers: Ints, count: int) -> Ints:
    """A cell for each number that an owner may have; a sort where that takes too many, or numbers repeat."""
    spans = np.zeros(count, np.int64)
    np.maximum.at(spans, owners, numbers.astype(np.int64) + 1)
    if (numbers >= 0).all() and spans.sum() <= _CELLS_A_ROW * len(owners):
        cells = np.full(spans.sum(), -1)
        cells[sums_before(spans)[owners] + numbers] = np.arange(len(owners))
        rows: Ints = cells[cells >= 0]
        if len(rows) == len(owners):
            return rows
    return np.lexsort((numbers, owners))
