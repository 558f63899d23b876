"""Errors of a large topology out of its table: only rows that may be wrong become JSON."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.plans.topology.columnar.lines_of_tables import texts_of_rows
from penstock.plans.topology.columnar.normalized_tables import to_nullable_arrow
from penstock.plans.topology.columnar.suspicious_transformation import suspicious_transformation
from penstock.plans.topology.numbered_rows import (
    Ids,
    cycle_of,
    known,
    misplaced,
    position_of,
    position_of_counted,
)
from penstock.plans.topology.validate_wrong_rows import Refusal, validate_wrong_rows

_ROWS_AT_ONCE = 2**20


def wrong_rows_of_large(topology: bytes, rows: pl.DataFrame) -> Refusal | None:
    """Stage and errors of a topology, as validate_topology finds them; None if there are none.

    In: its JSON object without transformations; its TRANSFORMATIONS rows in any order, defaults filled in.
    """
    order, ids = _in_order(rows)
    without_id = len(order) - len(ids)
    inputs = rows["inputs"].gather(order[without_id:]).list.drop_nulls()
    read: npt.NDArray[np.int32] = inputs.explode(empty_as_null=False).to_numpy()
    starts = np.append(0, np.cumsum(inputs.list.len().to_numpy(), dtype=np.int64))
    out_of_place = misplaced(ids, without_id)
    wrong = _suspicious(rows)[order]
    wrong[:without_id] = True
    wrong[without_id:] |= out_of_place
    owners = np.repeat(np.arange(without_id, len(order)), np.diff(starts))
    wrong[owners[~known(ids, read)]] = True
    places = np.flatnonzero(wrong)
    texts = _texts(rows[order[places]])
    listed = ((place + 1, text) for place, text in zip(places.tolist(), texts, strict=True))
    counted = not (without_id or out_of_place.any())
    position = position_of_counted(len(ids)) if counted else position_of(ids, without_id)
    return validate_wrong_rows(topology, listed, position, cycle_of(ids, starts, read))


def _in_order(rows: pl.DataFrame) -> tuple[npt.NDArray[np.uint32], Ids]:
    """The places of rows, ordered by id and then by their JSON, as in the line; and the ids."""
    order = rows["id"].arg_sort(nulls_last=False).to_numpy(writable=True)
    ids: Ids = rows["id"].drop_nulls().sort().to_numpy()
    without_id = len(order) - len(ids)
    groups = np.append(np.zeros(without_id, np.int64), ids.astype(np.int64))
    groups[:without_id] = np.iinfo(np.int64).min
    twice = groups[1:] == groups[:-1]
    tied = np.flatnonzero(np.append(twice, False) | np.append(False, twice))
    if len(tied):
        of_tied = list(zip(groups[tied].tolist(), _texts(rows[order[tied]]), strict=True))
        order[tied] = order[tied[sorted(range(len(tied)), key=of_tied.__getitem__)]]
    return order, ids


def _suspicious(rows: pl.DataFrame) -> npt.NDArray[np.bool_]:
    pieces = (rows.slice(start, _ROWS_AT_ONCE) for start in range(0, len(rows), _ROWS_AT_ONCE))
    return np.concatenate([suspicious_transformation(piece).to_numpy() for piece in pieces])


def _texts(rows: pl.DataFrame) -> Iterator[bytes]:
    return (text for _, text in texts_of_rows(to_nullable_arrow(rows, "transformations")))
