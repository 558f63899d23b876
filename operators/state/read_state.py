"""Read the state of a version as tables, without the job that made it: pickles stay bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from penstock.operators.state.state_segments import Segment, SegmentRecord, SegmentStore, key_groups_of
from penstock.operators.state.stored_state import TIMERS

COLUMNS = ("operator_id", "uid", "operator", "state", "key_group", "key", "namespace", "time", "value")
"""The columns of a table; `namespace` only for state of windows, `time` only for timers, else `value`."""


def tables_in(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each state of each operator: names, kind, types, and the rows and bytes of its segments."""
    found: dict[tuple[str, str, bool], dict[str, Any]] = {}
    for operator in manifest["operators"]:
        for part in operator["parts"]:
            for table in part["tables"]:
                place = operator["operator_id"], table["state"], table["namespaced"]
                entry = found.setdefault(
                    place,
                    {
                        "operator_id": operator["operator_id"],
                        "uid": operator["uid"],
                        "operator": operator["name"],
                        "state": table["state"],
                        "kind": table["kind"],
                        "key_type": operator["key_type"],
                        "type": table["type"],
                        "max_parallelism": operator["max_parallelism"],
                        "segments": {},
                        "parts": [],
                    },
                )
                entry["segments"].update({segment["file"]: segment for segment in table["segments"]})
                entry["parts"].append((part["first"], part["last"], table["segments"]))
    return list(found.values())


def read_table(folder: str, table: Mapping[str, Any]) -> pa.Table:
    """Return the rows of one of `tables_in`, ordered by key group, then by the hash of their key.

    Raises ValueError for a damaged segment, or if the state has several forms of columns.
    """
    parts, most = [], table["max_parallelism"]
    for first, last, segments in table["parts"]:
        records = [SegmentRecord(**segment) for segment in segments]
        store = SegmentStore(folder, 0, b"", keeps_copies=False)
        opened = [store.open(record, checked=False) for record in records]
        timers = table["kind"] == TIMERS
        newest = _alive_timers(opened, records) if timers else _newest_rows(opened)
        for segment, rows in newest:
            own = segment.within(rows, most, first, last)
            if own.size:
                parts.append(segment.batch.take(pa.array(own)))
    if not parts:
        return pa.table({name: pa.nulls(0) for name in ("operator_id", "uid", "operator", "state", "key")})
    together = pa.Table.from_batches(parts)
    groups = key_groups_of(together["hash"].to_numpy(), most)
    together = together.append_column("key_group", pa.array(groups))
    together = together.sort_by([("key_group", "ascending"), ("hash", "ascending")])
    constants = {name: table[name] for name in ("operator_id", "uid", "operator", "state")}
    columns = {name: pa.array([text] * len(together), pa.string()) for name, text in constants.items()}
    columns.update({name: together[name] for name in COLUMNS if name in together.column_names})
    return pa.table(columns)


def _newest_rows(segments: list[Segment]) -> Iterator[tuple[Segment, np.ndarray[Any, Any]]]:
    """Yield the rows of each segment that no later one has replaced or deleted."""
    seen: set[Any] = set()
    for segment in reversed(segments):
        identities = _identities(segment, ("key", "namespace"))
        deleted = segment.batch.column("deleted").to_pylist()
        rows = []
        for row, (identity, gone) in enumerate(zip(identities, deleted, strict=True)):
            if identity not in seen:
                seen.add(identity)
                if not gone:
                    rows.append(row)
        yield segment, np.array(rows, np.int64)


def _alive_timers(
    segments: list[Segment], records: list[SegmentRecord]
) -> Iterator[tuple[Segment, np.ndarray[Any, Any]]]:
    alive: dict[Any, tuple[int, int]] = {}
    for number, (segment, record) in enumerate(zip(segments, records, strict=True)):
        identities = _identities(segment, ("time", "key", "namespace"))
        deleted = segment.batch.column("deleted").to_pylist()
        for row, (identity, gone) in enumerate(zip(identities, deleted, strict=True)):
            if record.cleared is not None and segment.times[row] <= record.cleared:
                continue
            if gone:
                alive.pop(identity, None)
            else:
                alive.setdefault(identity, (number, row))
    for number, segment in enumerate(segments):
        rows = [row for place, row in alive.values() if place == number]
        yield segment, np.array(sorted(rows), np.int64)


def _identities(segment: Segment, names: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    present = [segment.batch.column(name) for name in names if name in segment.batch.schema.names]
    # as texts, NaN equals itself, and 0.0 is not -0.0
    plain = [
        map(repr, column.to_pylist())
        if kinds.is_nested(column.type) or kinds.is_floating(column.type)
        else column.to_pylist()
        for column in present
    ]
    return zip(*plain, strict=True)
