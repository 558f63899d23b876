"""Which topologies two sides share, and which of them have to be looked at."""

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from engine.diff.side import Side
from plans.tables.column_types import TOPOLOGY

TOPOLOGIES_AT_ONCE = 100_000
"""About how many names of a side are in memory at a time."""
OPERATORS_OF_A_SLICE = 100_000
"""About how many operators of both sides are compared at a time; a topology is never divided."""


class Slice(NamedTuple):
    """Topologies to compare: old_id, new_id and name, one of the ids null where it is on one side only."""

    pairs: pl.DataFrame
    equal: int  #: topologies that have been found equal since the slice before


def pair_topologies(old: Side, new: Side, in_both: int = 0) -> Iterator[Slice]:
    """Slices of all topologies that are not known to be equal, each slice by name.

    Topologies are paired by name; if each side has only one, these two. They are known to be equal if their
    fingerprints are, and both sides were planned in the same way. `in_both`: how many equal topologies both
    sides have beside these.
    """
    counts = [int(side.topologies.select(pl.len()).collect().item()) for side in (old, new)]
    parts = max(1, -(-max(counts) // TOPOLOGIES_AT_ONCE))
    for part in range(parts):
        mine = (pl.col(TOPOLOGY) % parts + parts) % parts == part
        known = [side.topologies.filter(mine) if parts > 1 else side.topologies for side in (old, new)]
        left, right = pl.collect_all(known)
        paired = _alone(left, right) if counts == [1, 1] and not in_both else _paired(left, right)
        same = pl.lit(old.planned_as == new.planned_as) & (pl.col("fingerprint") == pl.col("fingerprint_new"))
        candidates = paired.filter(~same.fill_null(False)).select("old_id", "new_id", "name")
        yield from _slices(old, new, candidates.sort("name"), len(paired) - len(candidates))


def _paired(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    joined = left.rename({TOPOLOGY: "old_id"}).join(
        right.select("name", new_id=TOPOLOGY, fingerprint_new="fingerprint"),
        on="name",
        how="full",
        coalesce=True,
    )
    return joined.select("old_id", "new_id", "name", "fingerprint", "fingerprint_new")


def _alone(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "old_id": left[TOPOLOGY],
            "new_id": right[TOPOLOGY],
            "name": right["name"],
            "fingerprint": left["fingerprint"],
            "fingerprint_new": right["fingerprint"],
        }
    )


def _slices(old: Side, new: Side, candidates: pl.DataFrame, equal: int) -> Iterator[Slice]:
    if candidates.is_empty():
        yield Slice(candidates, equal)
        return
    sizes = []
    for side, key in ((old, "old_id"), (new, "new_id")):
        chosen = candidates.lazy().select(pl.col(key).alias(TOPOLOGY)).drop_nulls()
        size = side.operators.join(chosen, on=TOPOLOGY, how="semi").group_by(TOPOLOGY).len(f"{key}_rows")
        sizes.append(size.rename({TOPOLOGY: key}))
    counted = candidates.lazy()
    for size, key in zip(sizes, ("old_id", "new_id"), strict=True):
        counted = counted.join(size, on=key, how="left", maintain_order="left")
    rows = pl.lit(1, pl.Int64)
    for key in ("old_id", "new_id"):
        rows = rows + pl.col(f"{key}_rows").cast(pl.Int64).fill_null(0)
    numbered = counted.select("old_id", "new_id", "name", part=rows.cum_sum() // OPERATORS_OF_A_SLICE)
    for pairs in numbered.collect(engine="streaming").partition_by(
        "part", maintain_order=True, include_key=False
    ):
        yield Slice(pairs, equal)
        equal = 0
