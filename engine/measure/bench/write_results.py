"""Results in a folder: lines as they come, one JSON document, and rows of a Delta table."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from penstock.engine.machine.replace_file import replace_file
from penstock.plans.errors import InputError
from penstock.plans.vocabulary import Layer

FORMAT = 1

_LAYERS = [layer for layer in Layer if layer != Layer.TOPOLOGY]
ROWS = pa.schema(
    [
        ("date", pa.string()),
        ("suite", pa.string()),
        ("size", pa.int64()),
        ("operators", pa.int64()),
        ("topologies", pa.int64()),
        ("planner", pa.string()),
        ("until", pa.string()),
        ("repetition", pa.int32()),
        ("place", pa.int32()),
        ("load_average", pa.float64()),
        ("start_up_seconds", pa.float64()),
        ("read_seconds", pa.float64()),
        *((f"{layer}_seconds", pa.float64()) for layer in _LAYERS),
        ("hand_over_seconds", pa.float64()),
        ("other_seconds", pa.float64()),
        ("device_seconds", pa.float64()),
        ("planning_seconds", pa.float64()),
        ("seconds", pa.float64()),
        ("peak_memory_bytes", pa.int64()),
        ("process_cpu_seconds", pa.float64()),
        ("process_wall_seconds", pa.float64()),
        ("error", pa.string()),
        ("message", pa.string()),
        ("penstock_version", pa.string()),
        ("processor", pa.string()),
    ]
)
"""Keyed by (date, suite, size, planner, repetition, place); `place` 0 is the cold plan, others are warm; -1
is a failure before or after them."""


def append_line(folder: Path, record: Mapping[str, Any]) -> None:
    """Append one measurement to results.jsonl, so that a run that is stopped keeps what it has measured."""
    with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def write_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Replace results.json."""
    with replace_file(folder / "results.json") as file:
        file.write(f"{json.dumps(results, indent=1)}\n".encode())


def append_rows(folder: Path, results: Mapping[str, Any], measured: Iterable[Mapping[str, Any]]) -> None:
    """Append what was measured to the table."""
    rows = [row for record in measured for row in _rows(record, results)]
    if not rows:
        return
    write_deltalake(
        str(folder / "results"), pa.Table.from_pylist(rows, ROWS), mode="append", schema_mode="merge"
    )


def read_results(path: Path) -> dict[str, Any]:
    """A results.json. Raises InputError if the file is something else, or has another format."""
    try:
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        file_format, summary = results["format"], results["summary"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is no results.json of penstock bench: {error}") from error
    if file_format != FORMAT:
        raise InputError(f"{path}: found format {file_format}, allowed {FORMAT}")
    if not isinstance(summary, list):
        raise InputError(f"{path} is no results.json of penstock bench: its summary is no list")
    return results


def _rows(record: Mapping[str, Any], results: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    shared = {key: record[key] for key in ROWS.names if key in record}
    shared["date"], shared["until"] = results["date"], results["until"]
    shared["process_cpu_seconds"], shared["process_wall_seconds"] = (
        record.get(used) for used in ("cpu_seconds", "wall_seconds")
    )
    shared["penstock_version"] = results["versions"].get("penstock")
    shared["processor"] = results["machine"]["processor"]
    cold = [] if record["cold"] is None else [(0, record["cold"])]  # a session that is kept has none
    for place, times in [*cold, *enumerate(record["warm"], 1)]:
        layers = {f"{layer}_seconds": seconds for layer, seconds in times["layers"].items()}
        named = ("read", "hand_over", "other", "device", "planning")
        phases = {f"{name}_seconds": times.get(name) for name in named}
        yield {**shared, "place": place, **layers, **phases, "seconds": times["seconds"]}
    if record["failure"]:
        yield {**shared, "place": -1, **record["failure"]}
