"""Which topologies two sides share, and which of them have to be looked at."""

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from penstock.engine.diff.rows_of_slices import SLICE
from penstock.engine.diff.side import Side
from penstock.plans.tables.column_types import TOPOLOGY

TOPOLOGIES_AT_ONCE = 100_000
"""About how many names of a side are in memory at a time."""
OPERATORS_OF_A_SLICE = 50_000
"""About how many operators of both sides are compared at a time; a topology is never divided."""


class Part(NamedTuple):
    """Topologies to compare, by name, in slices that fit in memory.

    `pairs`: old_id, new_id, name and slice, one of the ids null where it is on one side only. `equal`: how
    many others of this part have been found equal.
    """

    pairs: pl.DataFrame
    slices: int
    equal: int


def pair_topologies(old: Side, new: Side, in_both: int = 0) -> Iterator[Part]:
    """All topologies that are not known to be equal, in parts of about TOPOLOGIES_AT_ONCE.

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
        pairs = _in_slices(old, new, candidates.sort("name"))
        yield Part(pairs, pairs[SLICE].n_unique(), len(paired) - len(pairs))


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


def _in_slices(old: Side, new: Side, candidates: pl.DataFrame) -> pl.DataFrame:
    """With the slice of each, as many operators in each as fit; without candidates, nothing is read."""
    if candidates.is_empty():
        return candidates.with_columns(pl.lit(0, pl.Int64).alias(SLICE))
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
    numbered = counted.select("old_id", "new_id", "name", rows.alias(SLICE).cum_sum() // OPERATORS_OF_A_SLICE)
    # A topology larger than a slice leaves numbers out.
    return numbered.with_columns(pl.col(SLICE).rle_id().cast(pl.Int64)).collect(engine="streaming")
