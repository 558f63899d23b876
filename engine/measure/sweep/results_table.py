"""Delta tables of a sweep, with rows per cell and repetition (`results`) and per topology (`quality`)."""

import base64
import json
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, Schema

from penstock.engine.measure.sweep.grid import Cell
from penstock.engine.measure.sweep.sweep_spec import PARAMETERS
from penstock.engine.store.data_files import add_action, make_log_durable, write_file
from penstock.engine.store.delta_table import STRICT, features_against_writes, open_table, to_table
from penstock.engine.store.store_location import locate, store_errors
from penstock.engine.store.store_tables import delta_schema
from penstock.operators.common.without_pandas import without_pandas
from penstock.operators.files.durable_files import force_descriptor
from penstock.plans.errors import ConfigurationError, StoreError
from penstock.plans.installation import own_version
from penstock.plans.metrics.plan_metrics import METRICS
from penstock.plans.tables.column_types import COMMENT, TIMESTAMP

RESULTS_FORMAT = 1
"""Raised whenever an older Penstock would misread the tables."""

_DESCRIPTION = "Written by penstock sweep, format {}"
"""Of both tables; a property of its own is refused by delta-rs."""

RESULTS = "results"
QUALITY = "quality"
MEASURED = tuple(name for name in METRICS if name != "bottleneck")
"""Numeric metrics."""

_KINDS = ("shape", "file", "spec")
_TEXTS = pa.map_(pa.string(), pa.string())
Columns = Mapping[str, tuple[pa.DataType, str]]

ABOUT: dict[str, tuple[pa.DataType, str]] = {
    "cell": (pa.string(), "digest of everything that the result depends on; with repetition, the key"),
    "repetition": (pa.int32(), "from 1"),
    "date": (TIMESTAMP, "time of measurement"),
    "topologies": (pa.string(), "source of topologies, in a line"),
    **{name: (pa.string(), f"{name} of the source") for name in _KINDS},
    **{
        f"drawn_{name}": (
            pa.float64() if name == "share_of_uids" else pa.int64(),
            f"{name} of drawn topologies",
        )
        for name in PARAMETERS
    },
    "options": (_TEXTS, "Flink's options that the spec sets"),
    "costs": (pa.string(), "drawn, alike, a file or a store; null: costs in topologies, else all alike"),
    "planner": (pa.string(), "flink (its rules), or a custom planner"),
    "inputs": (pa.int64(), "topologies of the input"),
    "planned": (pa.int64(), "planned topologies"),
    "rejected": (pa.int64(), "topologies rejected by Flink's rules or for the planner's decisions"),
    "rejected_for": (
        pa.map_(pa.string(), pa.int64()),
        "rules that the planner broke, with the number of topologies",
    ),
    "read_seconds": (pa.float64(), "reading; null if an earlier cell read the same topologies"),
    "planning_seconds": (pa.float64(), "planning all layers, the planner's decisions and checks included"),
    "metrics_seconds": (pa.float64(), "deriving the metrics below"),
    "cpu_seconds": (pa.float64(), "processor time of the cell; null on a cluster"),
    "peak_memory_bytes": (pa.int64(), "peak memory of the measuring process; null on a cluster"),
    "error": (
        pa.string(),
        "reason for a missing result: an error's class, Timeout, Killed, Crashed, or the rule that the "
        "planner "
        "broke for all topologies; else null",
    ),
    "message": (pa.string(), "the error's message, or the first topologies that the planner failed for"),
    **{name: (pa.float64(), f"mean over topologies: {METRICS[name][1]}") for name in MEASURED},
    **{
        f"{name}_p95": (pa.float64(), f"95th percentile over topologies: {METRICS[name][1]}")
        for name in MEASURED
    },
    "penstock_version": (pa.string(), "version of Penstock"),
    "processor": (pa.string(), "processor"),
}
"""Columns of `results`: type and meaning."""

ABOUT_QUALITY: dict[str, tuple[pa.DataType, str]] = {
    "cell": (pa.string(), "as in results"),
    "repetition": (pa.int32(), "as in results"),
    "date": (TIMESTAMP, "as in results; rows without such a result are left over from a killed sweep"),
    "topology": (pa.string(), "name of a planned topology"),
    **{name: (pa.float64(), METRICS[name][1]) for name in MEASURED},
}
"""Columns of `quality`: type and meaning."""


def result_row(
    cell: Cell, date: datetime, answer: Mapping[str, Any], versions: Mapping[str, str]
) -> dict[str, Any]:
    """Make the row of a cell from its `result` or `failure` and the resources of its process."""
    result = answer.get("result") or {}
    failure = answer.get("failure") or planner_failure(result)
    metrics = result.get("metrics") or {}
    return {
        **dict.fromkeys(ABOUT),
        "cell": cell.key,
        "repetition": cell.repetition,
        "date": date,
        "topologies": cell.topologies,
        **{key if key in _KINDS else f"drawn_{key}": value for key, value in cell.source.items()},
        "options": list(cell.options.items()),
        "costs": cell.costs,
        "planner": cell.planner,
        **{name: result.get(name) for name in _OF_RESULTS},
        "rejected_for": list((result.get("rejected_for") or {}).items()) or None,
        "cpu_seconds": answer.get("cpu_seconds"),
        "peak_memory_bytes": answer.get("peak_memory_bytes"),
        "error": failure.get("error"),
        "message": failure.get("message"),
        **{name: values[0] for name, values in metrics.items() if name in MEASURED},
        **{f"{name}_p95": values[1] for name, values in metrics.items() if name in MEASURED},
        **versions,
    }


def planner_failure(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return `error` and `message` of the planner's faults; `error` is None if it planned some topologies."""
    counts = result.get("rejected_for") or {}
    if not counts:
        return {}
    inputs, examples = result.get("inputs") or 0, result.get("rejected_as") or {}
    message = "; ".join(
        f"{rule} for {count:,} of {inputs:,} topologies, the first {': '.join(examples.get(rule, ()))}"
        for rule, count in counts.items()
    )
    return {
        "error": None if result.get("planned") else max(counts, key=lambda rule: counts[rule]),
        "message": message,
    }


def quality_rows(row: Mapping[str, Any], answer: Mapping[str, Any]) -> pa.Table | None:
    """Return the rows of `quality` for `row` of `results`; None if nothing was planned."""
    text = (answer.get("result") or {}).get("quality")
    if not text:
        return None
    with pa.ipc.open_stream(base64.b64decode(text)) as stream:
        table = stream.read_all()
    key = {
        name: pa.array([row[name]] * len(table), ABOUT_QUALITY[name][0])
        for name in ("cell", "repetition", "date")
    }
    columns = {**key, **{name: table[name] for name in ABOUT_QUALITY if name not in key}}
    return pa.table(columns, schema=_plain(ABOUT_QUALITY))


_OF_RESULTS = ("inputs", "planned", "rejected", "read_seconds", "planning_seconds", "metrics_seconds")


@without_pandas()
def append_rows(folder: str, rows: Iterable[Mapping[str, Any]], quality: Iterable[pa.Table] = ()) -> None:
    """Append rows to `results` in one durable commit, after a commit of their rows of `quality`.

    Tables are created if missing. A result is visible once its row of `results` is. Raises StoreError.
    """
    metrics = list(quality)
    if metrics:
        _append(folder, QUALITY, pa.concat_tables(metrics), ABOUT_QUALITY)
    _append(folder, RESULTS, pa.Table.from_pylist(list(rows), _plain(ABOUT)), ABOUT)


def _append(folder: str, name: str, table: pa.Table, about: Columns) -> None:
    if not len(table):
        return
    path = os.path.join(folder, name)
    with store_errors(path, "writing"):
        delta_table = open_table(locate(path))
        if delta_table is None:
            schema, description = _delta_schema(about), _DESCRIPTION.format(RESULTS_FORMAT)
            delta_table = DeltaTable.create(path, schema, mode="error", description=description)
        if all(field.name != "cell" for field in delta_table.schema().fields):
            raise ConfigurationError(
                f"--out {folder}: its table {name} was not written by a sweep", "name another folder"
            )
        _require_format(path, delta_table)
        if reasons := features_against_writes(delta_table):
            raise StoreError(f"cannot write to {path}: it has {', '.join(reasons)}")
        since = delta_table.version()
        _add_columns(delta_table, about)
        file = write_file(path, "", iter([table]), table.schema)
        actions: list[Any] = [add_action(path, file, len(table), {})]
        delta_table.create_write_transaction(
            actions, "append", delta_table.schema(), commit_properties=STRICT
        )
        make_log_durable(path, since)


def _require_format(path: str, delta_table: DeltaTable) -> None:
    """StoreError if the table is of another format than this Penstock's."""
    written = str(delta_table.metadata().description).removeprefix(_DESCRIPTION.format(""))
    if written != str(RESULTS_FORMAT):
        raise StoreError(
            f"{path}: the results have format {written if written.isdecimal() else 'unknown'}; "
            f"Penstock {own_version()} reads format {RESULTS_FORMAT}",
            "use the Penstock that wrote them, or measure into another folder",
        )


def _plain(about: Columns) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, (kind, _) in about.items()])


def _delta_schema(about: Columns) -> Schema:
    fields = [pa.field(name, kind, metadata={COMMENT: text.encode()}) for name, (kind, text) in about.items()]
    return Schema.from_json(json.dumps(delta_schema(pa.schema(fields))))


def _add_columns(delta_table: DeltaTable, about: Columns) -> None:
    """Add missing columns to a table of an older Penstock; its rows are null there."""
    known = {field.name for field in delta_table.schema().fields}
    lacking = [field for field in _delta_schema(about).fields if field.name not in known]
    if lacking:
        delta_table.alter.add_columns(lacking)
        delta_table.update_incremental()


@without_pandas()
def forget_cells(folder: str, cells: Iterable[Cell]) -> None:
    """Delete the rows of cells, so that they are measured again. Raises StoreError."""
    keys = {cell.key for cell in cells}
    for name in (RESULTS, QUALITY):
        path = os.path.join(folder, name)
        with store_errors(path, "writing"):
            delta_table = open_table(locate(path))
            if delta_table is None or not keys:
                continue
            _require_format(path, delta_table)
            since = delta_table.version()
            listed = ", ".join(f"'{key}'" for key in sorted(keys))
            delta_table.delete(f"cell in ({listed})")
            for file in delta_table.file_uris():
                with open(file, "rb") as written:
                    force_descriptor(written.fileno())
            make_log_durable(path, since)


class CellResult(NamedTuple):
    """A row of `results`, with its error if it has no result, and the reason if the cell failed (partly)."""

    error: str | None
    failure: str | None


@without_pandas()
def measured_cells(folder: str) -> dict[tuple[str, int], CellResult]:
    """Return the newest row of each cell in the table, by (cell, repetition)."""
    path = os.path.join(folder, RESULTS)
    with store_errors(path, "reading"):
        delta_table = open_table(locate(path))
        if delta_table is None:
            return {}
        _require_format(path, delta_table)
        columns = ["cell", "repetition", "date", "error", "message"]
        rows = sorted(to_table(delta_table.scan(columns)).to_pylist(), key=lambda row: row["date"])
        return {
            (row["cell"], row["repetition"]): CellResult(row["error"], failure_of_row(row)) for row in rows
        }


def failure_of_row(row: Mapping[str, Any]) -> str | None:
    """Return the reason why a cell failed, wholly or partly; None if it did not."""
    error, message = row["error"], row["message"]
    if error is None:
        return None if message is None else str(message)
    return message if str(message).startswith(f"{error} for ") else f"{error}: {message}"
