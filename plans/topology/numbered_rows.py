"""Facts that follow from the ids and inputs of a large topology's transformations alone, over arrays.

`ids` are in order, one that occurs twice is there twice. `without_id` counts the transformations that have
none, which come before all others, as in the line of a topology that comes in tables.
"""

from bisect import bisect_left
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.plans.topology.find_cycle import find_cycle_in_rows
from penstock.plans.topology.validate_transformations import MOST_SHOWN, PositionOf

Ids = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


def position_of(ids: Ids, without_id: int) -> PositionOf:
    """A function: id to the position of the first transformation that has it, from 1; None if none has."""
    sought: Any = ids
    size = len(ids)

    def position(number: int) -> int | None:
        place = bisect_left(sought, number)
        return place + without_id + 1 if place < size and sought[place] == number else None

    return position


def position_of_counted(size: int) -> PositionOf:
    """position_of where ids are 1..size."""
    return lambda number: number if 1 <= number <= size else None


def misplaced(ids: Ids, without_id: int) -> Flags:
    """Which ids are not the position of their transformation, or occur twice."""
    wrong: Flags = ids != np.arange(without_id + 1, without_id + len(ids) + 1)
    twice = ids[1:] == ids[:-1]
    wrong[1:] |= twice
    wrong[:-1] |= twice
    return wrong


def known(ids: Ids, read: Ids) -> Flags:
    """Which of the ids in `read` belong to a transformation."""
    if not len(ids):
        return np.zeros(len(read), np.bool_)
    is_known: Flags = ids[np.minimum(np.searchsorted(ids, read), len(ids) - 1)] == read
    return is_known


def cycle_of(ids: Ids, starts: npt.NDArray[np.int64], read: Ids) -> list[int]:
    """The ids along the cycle that find_cycle finds, as many as its error shows; empty if there is none.

    The transformation at `place` reads `read[starts[place]:starts[place + 1]]`; transformations with the same
    id count as one. The search is skipped unless a transformation reads itself or a later one.
    """
    is_known = known(ids, read)
    owners, read = np.repeat(ids, np.diff(starts))[is_known], read[is_known]
    if not (read >= owners).any():
        return []
    own = np.unique(ids)
    lengths = np.bincount(np.searchsorted(own, owners), minlength=len(own))
    ranks = (np.searchsorted(own, read) + 1).astype(np.int32)
    cycle = find_cycle_in_rows(np.append(0, np.cumsum(lengths)), ranks, MOST_SHOWN + 1)
    return [int(own[rank - 1]) for rank in cycle]
