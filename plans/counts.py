"""Counts and sums along arrays, for the walks of both planners."""

import numpy as np

from plans.arrow_walks import Ints


def sums_before(values: Ints) -> Ints:
    """For each element the sum of the elements before it."""
    return np.cumsum(values) - values


def counts_up(lengths: Ints) -> Ints:
    """0, 1, … for each of `lengths` in turn."""
    return counts_from(np.zeros_like(lengths), lengths)


def counts_from(starts: Ints, lengths: Ints) -> Ints:
    """`lengths` consecutive numbers from each of `starts`, concatenated."""
    numbers: Ints = np.repeat(starts - sums_before(lengths), lengths)
    numbers += np.arange(len(numbers))
    return numbers


def bounds_of(owners: Ints, count: int) -> Ints:
    """Elements whose sorted `owners` are i lie between bounds i and i + 1."""
    return np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=count))))
