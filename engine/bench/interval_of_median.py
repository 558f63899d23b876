"""How far from the true median the median of a few measurements may lie."""

from collections.abc import Iterable
from math import comb
from typing import NamedTuple

WANTED = 0.95


class Interval(NamedTuple):
    """`confidence`: the share of such intervals that hold the true median, 0 to 1."""

    median: float
    low: float
    high: float
    confidence: float


def interval_of_median(values: Iterable[float]) -> Interval | None:
    """The narrowest interval between order statistics that holds the median with WANTED confidence.

    Fewer than six values cannot give that much: theirs is from the least to the largest, with the confidence
    that this has (0.75 for three, 0 for one). None without values. It assumes nothing of how the values are
    distributed, only that they are independent.

    Source: Le Boudec, Performance Evaluation of Computer and Communication Systems (EPFL Press, 2010),
    theorem 2.1.
    """
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return None
    middle = count // 2
    median = ordered[middle] if count % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    left_out = 0  # values on either side that lie outside of the interval
    while left_out + 1 < (count + 1) // 2 and _confidence(count, left_out + 1) >= WANTED:
        left_out += 1
    return Interval(
        median, ordered[left_out], ordered[count - 1 - left_out], round(_confidence(count, left_out), 4)
    )


def _confidence(count: int, left_out: int) -> float:
    """That of the interval without that many values on either side: a binomial distribution's middle."""
    return 1 - 2 * sum(comb(count, below) for below in range(left_out + 1)) / 2**count if count > 1 else 0.0
