"""The one pass over topology lines, in Spark's Python workers: parse, validate, and give Arrow columns.

Input rows: value (binary, one line), source_file, block_start (of the file's split; Spark gives a split's
lines in order), ordinal (place in the block from 0; null = count them), problem (why there is no line), line
(of an element of a document: where it begins, from 0), too_long_bytes (of a line that is not held: its size).

Output rows (PARSED): one a topology or bad line, with its transformations, nodes and edges as arrays; what
exceeds ROWS_A_BATCH goes on in further rows that hold nothing else, so that no row grows with a topology. And
one a block with nothing but `block_lines`, its number of lines, from which line numbers follow. If asked for,
one a document with nothing but `is_document`.
"""

import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

import numpy as np
import orjson
import pyarrow as pa

from plans.errors import TopologyError
from plans.message_limits import MOST_ERRORS, limited
from plans.tables import JOB_SETTINGS, REJECTED, STREAM_EDGES, STREAM_NODES, TRANSFORMATIONS
from plans.tables.column_types import BOOL, CONFIG, INT, LONG, STR
from plans.topology.duplicate_keys import duplicate_keys
from plans.topology.error_kinds import INPUT_STAGE, ErrorKind
from plans.topology.fingerprint import header, stream_graph_fingerprint, transformations_fingerprints
from plans.topology.job_settings import may_run_as_batch, read_job_settings, read_stream_graph_settings
from plans.topology.line_too_long import line_too_long
from plans.topology.reads_unbounded_source import reads_unbounded_source
from plans.topology.refuse_uid_hashes import refuse_uid_hashes
from plans.topology.rows_without_documents import rows_without_documents
from plans.topology.setting_refusals import FlinkRefusal
from plans.topology.stream_graph_columns import placed_edges, stream_edge_columns, stream_node_columns
from plans.topology.transformation_columns import canonical_rows, offsets, transformation_columns
from plans.topology.validate_topology import LINE, parse_topology, validate_topology
from plans.vocabulary import TopologyForm

ROWS_A_BATCH = 16_384
"""Transformations, nodes and edges in one Arrow batch, and at most in one row."""


def _nullable(table: pa.Schema) -> pa.DataType:
    """Rows with the columns of a table after topology_id; nullable, since only some rows hold them."""
    return pa.struct([(column.name, column.type) for column in table if column.name != "topology_id"])


SETTINGS = _nullable(JOB_SETTINGS)
ERRORS = REJECTED.field("errors").type
LINES = (
    "value binary, source_file string, block_start long, ordinal long, problem string, line long, "
    "too_long_bytes long"
)
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


class _Parsed(NamedTuple):
    """One line: its row, and what goes into the arrays."""

    row: dict[str, Any]
    transformations: Sequence[Any] = ()
    stream_nodes: Sequence[Any] = ()
    stream_edges: Sequence[Any] = ()
    header: bytes = b""


def parse_lines(
    batches: Iterable[pa.RecordBatch], max_line_bytes: int | None = None, pass_over_documents: bool = False
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over LINES; gives batches of PARSED.

    Lines longer than `max_line_bytes` are rejected (None: lines are read whatever their length). If
    `pass_over_documents`, the first block of a file that is a document (see json_documents) gives one row
    that says so.

    Parsed JSON has no cycles, so the worker's cycle collector, a third of the time, rests meanwhile.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        documents: list[str] = []
        rows = _rows(batches)
        yield from _parse_rows(
            rows_without_documents(rows, documents) if pass_over_documents else rows, max_line_bytes
        )
        if documents:
            of_each = ({"source_file": file, "block_start": 0, "is_document": True} for file in documents)
            yield from _record_batches([_Parsed(row) for row in of_each])
    finally:
        if collecting:
            gc.enable()


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        columns = [batch.column(i).to_pylist() for i in range(batch.num_columns)]
        yield from zip(*columns, strict=True)


def _parse_rows(rows: Iterable[tuple[Any, ...]], max_line_bytes: int | None) -> Iterator[pa.RecordBatch]:
    block: tuple[str | None, int] | None = None
    path: str | None = None
    seen, size = 0, 0
    pending: list[_Parsed] = []
    for value, file, start, ordinal, problem, line, too_long_bytes in rows:
        if (file, start) != block:
            if block is not None:
                pending.append(_block_end(path, block[1], seen))
            block, seen = (file, start), 0
            path = None if file is None else readable_path(file)
        place = {
            "source_file": path,
            "block_start": start,
            "ordinal": seen if ordinal is None else ordinal,
            "line": line,
        }
        seen += 1
        size_bytes = len(value) if too_long_bytes is None else too_long_bytes
        if problem is None and max_line_bytes is not None and size_bytes > max_line_bytes:
            error = line_too_long(size_bytes, max_line_bytes)
            parsed = _rejected(place, None, INPUT_STAGE, [error])
        elif problem is None and not value.strip():
            continue
        else:
            parsed = _parse_line(value, problem, place)
        size += len(parsed.transformations) + len(parsed.stream_nodes) + len(parsed.stream_edges) + 1
        pending.append(parsed)
        if size >= ROWS_A_BATCH:
            yield from _record_batches(pending)
            pending, size = [], 0
    if block is not None:
        pending.append(_block_end(path, block[1], seen))
        yield from _record_batches(pending)


def readable_path(file: str) -> str:
    """The path a person would type for a local file's URI; others stay URIs."""
    return unquote(urlparse(file).path) if file.startswith("file:") else file


def _block_end(path: str | None, start: int, lines: int) -> _Parsed:
    return _Parsed({"source_file": path, "block_start": start, "block_lines": lines})


def _rejected(place: dict[str, Any], name: Any, stage: str, errors: list[TopologyError]) -> _Parsed:
    return _Parsed(
        {
            **place,
            "name": name if type(name) is str and name else None,
            "error_stage": stage,
            "errors": [shown(e) for e in first_errors(errors)],
        }
    )


def shown(error: TopologyError) -> dict[str, str]:
    """An error as its struct in the `rejected` table, no part longer than MOST_CHARACTERS."""
    return {slot: limited(str(getattr(error, slot))) for slot in TopologyError.__slots__}


def first_errors(errors: list[TopologyError]) -> list[TopologyError]:
    """MOST_ERRORS of a topology's errors, and one that says how many more there are."""
    more = len(errors) - MOST_ERRORS
    if more <= 0:
        return errors
    rest = TopologyError(ErrorKind.MORE_ERRORS, "topology", f"{more:,} more errors", "", "mend these first")
    return [*errors[:MOST_ERRORS], rest]


def as_arrow(settings: dict[str, Any]) -> dict[str, Any]:
    """Job settings with maps as Arrow takes them."""
    return {key: list(value.items()) if type(value) is dict else value for key, value in settings.items()}


def _parse_line(value: bytes, problem: str | None, place: dict[str, Any]) -> _Parsed:
    if problem is not None:
        error = TopologyError(ErrorKind.NOT_JSON, LINE, problem, "what JSON can say", "")
        return _rejected(place, None, INPUT_STAGE, [error])
    topology = parse_topology(value)
    if isinstance(topology, TopologyError):
        return _rejected(place, None, INPUT_STAGE, [topology])
    errors = duplicate_keys(value, topology) + validate_topology(topology)
    if errors:
        refusal = refuse_uid_hashes(topology, errors)
        if refusal is None:
            return _rejected(place, topology.get("name"), INPUT_STAGE, errors)
        return _rejected(place, topology["name"], refusal.error_stage, refusal.as_topology_errors())
    try:
        return _accepted(topology, place)
    except FlinkRefusal as refusal:
        return _rejected(place, topology["name"], refusal.error_stage, refusal.as_topology_errors())


def _accepted(topology: dict[str, Any], place: dict[str, Any]) -> _Parsed:
    """A valid topology as a row; raises FlinkRefusal."""
    config = topology.get("config", {})
    row = {
        **place,
        "name": topology["name"],
        "parallelism": topology.get("parallelism", 1),
        "max_parallelism": topology.get("max_parallelism"),
        "chaining": topology.get("chaining", True),
        "config": list(config.items()),
    }
    if TopologyForm.TRANSFORMATIONS in topology:
        transformations = topology["transformations"]
        settings = read_job_settings(
            config,
            topology_name=row["name"],
            parallelism=row["parallelism"],
            max_parallelism=row["max_parallelism"],
            chaining=row["chaining"],
            transformations_have_unbounded_source=may_run_as_batch(config)
            and reads_unbounded_source((t["kind"], t.get("inputs", ())) for t in transformations),
        )
        row |= {"form": str(TopologyForm.TRANSFORMATIONS), "settings": as_arrow(settings)}
        return _Parsed(row, transformations, header=header(topology, TopologyForm.TRANSFORMATIONS))
    graph = topology["stream_graph"]
    settings = read_stream_graph_settings(
        graph,
        config,
        topology_name=row["name"],
        parallelism=row["parallelism"],
        max_parallelism=row["max_parallelism"],
    )
    kept = {key: value for key, value in graph.items() if key not in ("nodes", "edges")}
    row |= {
        "form": str(TopologyForm.STREAM_GRAPH),
        "settings": as_arrow(settings),
        "stream_graph_settings": orjson.dumps(kept).decode(),
        "fingerprint": stream_graph_fingerprint(header(topology, TopologyForm.STREAM_GRAPH), graph),
    }
    return _Parsed(row, stream_nodes=graph["nodes"], stream_edges=placed_edges(graph))


def _record_batches(pending: list[_Parsed]) -> Iterator[pa.RecordBatch]:
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
    """One topology, ROWS_A_BATCH array elements a row; only the first row says what topology it is."""
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


def _add_fingerprints(pending: list[_Parsed], transformations: pa.StructArray) -> None:
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
