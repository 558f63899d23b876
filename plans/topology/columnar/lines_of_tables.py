"""Rows of given tables as the JSON lines that say the same, for the validation that files go through."""

from collections.abc import Iterator
from math import inf, isfinite
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.lines_batch import lines_batch

_OF_TOPOLOGY = ("name", "parallelism", "max_parallelism", "chaining", "config")
_MAPS = ("config", "managed_memory")
_EMPTY_IF_NOT_SET = ("name", "managed_memory", "slot_scope")
_NOT_FINITE = {inf: "Infinity", -inf: "-Infinity"}
_BATCH_BYTES = 4 * 2**20
_ROWS_AT_ONCE = 16_384


def lines_of_tables(topologies: pa.Table, rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """LINES of the rows of `topologies`; the ordinal is the position.

    In: TOPOLOGIES and TRANSFORMATIONS columns, defaults filled in; no topology_id twice. A key is left out
    where its column is null, as Spark's to_json does.
    """
    ordered = rows.take(pc.sort_indices(rows, [(TOPOLOGY, "ascending")]))
    ids = ordered[TOPOLOGY].drop_null().to_numpy()
    values: list[bytes] = []
    ordinals: list[int] = []
    size = 0
    for position, topology in enumerate(topologies.select([TOPOLOGY, *_OF_TOPOLOGY]).to_pylist()):
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
    """One topology with its rows in the order of their ids, a null before all others."""
    listed = sorted((number is not None, number or 0, text) for number, text in texts_of_rows(rows))
    transformations = b",".join([text for _, _, text in listed])
    return _object(topology)[:-1] + b',"transformations":[' + transformations + b"]}"


def texts_of_rows(rows: pa.Table) -> Iterator[tuple[int | None, bytes]]:
    """The id and the JSON object of each row of TRANSFORMATIONS."""
    for batch in rows.drop_columns([TOPOLOGY]).to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            sink = row.pop("sink_topology")
            yield row["id"], with_sink_topology(_object(row, _EMPTY_IF_NOT_SET), sink)


def with_sink_topology(transformation: bytes, sink_topology: str | None) -> bytes:
    """The JSON object of a transformation with the keys of what it expands into."""
    if sink_topology is None:
        return transformation
    inner = sink_topology.strip().removeprefix("{").removesuffix("}")
    return transformation[:-1] + b"," + inner.encode() + b"}"


def topologies_without_rows(topologies: pa.Table) -> list[bytes]:
    """The JSON of each topology (name, parallelism, …) without its transformations."""
    return list(map(_object, topologies.select(_OF_TOPOLOGY).to_pylist()))


def _object(row: dict[str, Any], empty_if_not_set: tuple[str, ...] = ()) -> bytes:
    """JSON of the columns that are set."""
    return orjson.dumps(
        {
            key: _entries(value) if key in _MAPS else _fields(value) if type(value) is dict else value
            for key, value in row.items()
            if value is not None and not (key in empty_if_not_set and not value)
        }
    )


def _entries(pairs: list[tuple[str, Any]]) -> orjson.Fragment:
    """A map as an object with every pair, those of a key that comes twice too."""
    return orjson.Fragment(b"{" + b",".join(orjson.dumps({key: value})[1:-1] for key, value in pairs) + b"}")


def _fields(resources: dict[str, Any]) -> dict[str, Any]:
    """The fields of a ResourceSpec that are set; JSON has no number for what is not finite."""
    return {
        key: _NOT_FINITE.get(value, "NaN") if type(value) is float and not isfinite(value) else value
        for key, value in resources.items()
        if value is not None
    }
