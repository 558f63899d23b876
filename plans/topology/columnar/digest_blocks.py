"""Digests of blocks of transformations, from which fingerprints are computed."""

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.planners.plan_in_parts import side_by_side
from penstock.plans.topology.columnar.canonical_texts import canonical_texts
from penstock.plans.topology.columnar.normalized_tables import to_nullable_arrow
from penstock.plans.topology.columnar.suspicious_transformation import suspicious_transformation
from penstock.plans.topology.fingerprint import block_bounds, text_digests

_ROWS_AT_ONCE = 2**16


class Blocks(NamedTuple):
    """The bounds of each topology's blocks among all blocks; and the digest of each block.

    The digest is "" where a row of the block may be wrong.
    """

    first: Ints
    end: Ints
    digests: list[str]


def digest_blocks(rows: pl.DataFrame, order: Ints | None, starts: Ints) -> Blocks:
    """The blocks of topologies that begin at `starts`, where rows are taken in `order`, if one is given.

    In: TRANSFORMATIONS columns, defaults filled in. Only a few blocks' texts are in memory at a
    time: the first touch of new memory costs more than making the texts.
    """
    first, end, bounds = block_bounds(starts, np.diff(starts, append=len(rows)))
    cuts = np.unique(np.searchsorted(bounds, np.arange(0, len(rows) + _ROWS_AT_ONCE, _ROWS_AT_ONCE)))
    pieces = [bounds[a : b + 1] for a, b in pairwise(np.minimum(cuts, len(bounds) - 1)) if a < b]
    digests = side_by_side(partial(_digests, rows, order), pieces)
    return Blocks(first, end, [digest for of_piece in digests for digest in of_piece])


def _digests(rows: pl.DataFrame, order: Ints | None, bounds: Ints) -> list[str]:
    """The digests of the blocks between neighbouring bounds."""
    start, end = bounds[0], bounds[-1]
    taken = rows[order[start:end]] if order is not None else rows.slice(start, end - start)
    suspicious = suspicious_transformation(taken)
    right = taken if not suspicious.any() else taken.filter(~suspicious)
    columns = to_nullable_arrow(right, "transformations").combine_chunks()
    wrong = np.append(0, np.cumsum(suspicious.to_numpy()))[bounds - start]
    digests = text_digests(
        canonical_texts(columns.to_struct_array().combine_chunks()), bounds - start - wrong
    )
    return [digest if a == b else "" for digest, (a, b) in zip(digests, pairwise(wrong), strict=True)]
