"""Which topologies of given tables are right in every row, and their fingerprints."""

from collections.abc import Collection

import numpy as np
import polars as pl

from penstock.plans.columnar.groups import ints
from penstock.plans.counts import runs
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.canonical_headers import canonical_headers
from penstock.plans.topology.columnar.digest_blocks import digest_blocks
from penstock.plans.topology.columnar.topology_holds import topology_holds
from penstock.plans.topology.fingerprint import fingerprint
from penstock.plans.vocabulary import TopologyForm

_IS_OF_TRANSFORMATIONS = (pl.col("form") == str(TopologyForm.TRANSFORMATIONS)).fill_null(False)


def sound_topologies(given: pl.DataFrame, rows: pl.DataFrame, leave_out: Collection[int]) -> pl.DataFrame:
    """(position, fingerprint): the rows of `given` that are right and whose transformations are.

    In: TOPOLOGIES and TRANSFORMATIONS columns, defaults filled in; positions in `leave_out` are not looked
    at, and no topology_id comes twice but there. Whatever is not given back may be wrong.
    """
    keys = rows.select(pl.col(TOPOLOGY, "id").fill_null(0))
    ids, numbers = ints(keys, TOPOLOGY), ints(keys, "id")
    of_topologies, order = runs(ids), None
    holds = of_topologies.numbers() + 1 == numbers
    if len(np.unique(ids[of_topologies.starts])) < len(of_topologies.starts) or not holds.all():
        order = np.lexsort((numbers, ids))
        ids = ids[order]
        of_topologies = runs(ids)
        holds = of_topologies.numbers() + 1 == numbers[order]
    starts = of_topologies.starts
    blocks = digest_blocks(rows, order, starts)
    right = np.array([digest != "" for digest in blocks.digests], bool)
    rows_hold = np.logical_and.reduceat(holds, starts) if len(starts) else holds
    blocks_hold = np.logical_and.reduceat(right, blocks.first) if len(starts) else right
    of_ids = pl.DataFrame({TOPOLOGY: ids[starts], "first": blocks.first, "end": blocks.end}).filter(
        pl.Series(values=rows_hold & blocks_hold)
    )
    left_out = pl.Series(sorted(leave_out), dtype=pl.UInt32)
    sound = (
        given.with_row_index("position")
        .filter(topology_holds() & _IS_OF_TRANSFORMATIONS & ~pl.col("position").is_in(left_out.implode()))
        .join(of_ids, on=TOPOLOGY)
        .sort("position")
    )
    found = [
        fingerprint(header, blocks.digests[first:end])
        for header, first, end in zip(canonical_headers(sound), sound["first"], sound["end"], strict=True)
    ]
    return sound.select("position", pl.Series("fingerprint", found, pl.String))
