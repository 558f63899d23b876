"""Flag the rows of a transformations table that may be wrong."""

from collections.abc import Iterable
from functools import cache, reduce
from operator import and_, or_

import polars as pl

from penstock.plans.topology.operator_rules import (
    INPUT_COUNTS,
    MAX_PARALLELISM,
    OPERATOR_SCOPE,
    RESOURCE_RULES,
    SLOT_SCOPE,
)
from penstock.plans.vocabulary import (
    VIRTUAL_KINDS,
    WRITTEN_KINDS,
    ChainingStrategy,
    Kind,
    Partitioner,
    StreamExchangeMode,
)

# Physical kinds, and columns that only operators have.


PHYSICAL = [str(kind) for kind in WRITTEN_KINDS if kind not in VIRTUAL_KINDS]
OPERATOR_COLUMNS = (
    "parallelism",
    "max_parallelism",
    "uid",
    "uid_hash",
    "slot_sharing_group",
    "co_location_group",
    "buffer_timeout",
    "chaining",
    "min_resources",
    "preferred_resources",
)
"""Null on virtual kinds."""


_CODES = {str(kind): code for code, kind in enumerate(WRITTEN_KINDS)}
"""Kinds as numbers, whose comparison costs a fraction of a comparison of strings."""


def suspicious_transformation(rows: pl.DataFrame) -> pl.Series:
    """Return True for every row of TRANSFORMATIONS that `validate_transformations` would refuse by itself.

    A row it calls right is right if the ids of its topology are 1..n. A row whose map repeats a key is
    suspicious, too, as is a sink that expands.
    """
    coded = rows.with_columns(pl.col("kind").cast(pl.Enum(list(_CODES)), strict=False).to_physical())
    return coded.select(~_holds()).to_series()


@cache
def _holds() -> pl.Expr:
    """True for valid rows; kinds are their codes, null for unknown ones."""
    kind = pl.col("kind")
    physical = kind.is_in([_CODES[k] for k in PHYSICAL])
    weights, slot_scope = pl.col("managed_memory"), pl.col("slot_scope").list
    rules = [
        kind.is_not_null(),
        pl.col("sink_topology").is_null(),
        pl.col("details").is_null(),
        _number_of_inputs(),
        _inputs_are_earlier(),
        physical | reduce(and_, (pl.col(c).is_null() for c in OPERATOR_COLUMNS)),
        physical | ((weights.map.len() == 0) & (slot_scope.len() == 0)),
        _unset_or("parallelism", pl.col("parallelism") >= 1),
        _unset_or("max_parallelism", pl.col("max_parallelism").is_between(1, MAX_PARALLELISM)),
        _unset_or("uid_hash", pl.col("uid_hash").str.contains(r"\A[0-9A-Fa-f]{32}\z")),
        _unset_or("buffer_timeout", pl.col("buffer_timeout") >= -1),
        _unset_or("chaining", pl.col("chaining").is_in([str(c) for c in ChainingStrategy])),
        _managed_memory(),
        _count(slot_scope.count_matches(str(use_case)) for use_case in SLOT_SCOPE) == slot_scope.len(),
        _resources(),
        _only_on(Kind.PARTITION, "partitioner", pl.col("partitioner").is_in([str(p) for p in Partitioner])),
        _unset_or("exchange_mode", pl.col("exchange_mode").is_in([str(m) for m in StreamExchangeMode])),
        (kind == _CODES[Kind.PARTITION]) | pl.col("exchange_mode").is_null(),
        _only_on(Kind.SIDE_OUTPUT, "tag", pl.col("tag") != ""),
        _only_on(Kind.SELECT, "names", ~pl.col("names").list.contains(pl.lit(None, pl.String))),
    ]
    return reduce(and_, rules).fill_null(False)


def _unset_or(name: str, right: pl.Expr) -> pl.Expr:
    return pl.col(name).is_null() | right


def _only_on(kind: Kind, name: str, right: pl.Expr) -> pl.Expr:
    """Set and valid on its kind, null on others."""
    is_set = pl.col(name).is_not_null()
    return ((pl.col("kind") == _CODES[kind]) == is_set) & (~is_set | right)


def _number_of_inputs() -> pl.Expr:
    kinds_by_count: dict[tuple[int, int], list[int]] = {}
    for kind, count in INPUT_COUNTS.items():
        kinds_by_count.setdefault(count, []).append(_CODES[kind])
    size = pl.col("inputs").list.len()
    return reduce(
        or_,
        (pl.col("kind").is_in(kinds) & size.is_between(*count) for count, kinds in kinds_by_count.items()),
    )


def _inputs_are_earlier() -> pl.Expr:
    inputs = pl.col("inputs").list
    in_range = (inputs.min() >= 1) & (inputs.max() < pl.col("id"))
    return ~inputs.contains(pl.lit(None, pl.Int32)) & ((inputs.len() == 0) | in_range)


def _managed_memory() -> pl.Expr:
    weights = pl.col("managed_memory").map
    right = _count((weights.get(str(use_case)) >= 1).fill_null(False) for use_case in OPERATOR_SCOPE)
    return right == weights.len()


def _count(numbers: Iterable[pl.Expr]) -> pl.Expr:
    return reduce(lambda a, b: a + b, (number.cast(pl.UInt32) for number in numbers))


def _resources() -> pl.Expr:
    low, high = (pl.col(f"{which}_resources") for which in ("min", "preferred"))
    fields = ((low.struct.field(key), high.struct.field(key)) for key in RESOURCE_RULES)
    ordered = reduce(and_, ((least <= most) & (least >= 0) for least, most in fields))
    cores_low, cores_high = low.struct.field("cpu_cores"), high.struct.field("cpu_cores")
    return (low.is_null() & high.is_null()) | (ordered & (cores_low > 0) & (cores_high < 1e9))
