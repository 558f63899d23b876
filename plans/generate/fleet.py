"""Drawn fleets: their spec, their random numbers and their topologies."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import polars as pl

from penstock.plans.errors import ConfigurationError
from penstock.plans.topology.columnar.topology_tables import XXHASH64_SEED
from penstock.plans.topology.operator_rules import MAX_PARALLELISM
from penstock.plans.vocabulary import ManagedMemoryUseCase

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_LONGEST = 31
"""Bytes of a text: longer ones are hashed in another way, which no salt needs."""


def hash_longs(values: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """The hashes of 64-bit integers, each with its own seed."""
    words = np.ascontiguousarray(values).view(np.uint64)
    return _finished(_with_word(seeds + _PRIME_5 + np.uint64(8), words))


def hash_text(text: bytes, seeds: np.ndarray) -> np.ndarray:
    """The hashes of one text of at most 31 bytes with many seeds."""
    assert len(text) <= _LONGEST
    hashes = seeds + _PRIME_5 + np.uint64(len(text))
    place = 0
    while place + 8 <= len(text):
        word = np.frombuffer(text, "<u8", 1, place).astype(np.uint64)
        hashes, place = _with_word(hashes, word), place + 8
    if place + 4 <= len(text):
        half = np.frombuffer(text, "<u4", 1, place).astype(np.uint64)
        hashes, place = _rotated(hashes ^ half * _PRIME_1, 23) * _PRIME_2 + _PRIME_3, place + 4
    for byte in text[place:]:
        hashes = _rotated(hashes ^ np.array([byte], np.uint64) * _PRIME_5, 11) * _PRIME_1
    return _finished(hashes)


def _with_word(hashes: np.ndarray, words: np.ndarray) -> np.ndarray:
    return _rotated(hashes ^ _rotated(words * _PRIME_2, 31) * _PRIME_1, 27) * _PRIME_1 + _PRIME_4


def _rotated(values: np.ndarray, bits: int) -> np.ndarray:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))


def _finished(hashes: np.ndarray) -> np.ndarray:
    once = (hashes ^ (hashes >> np.uint64(33))) * _PRIME_2
    twice = (once ^ (once >> np.uint64(29))) * _PRIME_3
    finished: np.ndarray = twice ^ (twice >> np.uint64(32))
    return finished


Draw = Callable[..., pl.Expr]
"""draw(salt, *keys): a double in [0, 1), the same for the same seed, salt and keys (integers)."""


def draws(seed: int) -> Draw:
    """The Draw of a seed: the upper 52 bits of Spark's xxhash64(seed, keys, salt)."""

    def draw(salt: str, *keys: pl.Expr) -> pl.Expr:
        hashed = _hashed(seed, salt, keys, lambda hashes: (hashes >> np.uint64(12)) * 2.0**-52, pl.Float64)
        return hashed

    return draw


def hexadecimal(seed: int, salt: str, *keys: pl.Expr) -> pl.Expr:
    """All 64 bits of the hash that a draw is made from, as 16 lower-case hex digits."""

    def digits(hashes: np.ndarray) -> np.ndarray:
        return np.frombuffer(hashes.astype(">u8").tobytes().hex().encode(), "S16").astype("U16")

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
    convert: Callable[[np.ndarray], np.ndarray],
    kind: type[pl.DataType],
) -> pl.Expr:
    """xxhash64(seed, keys, salt), converted by `convert`; arbitrary if a key is null."""

    def hashed(columns: Sequence[pl.Series]) -> pl.Series:
        hashes = hash_longs(np.array([seed], np.int64), np.array([XXHASH64_SEED], np.uint64))
        for column in columns:
            hashes = hash_longs(column.to_numpy(), hashes)
        return pl.Series(convert(hash_text(salt.encode(), hashes)), dtype=kind)

    return pl.map_batches([key.cast(pl.Int64).fill_null(0) for key in keys], hashed, return_dtype=kind)


MAX_OPERATORS = 500_000_000
"""Ids are 32-bit integers, and some shapes spend more than one on an operator."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Parameters of a generated fleet; the same Spec gives the same tables on any cluster.

    `operators` is the size of one topology in physical operators, `width` how many operators stand side by
    side (its exact meaning depends on the shape). `parallelism` is every topology's default parallelism;
    `share_of_uids` the share of physical operators that have a uid. None leaves the choice to the shape.
    `with_refusals`: some topologies have options that Flink refuses.
    """

    operators: int
    topologies: int = 1
    seed: int = 0
    parallelism: int | None = None
    share_of_uids: float | None = None
    width: int | None = None
    with_refusals: bool = False

    def __post_init__(self) -> None:
        """Raise ConfigurationError for the first parameter that no shape can use."""
        _require("operators", self.operators, 2, MAX_OPERATORS)
        _require("topologies", self.topologies, 1, MAX_OPERATORS)
        _require("seed", self.seed, -(2**63), 2**63 - 1)
        if self.parallelism is not None:
            _require("parallelism", self.parallelism, 1, MAX_PARALLELISM)
        if self.share_of_uids is not None:
            _require("share_of_uids", self.share_of_uids, 0, 1)
        if self.width is not None:
            _require("width", self.width, 1, MAX_OPERATORS)


def _require(parameter: str, value: float, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigurationError(f"{parameter}: found {value}, allowed {low} to {high}")


INDEX, ID = "index", "id"
"""Which topology of the fleet a row is of, from 0, and the transformation's id."""

DEFAULT_PARALLELISM = 4

ROWS_OF_A_PART = 250_000
"""About how many rows are made at a time."""


_MANAGED_MEMORY = str(ManagedMemoryUseCase.OPERATOR)


class Fleet(NamedTuple):
    """The topologies of a shape and a Spec, by units that are numbered from 0; those of a topology adjoin.

    `rows` makes of a frame with the column `unit` one of the transformations of these units, in the order of
    topology and id: INDEX, ID and the columns of TRANSFORMATIONS that the shape sets. `settings` are columns
    of TOPOLOGIES over INDEX. `managed_memory`, `slot_scope` and `config` are the one value that is given, or
    null; `option` is the key of the value in `config`.
    """

    shape: str
    spec: Spec
    units: int
    rows_of_a_unit: int  #: at most
    rows: Callable[[pl.DataFrame], pl.DataFrame]
    settings: Mapping[str, pl.Expr]
    option: str = ""

    def key_of_map(self, column: str) -> str:
        """The one key of the maps in `config` or `managed_memory`."""
        return self.option if column == "config" else _MANAGED_MEMORY

    @property
    def units_of_a_part(self) -> int:
        """The number of units with about ROWS_OF_A_PART rows."""
        return max(1, ROWS_OF_A_PART // self.rows_of_a_unit)


def operators_of_units(operators: int) -> list[pl.Expr]:
    """INDEX and `operator` (from 0) where each topology has that many units, one for each operator."""
    unit = pl.col("unit")
    return [(unit // operators).alias(INDEX), (unit % operators).alias("operator")]


def default_parallelism(spec: Spec) -> dict[str, pl.Expr]:
    """The settings of shapes whose topologies all have the same parallelism."""
    return {"parallelism": pl.lit(spec.parallelism or DEFAULT_PARALLELISM)}


def numbered_uid(draw: Draw, spec: Spec) -> pl.Expr:
    """`op-<id>` for the Spec's share of operators, else null."""
    share = spec.share_of_uids or 0.0
    uid = pl.concat_str(pl.lit("op-"), pl.col(ID))
    return pl.when(draw("uid", pl.col(INDEX), pl.col(ID)) < share).then(uid)


def literal(text: object) -> pl.Expr:
    """A string as a value: polars takes strings for columns."""
    return pl.lit(str(text))
