"""Parsed lines as Arrow batches of bounded size."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.plans.tables import JOB_SETTINGS, REJECTED, STREAM_EDGES, STREAM_NODES, TRANSFORMATIONS
from penstock.plans.tables.column_types import BOOL, CONFIG, INT, LONG, STR
from penstock.plans.topology.fingerprint import transformations_fingerprints
from penstock.plans.topology.stream_graph_columns import stream_edge_columns, stream_node_columns
from penstock.plans.topology.transformation_columns import canonical_rows, offsets, transformation_columns

ROWS_A_BATCH = 16_384
"""Transformations, nodes and edges in one Arrow batch, and at most in one row."""


def _nullable(table: pa.Schema) -> pa.DataType:
    """Rows with the columns of a table after topology_id; nullable, since only some rows hold them."""
    return pa.struct([(column.name, column.type) for column in table if column.name != "topology_id"])


SETTINGS = _nullable(JOB_SETTINGS)
ERRORS = REJECTED.field("errors").type
ROW_TYPES: dict[str, pa.DataType] = {
    "source_file": STR,
    "block_start": LONG,
    "ordinal": LONG,
    "line": LONG,
    "block_lines": LONG,
    "is_document": BOOL,
    "name": STR,
    "form": STR,
    "parallelism": INT,
    "max_parallelism": INT,
    "chaining": BOOL,
    "config": CONFIG,
    "stream_graph_settings": STR,
    "fingerprint": STR,
    "error_stage": STR,
    "errors": ERRORS,
    "settings": SETTINGS,
}
PARSED = pa.schema(
    [
        *ROW_TYPES.items(),
        ("transformations", pa.list_(_nullable(TRANSFORMATIONS))),
        ("stream_nodes", pa.list_(_nullable(STREAM_NODES))),
        ("stream_edges", pa.list_(_nullable(STREAM_EDGES))),
    ]
)
NESTED_COLUMNS = {
    "transformations": transformation_columns,
    "stream_nodes": stream_node_columns,
    "stream_edges": stream_edge_columns,
}


class Parsed(NamedTuple):
    """One line: its row, and what goes into the arrays."""

    row: dict[str, Any]
    transformations: Sequence[Any] = ()
    stream_nodes: Sequence[Any] = ()
    stream_edges: Sequence[Any] = ()
    header: bytes = b""


def parsed_batches(pending: list[Parsed]) -> Iterator[pa.RecordBatch]:
    """One batch of all rows; the arrays of a topology above ROWS_A_BATCH go on in batches of their own."""
    flat = {key: [entry for p in pending for entry in getattr(p, key)] for key in NESTED_COLUMNS}
    structs = {key: build(flat[key]) if flat[key] else None for key, build in NESTED_COLUMNS.items()}
    if structs["transformations"] is not None:
        _add_fingerprints(pending, structs["transformations"])
    lengths = {key: [len(getattr(p, key)) for p in pending] for key in NESTED_COLUMNS}
    rows = [p.row for p in pending]
    if all(length <= ROWS_A_BATCH for of_key in lengths.values() for length in of_key):
        yield _batch(rows, structs, lengths)
        return
    for position, row in enumerate(rows):
        yield from _in_parts(row, position, structs, lengths)


def _in_parts(
    row: dict[str, Any], position: int, structs: dict[str, Any], lengths: dict[str, list[int]]
) -> Iterator[pa.RecordBatch]:
    """One topology, with ROWS_A_BATCH array elements per row; only the first row names the topology."""
    starts = {key: sum(of_key[:position]) for key, of_key in lengths.items()}
    totals = {key: of_key[position] for key, of_key in lengths.items()}
    go_on = {key: row.get(key) for key in ("source_file", "block_start", "ordinal", "line", "name")}
    for done in range(0, max(*totals.values(), 1), ROWS_A_BATCH):
        parts = {key: max(0, min(ROWS_A_BATCH, total - done)) for key, total in totals.items()}
        pieces = {
            key: struct.slice(starts[key] + done, parts[key]) if struct is not None else None
            for key, struct in structs.items()
        }
        yield _batch([row if done == 0 else go_on], pieces, {key: [part] for key, part in parts.items()})


def _add_fingerprints(pending: list[Parsed], transformations: pa.StructArray) -> None:
    owners = [p for p in pending if p.transformations]
    lengths = np.array([len(p.transformations) for p in owners])
    texts = canonical_rows(transformations)
    starts = np.cumsum(lengths) - lengths
    digests = transformations_fingerprints([p.header for p in owners], texts, starts, lengths)
    for owner, digest in zip(owners, digests, strict=True):
        owner.row["fingerprint"] = digest


def _batch(
    rows: list[dict[str, Any]], structs: dict[str, Any], lengths: dict[str, list[int]]
) -> pa.RecordBatch:
    columns = {key: pa.array([row.get(key) for row in rows], kind) for key, kind in ROW_TYPES.items()}
    for key, build in NESTED_COLUMNS.items():
        struct = structs[key] if structs[key] is not None else build([])
        columns[key] = pa.ListArray.from_arrays(offsets(lengths[key]), struct)
    return pa.RecordBatch.from_pydict(columns)
