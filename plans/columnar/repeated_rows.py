"""Rows that repeat each row of another table several times."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from plans.arrow_walks import Ints
from plans.counts import sums_before

Int32s = npt.NDArray[np.int32]


class RepeatedRows(NamedTuple):
    """The row that each row repeats, and its number among the repetitions."""

    of: Ints
    numbers: Int32s

    def taken(self, columns: pl.DataFrame) -> dict[str, npt.NDArray[np.generic]]:
        """The columns of the repeated rows."""
        return {column.name: column.to_numpy()[self.of] for column in columns}


def repeated_rows(counts: pl.Series) -> RepeatedRows:
    """Each row as many times as `counts` says."""
    lengths = counts.to_numpy()
    of = np.repeat(np.arange(len(lengths)), lengths)
    first = sums_before(lengths.astype(np.int64))
    return RepeatedRows(of, (np.arange(len(of)) - first[of]).astype(np.int32))
