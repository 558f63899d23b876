"""Which topologies of given tables are right in every row, and their fingerprints."""

from collections.abc import Collection
from functools import reduce
from operator import and_

import numpy as np
import polars as pl

from plans.columnar.frames import TOPOLOGY
from plans.columnar.groups import ints
from plans.columnar.runs import runs
from plans.columnar.side_by_side import side_by_side
from plans.columnar.topology.fingerprint import canonical_headers, canonical_rows, fingerprints
from plans.columnar.topology.suspicious_transformation import suspicious_transformation
from plans.topology.operator_rules import MAX_PARALLELISM
from plans.vocabulary import TopologyForm

_ROWS_AT_ONCE = 2**16


def sound_topologies(given: pl.DataFrame, rows: pl.DataFrame, leave_out: Collection[int]) -> pl.DataFrame:
    """(position, fingerprint): the rows of `given` that are right and whose transformations are.

    In: TOPOLOGIES and TRANSFORMATIONS columns, defaults filled in; positions in `leave_out` are not looked
    at, and no topology_id comes twice but there. Whatever is not given back may be wrong.
    """
    checked = pl.concat(side_by_side(_checked, list(rows.iter_slices(_ROWS_AT_ONCE)) or [rows])).rechunk()
    ids, numbers = ints(checked, TOPOLOGY), ints(checked, "id")
    of_topologies, order = runs(ids), None
    right = (of_topologies.numbers() + 1 == numbers) & ~checked["suspicious"].to_numpy()
    starts = of_topologies.starts
    if len(np.unique(ids[starts])) < len(starts) or not right.all():
        order = np.lexsort((numbers, ids))
        of_topologies = runs(ids[order])
        starts = of_topologies.starts
        right = (of_topologies.numbers() + 1 == numbers[order]) & ~checked["suspicious"].to_numpy()[order]
        ids = ids[order]
    rows_hold = np.logical_and.reduceat(right, starts) if len(starts) else right
    of_ids = pl.DataFrame(
        {
            TOPOLOGY: ids[starts],
            "start": starts,
            "size": np.diff(starts, append=len(ids)),
            "rows_hold": rows_hold,
        }
    )
    left_out = pl.Series(sorted(leave_out), dtype=pl.UInt32)
    sound = (
        given.with_row_index("position")
        .filter(_topology_holds() & ~pl.col("position").is_in(left_out.implode()))
        .join(of_ids.filter("rows_hold"), on=TOPOLOGY)
        .sort("start")
    )
    texts = fingerprints(
        canonical_headers(sound), checked["text"], order, ints(sound, "start"), ints(sound, "size")
    )
    return sound.select("position", pl.Series("fingerprint", texts, pl.String)).sort("position")


def _checked(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(
        pl.col(TOPOLOGY).fill_null(0),
        pl.col("id").fill_null(0),
        suspicious_transformation().alias("suspicious"),
    ).with_columns(canonical_rows(rows).alias("text"))


def _topology_holds() -> pl.Expr:
    """A row of TOPOLOGIES is right; a map with a key that comes twice is not."""
    config = pl.col("config").map.entries().list
    keys, values = (config.eval(pl.element().struct.field(name)).list for name in ("key", "value"))
    rules = [
        pl.col("name") != "",
        pl.col("form") == str(TopologyForm.TRANSFORMATIONS),
        pl.col("parallelism") >= 1,
        pl.col("max_parallelism").is_null() | pl.col("max_parallelism").is_between(1, MAX_PARALLELISM),
        keys.n_unique() == config.len(),
        ~values.contains(pl.lit(None, pl.String)),
    ]
    return reduce(and_, rules).fill_null(False)
