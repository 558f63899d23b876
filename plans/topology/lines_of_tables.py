"""Rows of given tables as equivalent JSON lines, for the validation that files go through."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.errors import TopologyError
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.canonical_texts import JSON_COLUMNS
from penstock.plans.topology.json_documents import duplicate_keys, duplicate_keys_of_transformation
from penstock.plans.topology.lines_batch import lines_batch
from penstock.plans.topology.normalized_tables import to_nullable_arrow
from penstock.plans.topology.operator_rules import UID_HASH
from penstock.plans.topology.parse_lines import shown_errors, with_stage
from penstock.plans.topology.suspicious_transformation import suspicious_transformation
from penstock.plans.topology.validate_topology import validate_topology
from penstock.plans.topology.validate_transformations import (
    KEPT,
    MOST_SHOWN,
    PositionOf,
    cycle_errors,
    errors_of_entries,
    errors_of_some,
    find_cycle_in_rows,
)

_TOPOLOGY_COLUMNS = ("name", "parallelism", "max_parallelism", "chaining", "config")
_MAPS = ("config", "managed_memory")
_EMPTY_IF_NOT_SET = ("name", "managed_memory", "slot_scope")
_NOT_FINITE = {inf: "Infinity", -inf: "-Infinity"}
_BATCH_BYTES = 4 * 2**20
_ROWS_AT_ONCE = 16_384


def lines_of_tables(topologies: pa.Table, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield LINES of the rows of `topologies`; the ordinal is the position.

    In: TOPOLOGIES and TRANSFORMATIONS columns, defaults filled in; topology_id is unique. A key is omitted if
    its column is null, as in Spark's to_json.
    """
    ordered = rows.take(pc.sort_indices(rows, [(TOPOLOGY, "ascending")]))
    ids = ordered[TOPOLOGY].drop_null().to_numpy()
    values: list[bytes] = []
    ordinals: list[int] = []
    size = 0
    for position, topology in enumerate(topologies.select([TOPOLOGY, *_TOPOLOGY_COLUMNS]).to_pylist()):
        topology_id = topology.pop(TOPOLOGY)
        first, last = (int(np.searchsorted(ids, topology_id, side)) for side in ("left", "right"))
        values.append(_line(topology, ordered.slice(first, last - first)))
        ordinals.append(position)
        size += len(values[-1])
        if size >= _BATCH_BYTES:
            yield lines_batch(values, None, ordinals)
            values, ordinals, size = [], [], 0
    if values:
        yield lines_batch(values, None, ordinals)


def _line(topology: dict[str, Any], rows: pa.Table) -> bytes:
    """Return one topology with its rows sorted by id, null ids first."""
    listed = sorted((number is not None, number or 0, text) for number, text in _texts_of_rows(rows))
    transformations = b",".join([text for _, _, text in listed])
    return _object(topology)[:-1] + b',"transformations":[' + transformations + b"]}"


def _texts_of_rows(rows: pa.Table) -> Iterator[tuple[int | None, bytes]]:
    """Yield the id and the JSON object of each row of TRANSFORMATIONS."""
    for batch in rows.drop_columns([TOPOLOGY]).to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            texts = [row.pop(name) for name in JSON_COLUMNS]
            transformation = _object(row, _EMPTY_IF_NOT_SET)
            for text in texts:
                transformation = with_keys_of(transformation, text)
            yield row["id"], transformation


def with_keys_of(transformation: bytes, keys: str | None) -> bytes:
    """Add the keys of `keys`, a JSON object as text, to the JSON object of a transformation."""
    if keys is None or keys.strip() == "{}":
        return transformation
    inner = keys.strip().removeprefix("{").removesuffix("}")
    return transformation[:-1] + b"," + inner.encode() + b"}"


def topologies_without_rows(topologies: pa.Table) -> list[bytes]:
    """Return the JSON of each topology (name, parallelism, …) without its transformations."""
    return list(map(_object, topologies.select(_TOPOLOGY_COLUMNS).to_pylist()))


def _object(row: dict[str, Any], empty_if_not_set: tuple[str, ...] = ()) -> bytes:
    """Return the JSON of the columns that are set."""
    return orjson.dumps(
        {
            key: _entries(value) if key in _MAPS else _fields(value) if type(value) is dict else value
            for key, value in row.items()
            if value is not None and not (key in empty_if_not_set and not value)
        }
    )


def _entries(pairs: list[tuple[str, Any]]) -> orjson.Fragment:
    """Return a map as an object with every pair, including pairs of a repeated key."""
    return orjson.Fragment(b"{" + b",".join(orjson.dumps({key: value})[1:-1] for key, value in pairs) + b"}")


def _fields(resources: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a ResourceSpec that are set; JSON has no numbers for infinities and NaN."""
    return {
        key: _NOT_FINITE.get(value, "NaN") if type(value) is float and not isfinite(value) else value
        for key, value in resources.items()
        if value is not None
    }


# Facts that follow from the ids and inputs of a large topology's transformations alone, over arrays.
#
# `ids` are sorted and may contain duplicates. `without_id` counts the transformations without an id, which
# precede all others, as in the line of a topology given as tables.


Ids = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


def position_of(ids: Ids, without_id: int) -> PositionOf:
    """Return a function from an id to the position of its first transformation, from 1; None
    for unknown ids.
    """
    sought: Any = ids
    size = len(ids)

    def position(number: int) -> int | None:
        place = bisect_left(sought, number)
        return place + without_id + 1 if place < size and sought[place] == number else None

    return position


def position_of_counted(size: int) -> PositionOf:
    """position_of for the ids 1..size."""
    return lambda number: number if 1 <= number <= size else None


def misplaced(ids: Ids, without_id: int) -> Flags:
    """Flag ids that differ from the position of their transformation, or occur twice."""
    wrong: Flags = ids != np.arange(without_id + 1, without_id + len(ids) + 1)
    twice = ids[1:] == ids[:-1]
    wrong[1:] |= twice
    wrong[:-1] |= twice
    return wrong


def known(ids: Ids, read: Ids) -> Flags:
    """Flag the ids in `read` that belong to a transformation."""
    if not len(ids):
        return np.zeros(len(read), np.bool_)
    is_known: Flags = ids[np.minimum(np.searchsorted(ids, read), len(ids) - 1)] == read
    return is_known


def cycle_of(ids: Ids, starts: npt.NDArray[np.int64], read: Ids) -> list[int]:
    """Return the ids along the cycle that find_cycle finds, as many as its error lists; [] if there is none.

    The transformation at `place` reads `read[starts[place]:starts[place + 1]]`; transformations with the same
    id count as one. The search is skipped unless a transformation reads itself or a later one.
    """
    is_known = known(ids, read)
    owners, read = np.repeat(ids, np.diff(starts))[is_known], read[is_known]
    if not (read >= owners).any():
        return []
    own = np.unique(ids)
    lengths = np.bincount(np.searchsorted(own, owners), minlength=len(own))
    ranks = (np.searchsorted(own, read) + 1).astype(np.int32)
    cycle = find_cycle_in_rows(np.append(0, np.cumsum(lengths)), ranks, MOST_SHOWN + 1)
    return [int(own[rank - 1]) for rank in cycle]


# Refusal of a topology that validates only the transformations that may be wrong.


Refusal = tuple[str, list[dict[str, str]]]
"""Stage and errors, in the form of the `rejected` table."""

LARGE = 100_000
"""Number of a topology's transformations from which errors are found this way. Validating its whole line
takes more memory."""


def validate_wrong_rows(
    topology: bytes,
    rows: Iterable[tuple[int, bytes]],
    position_of: PositionOf,
    cycle: list[int],
) -> Refusal | None:
    """Return stage and errors of a topology, as parse_lines finds them in its whole line; None if there are
    none.

    `topology`: its JSON object without transformations. `rows`: positions and objects, in order, of the
    transformations that suspicious_transformation flags, whose id differs from their position or occurs
    twice, or that read an unknown one; one at a time is in memory. `position_of` and `cycle`: see position_of
    and cycle_of.
    """
    parsed = orjson.loads(topology)
    repeated = duplicate_keys(topology, parsed)
    outside = parsed | {"transformations": []}
    refused_hashes: list[dict[str, Any]] = []

    def entries() -> Iterator[tuple[int, dict[str, Any]]]:
        for position, row in rows:
            entry = orjson.loads(row)
            if not refused_hashes and "uid_hash" in entry and not UID_HASH.accepts(entry["uid_hash"]):
                refused_hashes.append(entry)
            duplicates = duplicate_keys_of_transformation(row, entry, position)
            repeated.extend(duplicates if len(repeated) < KEPT else repeated[-1:] * len(duplicates))
            yield position, entry

    def check_transformations(_: Any) -> list[TopologyError]:
        return errors_of_entries(entries(), position_of) + cycle_errors(cycle)

    topology_errors = validate_topology(outside, check_transformations)  # which fills `repeated`
    errors = repeated + topology_errors
    if not errors:
        return None
    stage, errors = with_stage(outside | {"transformations": refused_hashes}, errors)
    return stage, shown_errors(errors)


# Errors of a large topology from its table: only rows that may be wrong become JSON.


_CHECKED_ROWS_AT_ONCE = 2**20


class Numbers(NamedTuple):
    """The ids and inputs of a topology's transformations, in the order of its line."""

    without_id: int
    ids: Ids  #: of the others, sorted
    starts: npt.NDArray[np.int64]  #: they read[starts[place]:starts[place + 1]]
    read: Ids


def wrong_rows_of_large(topology: bytes, rows: pl.DataFrame) -> Refusal | None:
    """Return stage and errors of a topology, as validate_topology finds them; None if there are none.

    `topology`: its JSON object without transformations. `rows`: its TRANSFORMATIONS rows in any order,
    defaults filled in.
    """
    ordered, numbers = numbers_in_order(rows)
    listed = texts_of_wrong_rows(ordered, wrong_by_number(numbers), 0)
    return validate_wrong_rows(topology, listed, position_in(numbers), cycle_of(*numbers[1:]))


def numbers_in_order(rows: pl.DataFrame) -> tuple[pl.DataFrame, Numbers]:
    """Return `rows` sorted by id and then by their JSON, as in the line, and their numbers."""
    order, ids = _in_order(rows)
    without_id = len(order) - len(ids)
    inputs = rows["inputs"].gather(order[without_id:]).list.drop_nulls()
    read: Ids = inputs.explode(empty_as_null=False).to_numpy()
    starts = np.append(0, np.cumsum(inputs.list.len().to_numpy(), dtype=np.int64))
    ordered = rows if len(rows) == 1 else rows[order]
    return ordered, Numbers(without_id, ids, starts, read)


def wrong_by_number(numbers: Numbers) -> Flags:
    """Flag transformations without an id, out of place, with the id of another, or with an unknown input."""
    without_id, ids, starts, read = numbers
    wrong = np.ones(without_id + len(ids), np.bool_)
    wrong[without_id:] = misplaced(ids, without_id)
    owners = np.repeat(np.arange(without_id, len(wrong)), np.diff(starts))
    wrong[owners[~known(ids, read)]] = True
    return wrong


def position_in(numbers: Numbers) -> PositionOf:
    """See position_of."""
    without_id, ids, _, _ = numbers
    counted = not (without_id or misplaced(ids, without_id).any())
    return position_of_counted(len(ids)) if counted else position_of(ids, without_id)


def texts_of_wrong_rows(ordered: pl.DataFrame, wrong: Flags, before: int) -> Iterator[tuple[int, bytes]]:
    """Yield position and JSON of the rows that are flagged or suspicious; `before` rows precede them."""
    chosen = wrong | _suspicious(ordered)
    positions = np.flatnonzero(chosen) + before + 1
    return zip(positions.tolist(), _texts(ordered.filter(pl.Series(values=chosen))), strict=True)


def errors_of_rows(rows: pl.DataFrame, size: int) -> list[TopologyError]:
    """Return the errors of TRANSFORMATIONS rows, whose ids are in their places among 1..size.

    Their node ids are not compared with the ids of other rows.
    """
    entries = []
    errors = []
    for number, text in zip(rows["id"].to_list(), _texts(rows), strict=True):
        entry = orjson.loads(text)
        errors += duplicate_keys_of_transformation(text, entry, number)
        entries.append((number, entry))
    return errors + errors_of_some(entries, position_of_counted(size), {})


def parsed_rows(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """Return TRANSFORMATIONS rows as parsed JSON."""
    return list(map(orjson.loads, _texts(rows)))


def _in_order(rows: pl.DataFrame) -> tuple[npt.NDArray[np.uint32], Ids]:
    """Return the positions of rows sorted by id and then by their JSON, as in the line; and the ids."""
    order = rows["id"].arg_sort(nulls_last=False).to_numpy(writable=True)
    ids: Ids = rows["id"].drop_nulls().sort().to_numpy()
    without_id = len(order) - len(ids)
    groups = np.append(np.zeros(without_id, np.int64), ids.astype(np.int64))
    groups[:without_id] = np.iinfo(np.int64).min
    twice = groups[1:] == groups[:-1]
    tied = np.flatnonzero(np.append(twice, False) | np.append(False, twice))
    if len(tied):
        sort_keys = list(zip(groups[tied].tolist(), _texts(rows[order[tied]]), strict=True))
        order[tied] = order[tied[sorted(range(len(tied)), key=sort_keys.__getitem__)]]
    return order, ids


def _suspicious(rows: pl.DataFrame) -> npt.NDArray[np.bool_]:
    pieces = (
        rows.slice(start, _CHECKED_ROWS_AT_ONCE) for start in range(0, len(rows), _CHECKED_ROWS_AT_ONCE)
    )
    return np.concatenate([suspicious_transformation(piece).to_numpy() for piece in pieces])


def _texts(rows: pl.DataFrame) -> Iterator[bytes]:
    return (text for _, text in _texts_of_rows(to_nullable_arrow(rows, "transformations")))
