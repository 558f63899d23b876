"""Errors of a large topology out of its table: only rows that may be wrong become JSON."""

import numpy as np
import numpy.typing as npt
import polars as pl

from plans.topology.columnar.lines_of_tables import texts_of_rows
from plans.topology.columnar.normalized_tables import to_nullable_arrow
from plans.topology.columnar.suspicious_transformation import suspicious_transformation
from plans.topology.find_cycle_in_rows import find_cycle_in_rows
from plans.topology.validate_transformations import MOST_SHOWN
from plans.topology.validate_wrong_rows import Refusal, validate_wrong_rows

_ROWS_AT_ONCE = 2**20


def wrong_rows_of_large(topology: bytes, rows: pl.DataFrame) -> Refusal | None:
    """Stage and errors of a topology, as validate_topology finds them; None if there are none.

    In: its JSON object without transformations; its TRANSFORMATIONS rows in any order, defaults filled in.
    None, too, if ids are not 1..n: what all rows say then decides their order.
    """
    ids = rows["id"]
    if ids.null_count() or (ids.min(), ids.max()) != (1, len(ids)) or ids.n_unique() < len(ids):
        return None
    pieces = (rows.slice(start, _ROWS_AT_ONCE) for start in range(0, len(rows), _ROWS_AT_ONCE))
    wrong = rows.filter(pl.concat(list(map(suspicious_transformation, pieces)))).sort("id")
    cycle = _cycle(rows) if (wrong["inputs"].list.max() >= wrong["id"]).any() else []
    texts = (text for _, text in texts_of_rows(to_nullable_arrow(wrong, "transformations")))
    return validate_wrong_rows(topology, texts, len(rows), cycle)


def _cycle(rows: pl.DataFrame) -> list[int]:
    """What right rows read comes before them, so that no cycle is without a row that reads a later one."""
    inputs = rows.select("id", "inputs").sort("id")["inputs"].list.drop_nulls()
    read: npt.NDArray[np.int32] = inputs.explode(empty_as_null=False).to_numpy()
    starts = np.append(0, np.cumsum(inputs.list.len().to_numpy(), dtype=np.int64))
    return find_cycle_in_rows(starts, read, MOST_SHOWN + 1)
