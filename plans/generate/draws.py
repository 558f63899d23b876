"""Random draws that depend on the seed and the row's keys alone, never on how a fleet is divided."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np
import polars as pl

from plans.generate.xxhash64 import hash_longs, hash_text
from plans.topology.columnar.topology_id import XXHASH64_SEED

Draw = Callable[..., pl.Expr]
"""draw(salt, *keys): a double in [0, 1), the same for the same seed, salt and keys (integers)."""


def draws(seed: int) -> Draw:
    """The Draw of a seed: the upper 52 bits of Spark's xxhash64(seed, keys, salt)."""

    def draw(salt: str, *keys: pl.Expr) -> pl.Expr:
        hashed = _hashed(seed, salt, keys, lambda found: (found >> np.uint64(12)) * 2.0**-52, pl.Float64)
        return hashed

    return draw


def hexadecimal(seed: int, salt: str, *keys: pl.Expr) -> pl.Expr:
    """All 64 bits of the hash that a draw is made from, as 16 lower-case hex digits."""

    def digits(found: np.ndarray) -> np.ndarray:
        return np.frombuffer(found.astype(">u8").tobytes().hex().encode(), "S16").astype("U16")

    return _hashed(seed, salt, keys, digits, pl.String)


def below(draw: pl.Expr, bound: pl.Expr | int) -> pl.Expr:
    """The draw as an integer in [0, bound)."""
    return (draw * bound).floor().cast(pl.Int32)


def pick(draw: pl.Expr, values: Sequence[str | int], share: float | pl.Expr = 1.0) -> pl.Expr:
    """One of `values`, all equally likely, where the draw is below `share`; beyond it nothing sensible."""
    position = below(draw / share, len(values)).clip(upper_bound=len(values) - 1)
    kind = pl.Int32 if isinstance(values[0], int) else pl.String
    return position.replace_strict(list(range(len(values))), list(values), return_dtype=kind)


def pick_weighted(draw: pl.Expr, weights: Sequence[tuple[str, float]]) -> pl.Expr:
    """One of the values of (value, weight); weights are relative to their sum."""
    total = sum(weight for _, weight in weights)
    bounds = accumulate(weight for _, weight in weights)
    *bounded, (rest, _) = [(str(value), bound) for (value, _), bound in zip(weights, bounds, strict=True)]
    picked = pl.lit(rest)
    for value, bound in reversed(bounded):
        picked = pl.when(draw < bound / total).then(pl.lit(value)).otherwise(picked)
    return picked


def _hashed(
    seed: int,
    salt: str,
    keys: Sequence[pl.Expr],
    of_hash: Callable[[np.ndarray], np.ndarray],
    kind: type[pl.DataType],
) -> pl.Expr:
    """What `of_hash` makes of xxhash64(seed, keys, salt); of a key that is null, nothing sensible."""

    def hashed(columns: Sequence[pl.Series]) -> pl.Series:
        found = hash_longs(np.array([seed], np.int64), np.array([XXHASH64_SEED], np.uint64))
        for column in columns:
            found = hash_longs(column.to_numpy(), found)
        return pl.Series(of_hash(hash_text(salt.encode(), found)), dtype=kind)

    return pl.map_batches([key.cast(pl.Int64).fill_null(0) for key in keys], hashed, return_dtype=kind)
