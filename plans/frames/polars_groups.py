"""Groups of rows over arrays, and rows that repeat others."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.compiled import run_loop
from penstock.plans.frames.counts import sums_before
from penstock.plans.frames.polars_frames import Places
from penstock.plans.tables.column_types import TOPOLOGY


def groups(frame: pl.DataFrame, *keys: str) -> Ints:
    """Per row the first row of its topology with equal `keys` (null equals null)."""
    first = frame.with_row_index("_row").select(pl.col("_row").first().over(TOPOLOGY, *keys))
    return ints(first, "_row")


def ints(frame: pl.DataFrame, column: str) -> Ints:
    """A column of integers without nulls as an array."""
    return frame[column].cast(pl.Int64).to_numpy()


def first_of_equal(keys: Ints) -> Ints:
    """Per row the first row with the same key."""
    rows = np.arange(len(keys))
    in_order = np.sort(keys)
    if (in_order[1:] != in_order[:-1]).all():
        return rows
    by_key = np.argsort(keys, kind="stable")
    starts_new = np.append(True, keys[by_key][1:] != keys[by_key][:-1])
    first = np.empty_like(rows)
    first[by_key] = by_key[np.flatnonzero(starts_new)][np.cumsum(starts_new) - 1]
    return first


def first_rows(numbers: Ints) -> Ints:
    """Per row the first row with the same number, of numbers that are not much above that of rows."""
    first = np.empty(int(numbers.max(initial=-1)) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first[numbers]


def number_in_turn(first: Ints, starts: Ints) -> Ints:
    """Per row the number of its group among those that begin in the same stretch of rows.

    `first` is the first row of each row's group, and `starts` are those of stretches, which no group leaves.
    """
    counted = np.cumsum(first == np.arange(len(first)))
    before = np.repeat(counted[starts] - 1, np.diff(starts, append=len(first)))
    numbers: Ints = counted[first] - 1 - before
    return numbers


def count_in_groups(of_rows: Places, groups: int) -> Places:
    """Per row how many rows before it are in its group; `of_rows` numbers the groups of rows from 0."""
    numbers, seen = np.zeros(len(of_rows), np.int32), np.zeros(groups, np.int32)
    run_loop(_count, len(of_rows), (of_rows,), (numbers, seen))
    return numbers


def _count(of_rows: Places, numbers: Places, seen: Places) -> None:
    """The loop (see run_loop)."""
    for row in range(len(of_rows)):
        group = of_rows[row]
        numbers[row] = seen[group]
        seen[group] += 1


Int32s = npt.NDArray[np.int32]


class RepeatedRows(NamedTuple):
    """The row that each row repeats, and its number among the repetitions."""

    of: Ints
    numbers: Int32s

    def taken(self, columns: pl.DataFrame) -> dict[str, npt.NDArray[np.generic]]:
        """The columns of the repeated rows."""
        return {column.name: column.to_numpy()[self.of] for column in columns}


def repeated_rows(counts: pl.Series) -> RepeatedRows:
    """Each row repeated `counts` times."""
    lengths = counts.to_numpy()
    of = np.repeat(np.arange(len(lengths)), lengths)
    first = sums_before(lengths.astype(np.int64))
    return RepeatedRows(of, (np.arange(len(of)) - first[of]).astype(np.int32))
