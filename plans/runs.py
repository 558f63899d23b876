"""Runs: neighbouring rows that agree in some columns. A tenth of the cost of windows."""

from typing import NamedTuple

import numpy as np

from plans.arrow_walks import Ints


class Runs(NamedTuple):
    """Where runs start, and the run of each row."""

    starts: Ints
    of_row: Ints

    def numbers(self) -> Ints:
        """How many rows of its run stand before each row."""
        return np.arange(len(self.of_row), dtype=np.int64) - self.starts[self.of_row]

    def lengths(self) -> Ints:
        """How many rows each row's run has."""
        return np.diff(self.starts, append=len(self.of_row))[self.of_row]


def runs(*columns: Ints) -> Runs:
    """The runs of rows that agree in all columns."""
    differs = np.zeros(len(columns[0]), bool)
    for column in columns:
        differs[1:] |= column[1:] != column[:-1]
    differs[:1] = True
    starts = np.flatnonzero(differs)
    return Runs(starts, np.repeat(np.arange(len(starts)), np.diff(starts, append=len(differs))))
