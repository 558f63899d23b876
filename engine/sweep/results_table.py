"""The Delta table `results` of a sweep: one row for each cell and repetition."""

import json
import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema

from penstock.engine.store.delta_rs_table import STRICT, open_table, to_table
from penstock.engine.store.require_columns import features_against_writes
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.stored_tables import delta_schema
from penstock.engine.store.write_file import add_action, make_log_durable, write_file
from penstock.engine.sweep.grid import Cell
from penstock.engine.sweep.sweep_spec import PARAMETERS
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import StoreError
from penstock.plans.metrics.plan_metrics import METRICS
from penstock.plans.tables.column_types import COMMENT, TIMESTAMP

RESULTS = "results"
MEASURED = tuple(name for name in METRICS if name != "bottleneck")
"""Metrics that are numbers."""

_KINDS = ("shape", "file", "spec")
_TEXTS = pa.map_(pa.string(), pa.string())
ABOUT: dict[str, tuple[pa.DataType, str]] = {
    "cell": (pa.string(), "digest of all that the result follows from; with repetition, the key"),
    "repetition": (pa.int32(), "from 1"),
    "date": (TIMESTAMP, "when it was measured"),
    "topologies": (pa.string(), "where topologies come from, in a line"),
    **{name: (pa.string(), f"the {name} that they come from") for name in _KINDS},
    **{
        f"drawn_{name}": (pa.float64() if name == "share_of_uids" else pa.int64(), f"{name} of what is drawn")
        for name in PARAMETERS
    },
    "options": (_TEXTS, "Flink's options that the spec sets"),
    "costs": (pa.string(), "drawn, alike, a file or a store; null: as topologies say, else all alike"),
    "planner": (pa.string(), "flink (its rules), or a planner of your own"),
    "inputs": (pa.int64(), "topologies that came in"),
    "planned": (pa.int64(), "of them planned"),
    "rejected": (pa.int64(), "of them rejected, by Flink's rules or for what the planner decided"),
    "rejected_for": (
        pa.map_(pa.string(), pa.int64()),
        "rules that the planner broke, and how many topologies",
    ),
    "read_seconds": (pa.float64(), "reading; null where an earlier cell had read the same"),
    "planning_seconds": (pa.float64(), "planning all layers, the planner's decisions and checks included"),
    "metrics_seconds": (pa.float64(), "deriving the metrics below"),
    "cpu_seconds": (pa.float64(), "processor time of the cell; null on a cluster"),
    "peak_memory_bytes": (pa.int64(), "most memory that the measuring process held; null on a cluster"),
    "error": (pa.string(), "why there is no result: an error's class, Timeout, Killed, Crashed; else null"),
    "message": (pa.string(), "what it said"),
    **{name: (pa.float64(), f"mean over topologies: {METRICS[name][1]}") for name in MEASURED},
    **{
        f"{name}_p95": (pa.float64(), f"95th percentile over topologies: {METRICS[name][1]}")
        for name in MEASURED
    },
    "penstock_version": (pa.string(), "which Penstock measured"),
    "processor": (pa.string(), "on which processor"),
}
"""Columns: type and meaning."""

SCHEMA = pa.schema(
    [pa.field(name, kind, metadata={COMMENT: about.encode()}) for name, (kind, about) in ABOUT.items()]
)
_PLAIN = pa.schema([pa.field(name, kind) for name, (kind, _) in ABOUT.items()])


def result_row(
    cell: Cell, date: datetime, answer: Mapping[str, Any], versions: Mapping[str, str]
) -> dict[str, Any]:
    """The row of a cell: its `result` or `failure`, and what its process used."""
    result = answer.get("result") or {}
    failure = answer.get("failure") or {}
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


_OF_RESULTS = ("inputs", "planned", "rejected", "read_seconds", "planning_seconds", "metrics_seconds")


@without_pandas()
def append_rows(folder: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows in one commit, durable; the table is made unless it is there. Raises StoreError."""
    table = pa.Table.from_pylist(list(rows), _PLAIN)
    if not len(table):
        return
    path = os.path.join(folder, RESULTS)
    with store_errors(path, "writing"):
        delta_table = open_table(path)
        if delta_table is None:
            delta_table = DeltaTable.create(
                path, Schema.from_json(json.dumps(delta_schema(SCHEMA))), mode="error"
            )
        if reasons := features_against_writes(delta_table):
            raise StoreError(f"cannot write to {path}: it has {', '.join(reasons)}")
        since = delta_table.version()
        _add_columns(delta_table)
        file = write_file(path, "", iter([table]), _PLAIN)
        actions: list[Any] = [add_action(path, file, len(table), {})]
        delta_table.create_write_transaction(
            actions, "append", delta_table.schema(), commit_properties=STRICT
        )
        make_log_durable(path, since)


def _add_columns(delta_table: DeltaTable) -> None:
    """A table of an older Penstock gets the columns that it lacks; rows that it has say nothing there."""
    known = {field.name for field in delta_table.schema().fields}
    lacking = [field for field in Schema.from_json(json.dumps(delta_schema(SCHEMA))).fields
               if field.name not in known]  # fmt: skip
    if lacking:
        delta_table.alter.add_columns(lacking)
        delta_table.update_incremental()


@without_pandas()
def forget_cells(folder: str, cells: Iterable[Cell]) -> None:
    """Take the rows of cells away in one commit, so that they are measured again. Raises StoreError."""
    keys = {cell.key for cell in cells}
    path = os.path.join(folder, RESULTS)
    with store_errors(path, "writing"):
        delta_table = open_table(path)
        if delta_table is None or not keys:
            return
        since = delta_table.version()
        listed = ", ".join(f"'{key}'" for key in sorted(keys))
        delta_table.delete(f"cell in ({listed})")
        for file in delta_table.file_uris():
            with open(file, "rb") as written:
                os.fsync(written.fileno())
        make_log_durable(path, since)


@without_pandas()
def measured_cells(folder: str) -> dict[tuple[str, int], str | None]:
    """The cells that the table has, by (cell, repetition), with the error of those that failed."""
    path = os.path.join(folder, RESULTS)
    with store_errors(path, "reading"):
        delta_table = open_table(path)
        if delta_table is None:
            return {}
        rows = to_table(delta_table.scan(["cell", "repetition", "error"])).to_pylist()
        return {(row["cell"], row["repetition"]): row["error"] for row in rows}
