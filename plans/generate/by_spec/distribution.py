"""A value of a spec file that is drawn anew for each topology or operator."""

from collections.abc import Sequence
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple


class Distribution(NamedTuple):
    """`values` with relative `weights`; empty weights: all are equally likely."""

    values: Sequence[Any]
    weights: Sequence[float] = ()

    def draw(self, random: Random) -> Any:
        """One of the values."""
        if len(self.values) == 1:
            return self.values[0]
        if self.weights:
            return random.choices(self.values, cum_weights=list(accumulate(self.weights)))[0]
        return self.values[random.randrange(len(self.values))]


def distribution_of(given: Any) -> Distribution:
    """A Distribution as a spec file writes it.

    One value; a list of values, all equally likely; an object of values to weights; or `{min: 2, max: 5}`,
    whole numbers that are all equally likely. Raises ValueError.
    """
    if isinstance(given, Distribution):
        return given
    if isinstance(given, list):
        if not given or len(set(map(repr, given))) < len(given):
            raise ValueError("allowed a list of different values, at least one")
        return Distribution(given)
    if not isinstance(given, dict):
        return Distribution([given])
    if set(given) == {"min", "max"}:
        low, high = given["min"], given["max"]
        if type(low) is not int or type(high) is not int or low > high:
            raise ValueError("allowed whole numbers as min and max, min not above max")
        return Distribution(range(low, high + 1))
    weights = list(given.values())
    numbers = all(type(one) in (int, float) and 0 <= one < float("inf") for one in weights)
    if not numbers or not sum(weights):
        raise ValueError("allowed an object of values to weights, 0 or more and not all 0, or of min and max")
    kept = {value: weight for value, weight in given.items() if weight}
    return Distribution(list(kept), list(kept.values()))
