"""Rows ordered by an owner and a number, without a sort where numbers count up."""

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
    return np.lexsort((numbers, owners))
