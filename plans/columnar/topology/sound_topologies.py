"""Which topologies of given tables are right in every row, and their fingerprints."""

from collections.abc import Collection

import numpy as np
import polars as pl
import pyarrow as pa

from plans.columnar.frames import TOPOLOGY
from plans.columnar.groups import ints
from plans.columnar.runs import runs
from plans.columnar.side_by_side import side_by_side
from plans.columnar.topology.canonical_texts import canonical_texts
from plans.columnar.topology.fingerprint import canonical_headers, fingerprints
from plans.columnar.topology.normalized_tables import to_nullable_arrow
from plans.columnar.topology.suspicious_transformation import suspicious_transformation
from plans.columnar.topology.topology_holds import topology_holds
from plans.vocabulary import TopologyForm

_ROWS_AT_ONCE = 2**16
_IS_OF_TRANSFORMATIONS = (pl.col("form") == str(TopologyForm.TRANSFORMATIONS)).fill_null(False)


def sound_topologies(given: pl.DataFrame, rows: pl.DataFrame, leave_out: Collection[int]) -> pl.DataFrame:
    """(position, fingerprint): the rows of `given` that are right and whose transformations are.

    In: TOPOLOGIES and TRANSFORMATIONS columns, defaults filled in; positions in `leave_out` are not looked
    at, and no topology_id comes twice but there. Whatever is not given back may be wrong.
    """
    parts = side_by_side(_checked, list(rows.iter_slices(_ROWS_AT_ONCE)) or [rows])
    checked = pl.concat([of_part for of_part, _ in parts]).rechunk()
    texts = pa.concat_arrays([of_part for _, of_part in parts])
    ids, numbers = ints(checked, TOPOLOGY), ints(checked, "id")
    right = ~checked["suspicious"].to_numpy()
    text_of_rows = np.cumsum(right) - right
    of_topologies, order = runs(ids), None
    starts = of_topologies.starts
    holds = right & (of_topologies.numbers() + 1 == numbers)
    if len(np.unique(ids[starts])) < len(starts) or not holds.all():
        order = np.lexsort((numbers, ids))
        ids = ids[order]
        of_topologies = runs(ids)
        starts = of_topologies.starts
        holds = right[order] & (of_topologies.numbers() + 1 == numbers[order])
    of_ids = pl.DataFrame(
        {
            TOPOLOGY: ids[starts],
            "start": starts,
            "size": np.diff(starts, append=len(ids)),
            "rows_hold": np.logical_and.reduceat(holds, starts) if len(starts) else holds,
        }
    )
    left_out = pl.Series(sorted(leave_out), dtype=pl.UInt32)
    sound = (
        given.with_row_index("position")
        .filter(topology_holds() & _IS_OF_TRANSFORMATIONS & ~pl.col("position").is_in(left_out.implode()))
        .join(of_ids.filter("rows_hold"), on=TOPOLOGY)
        .sort("start")
    )
    text_order = None if order is None else text_of_rows[order]
    digests = fingerprints(
        canonical_headers(sound), texts, text_order, ints(sound, "start"), ints(sound, "size")
    )
    return sound.select("position", pl.Series("fingerprint", digests, pl.String)).sort("position")


def _checked(rows: pl.DataFrame) -> tuple[pl.DataFrame, pa.LargeStringArray]:
    """Keys of rows and whether they may be wrong; the canonical texts of those that are right."""
    checked = rows.select(
        pl.col(TOPOLOGY).fill_null(0),
        pl.col("id").fill_null(0),
        suspicious_transformation(rows).alias("suspicious"),
    )
    right = rows.filter(~checked["suspicious"]) if checked["suspicious"].any() else rows
    columns = to_nullable_arrow(right, "transformations").combine_chunks()
    texts = canonical_texts(columns.to_struct_array().combine_chunks())
    return checked, texts.cast(pa.large_string())
