"""Groups: rows with equal keys, wherever they stand. Numbering them in arrays costs a third of windows."""

import numpy as np
import polars as pl

from plans.arrow_walks import Ints
from plans.columnar.frames import TOPOLOGY


def groups(frame: pl.DataFrame, *keys: str) -> Ints:
    """A number per row, equal for rows of one topology with equal `keys` (null equals null)."""
    first = frame.with_row_index("_row").select(pl.col("_row").first().over(TOPOLOGY, *keys))
    return ints(first, "_row")


def ints(frame: pl.DataFrame, column: str) -> Ints:
    """A column of integers without nulls as an array."""
    return frame[column].cast(pl.Int64).to_numpy()


def by_group(of_rows: Ints, places: Ints) -> tuple[Ints, Ints]:
    """Rows by group and then by place (32 bits, signed), and where in them each group starts."""
    rows = np.argsort(of_rows * (1 << 32) + places, kind="stable")
    ordered = of_rows[rows]
    return rows, np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(rows)])


def number_within(of_rows: Ints, places: Ints) -> tuple[Ints, Ints]:
    """Per row how many rows of its group have a smaller place, and the row of its group with the smallest."""
    rows, starts = by_group(of_rows, places)
    lengths = np.diff(np.append(starts, len(rows)))
    numbers, first = np.empty_like(rows), np.empty_like(rows)
    numbers[rows] = np.arange(len(rows)) - np.repeat(starts, lengths)
    first[rows] = np.repeat(rows[starts], lengths)
    return numbers, first


def number_groups(within: Ints, numbers: Ints, first: Ints, places: Ints) -> Ints:
    """Per row the number of its group among those of the same outer group, in the order of their first rows.

    `within` is the outer group of each row; `numbers` and `first` come from number_within.
    """
    heads = np.flatnonzero(numbers == 0)
    of_groups = np.zeros_like(numbers)
    of_groups[heads], _ = number_within(within[heads], places[heads])
    return of_groups[first]
