"""Which transformations are stream nodes."""

import numpy as np
import polars as pl

from penstock.plans.arrow_walks import Ints
from penstock.plans.vocabulary import SOURCE_KINDS, VIRTUAL_KINDS


def is_kind(*kinds: str) -> pl.Expr:
    """The kind is one of `kinds`. Comparing with each of a few takes a fraction of the time of is_in."""
    return pl.any_horizontal(pl.col("kind") == kind for kind in kinds)


_IS_PHYSICAL, _IS_SOURCE = ~is_kind(*VIRTUAL_KINDS), is_kind(*SOURCE_KINDS)


def node_rows(transformations: pl.DataFrame, resolved_inputs: pl.DataFrame) -> Ints:
    """The rows of the physical transformations, without sources that no transformation reads."""
    physical, source = (c.to_numpy() for c in transformations.select(p=_IS_PHYSICAL, s=_IS_SOURCE))
    read = np.zeros(len(source), bool)
    read[resolved_inputs["source_row"].to_numpy()] = True
    return np.flatnonzero(physical & (read | ~source))
