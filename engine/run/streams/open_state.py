"""Open the state of a stream as tables, and compare two versions of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.engine.run.streams.stream_records import bytes_of, watermark_of
from penstock.operators.connectors.state_sink import FORMAT, read_manifest, versions_in
from penstock.operators.state.read_state import read_table, tables_in
from penstock.plans.errors import ConfigurationError, StoreError

Manifest = Mapping[str, Any]


def manifest_of(folder: str, version: int | None) -> dict[str, Any]:
    """Return the manifest of a version, of the last one if it is None.

    Raises StoreError if there is none, or if a later Penstock has written it.
    """
    versions = versions_in(folder)
    if not versions:
        raise StoreError(
            f"{folder} is not the state of a stream", "penstock.foreach_batch(…, state=PATH) makes it"
        )
    if version is not None and version not in versions:
        raise StoreError(
            f"{folder} has no version {version}", f"it has the versions {', '.join(map(str, versions))}"
        )
    try:
        manifest = read_manifest(folder, versions[-1] if version is None else version)
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder}: {error}") from error
    if manifest.get("format") != FORMAT:
        raise StoreError(f"{folder}: its format must be {FORMAT}, got {manifest.get('format')!r}")
    return manifest


_BATCHES = pa.schema(
    [
        ("version", pa.int64()),
        ("batch_id", pa.int64()),
        ("query", pa.string()),
        ("job", pa.string()),
        ("started_at", pa.timestamp("ms", "UTC")),
        ("rows", pa.int64()),
        ("watermark", pa.int64()),
        ("run_seconds", pa.float64()),
        ("state_bytes", pa.int64()),
    ]
)


def table_of_batches(folder: str) -> pa.Table:
    """Return the versions of a state with their batches, oldest first. Raises StoreError if there is none."""
    manifest_of(folder, None)
    rows = []
    for version in versions_in(folder):
        manifest = manifest_of(folder, version)
        watermark, state_bytes = watermark_of(manifest), bytes_of(manifest)
        rows.append(
            {
                **{name: manifest[name] for name in ("version", "batch_id", "query", "job", "rows")},
                "started_at": int(manifest["started_at"] * 1000),
                "watermark": watermark,
                "run_seconds": manifest["run_seconds"],
                "state_bytes": state_bytes,
            }
        )
    return pa.Table.from_pylist(rows, _BATCHES)


def views_of(manifest: Manifest) -> dict[str, tuple[str, str]]:
    """Return the states of a version by the name that SQL gives them, each as its name and operator.

    It is the state's name, after the operator's uid or id if several have one of this name.
    """
    tables = tables_in(manifest)
    names = Counter(table["state"] for table in tables)
    views = {}
    for table in tables:
        owner = table["uid"] or table["operator_id"]
        state = table["state"]
        views[state if names[state] == 1 else f"{owner}_{state}"] = (state, table["operator_id"])
    return views


_LISTED = ("operator_id", "uid", "operator", "state", "kind", "key_type", "type")


def list_tables(manifest: Manifest) -> pa.Table:
    """Return one row for each state of a version."""
    rows = []
    for table in tables_in(manifest):
        segments = table["segments"].values()
        counted = {
            "rows": sum(segment["rows"] for segment in segments),
            "bytes": sum(segment["size"] for segment in segments),
        }
        rows.append({**{name: table[name] for name in _LISTED}, **counted})
    schema = pa.schema(
        [*((name, pa.string()) for name in _LISTED), ("rows", pa.int64()), ("bytes", pa.int64())]
    )
    return pa.Table.from_pylist(rows, schema)


def read_state(folder: str, manifest: Manifest, name: str, operator: str | None = None) -> pa.Table:
    """Return the entries of a state by its name.

    Raises ConfigurationError if there is none or several, StoreError if a file is damaged.
    """
    named = [table for table in tables_in(manifest) if table["state"] == name]
    found = [
        table
        for table in named
        if operator is None or operator in (table["uid"], table["operator_id"], table["operator"])
    ]
    if len(found) != 1:
        of_operator = "" if operator is None else f" of operator {operator!r}"
        if len(found) > 1:
            owners = ", ".join(table["uid"] or table["operator_id"] for table in found)
            raise ConfigurationError(
                f"several operators have a state {name!r}: {owners}", "name the operator"
            )
        names = sorted({table["state"] for table in tables_in(manifest)})
        raise ConfigurationError(f"there is no state {name!r}{of_operator}", f"there are {', '.join(names)}")
    return _read(folder, manifest, found[0])


def changed_entries(one: tuple[str, Manifest], other: tuple[str, Manifest]) -> list[dict[str, Any]]:
    """Return for each state of two versions how many entries the second one adds, removes and changes.

    A version is the folder and its manifest.
    """
    sides = [
        {(table["operator_id"], table["state"], table["kind"]): table for table in tables_in(manifest)}
        for _, manifest in (one, other)
    ]
    changes = []
    for place in dict.fromkeys([*sides[0], *sides[1]]):
        before, after = (
            _entries(*version, side.get(place)) for version, side in zip((one, other), sides, strict=True)
        )
        table: Any = sides[1].get(place) or sides[0].get(place)
        changes.append(
            {
                "operator": table["uid"] or table["operator"],
                "state": table["state"],
                "added": len(after.keys() - before.keys()),
                "removed": len(before.keys() - after.keys()),
                "changed": sum(before[key] != after[key] for key in before.keys() & after.keys()),
            }
        )
    return changes


def _read(folder: str, manifest: Manifest, table: Manifest) -> pa.Table:
    try:
        return read_table(folder, table)
    except (OSError, ValueError) as error:
        version = manifest["version"]
        if version not in versions_in(folder):
            raise StoreError(
                f"{folder}: version {version} has been removed since it was opened",
                "open the state again; foreach_batch(…, keep=N) keeps more versions",
            ) from error
        raise StoreError(f"{folder}: {error}") from error


def _entries(folder: str, manifest: Manifest, table: Manifest | None) -> dict[str, str]:
    if table is None:
        return {}
    rows = _read(folder, manifest, table).to_pylist()
    return {
        json.dumps([row.get("key"), row.get("namespace"), row.get("time")], default=repr): repr(
            row.get("value")
        )
        for row in rows
    }
