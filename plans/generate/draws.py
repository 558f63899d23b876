"""Random draws that depend on the seed and the row's keys alone, never on partitions or evaluation order."""

from collections.abc import Callable, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

Draw = Callable[..., Column]
"""draw(salt, *keys): a double in [0, 1), the same for the same seed, salt and keys (integers)."""


def draws(seed: int) -> Draw:
    """The Draw of a seed: the upper 52 bits of xxhash64(seed, keys, salt)."""

    def draw(salt: str, *keys: Column) -> Column:
        return F.shiftrightunsigned(hash_of(seed, salt, *keys), 12).cast("double") * F.lit(2.0**-52)

    return draw


def hash_of(seed: int, salt: str, *keys: Column) -> Column:
    """All 64 bits behind a draw."""
    return F.xxhash64(F.lit(seed).cast("long"), *(key.cast("long") for key in keys), F.lit(salt))


def below(draw: Column, bound: Column) -> Column:
    """The draw as an integer in [0, bound)."""
    return F.floor(draw * bound).cast("int")


def pick(draw: Column, values: Sequence[str | int], share: float | Column = 1.0) -> Column:
    """One of `values`, all equally likely, where the draw is below `share`; beyond it nothing sensible."""
    position = F.least(below(draw / share, F.lit(len(values))) + 1, F.lit(len(values)))
    return F.element_at(F.array(*(F.lit(v) for v in values)), position)


def pick_weighted(draw: Column, weights: Sequence[tuple[str, float]]) -> Column:
    """One of the values of (value, weight); weights are relative to their sum."""
    total = sum(weight for _, weight in weights)
    (value, bound), *rest = weights
    picked = F.when(draw < bound / total, value)
    for value, weight in rest[:-1]:
        bound += weight
        picked = picked.when(draw < bound / total, value)
    return picked.otherwise(rest[-1][0])
