"""Parse and validate topology lines into Arrow columns, in one pass in Spark's Python workers.

Input rows (LINES): value (binary, one line); source_file; block_start (of the file's split; Spark delivers
the lines of a split in order); ordinal (position in the block from 0; null: count); problem (why there is no
line); line (of an element of a document: its first line, from 0); too_long_bytes (the size of a line that is
not included).

Output rows (PARSED): one per topology or bad line, with its transformations, nodes and edges as arrays.
Arrays of more than ROWS_A_BATCH entries continue in further rows that contain nothing else, which bounds the
size of a row. Each block also yields one row with only `block_lines`, its number of lines, from which line
numbers are computed. On Spark, a document that is left to a second reading yields one row with only
`is_document`.
"""

import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlparse

import numpy as np
import orjson
import pyarrow as pa

from penstock.plans.errors import INPUT_STAGE, STREAM_GRAPH_STAGE, ErrorKind, TopologyError
from penstock.plans.importing.known_forms import as_topology
from penstock.plans.printable import MOST_ERRORS, limited
from penstock.plans.tables import JOB_SETTINGS, REJECTED, STREAM_EDGES, STREAM_NODES, TRANSFORMATIONS
from penstock.plans.tables.column_types import BOOL, CONFIG, INT, LONG, STR
from penstock.plans.topology.canonical_texts import (
    canonical_rows,
    nodes_with_sources,
    offsets,
    placed_edges,
    stream_edge_columns,
    stream_node_columns,
    transformation_columns,
)
from penstock.plans.topology.fingerprint import header, stream_graph_fingerprint, transformations_fingerprints
from penstock.plans.topology.input_errors import line_too_long
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.job_settings import (
    ILLEGAL_ARGUMENT,
    FlinkRefusal,
    may_run_as_batch,
    read_job_settings,
    read_stream_graph_settings,
)
from penstock.plans.topology.json_documents import duplicate_keys
from penstock.plans.topology.operator_rules import UID_HASH
from penstock.plans.topology.validate_topology import LINE, parse_topology, validate_topology
from penstock.plans.topology.validate_transformations import kind_by_bounds, reads_unbounded_source
from penstock.plans.vocabulary import TopologyForm

# Parsed lines as Arrow batches of bounded size.


ROWS_A_BATCH = 16_384
"""The most transformations, nodes and edges in one row, and about the most in one batch."""


def _nullable(table: pa.Schema) -> pa.DataType:
    """Return the columns of a table after topology_id as a struct; nullable, since only some
    rows have them.
    """
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


class ParsedLine(NamedTuple):
    """The row of one line, and the entries of its arrays."""

    row: dict[str, Any]
    transformations: Sequence[Any] = ()
    stream_nodes: Sequence[Any] = ()
    stream_edges: Sequence[Any] = ()
    header: bytes = b""


def _parsed_batches(pending: list[ParsedLine]) -> Iterator[pa.RecordBatch]:
    """Yield one batch of all rows; arrays above ROWS_A_BATCH continue in batches of their own."""
    flat = {key: [entry for p in pending for entry in getattr(p, key)] for key in NESTED_COLUMNS}
    structs = {key: build(flat[key]) if flat[key] else None for key, build in NESTED_COLUMNS.items()}
    if structs["transformations"] is not None:
        _add_fingerprints(pending, structs["transformations"])
    lengths = {key: [len(getattr(p, key)) for p in pending] for key in NESTED_COLUMNS}
    rows = [p.row for p in pending]
    if all(length <= ROWS_A_BATCH for row_lengths in lengths.values() for length in row_lengths):
        yield _batch(rows, structs, lengths)
        return
    for position, row in enumerate(rows):
        yield from _in_parts(row, position, structs, lengths)


def _in_parts(
    row: dict[str, Any], position: int, structs: dict[str, Any], lengths: dict[str, list[int]]
) -> Iterator[pa.RecordBatch]:
    """Yield one topology with ROWS_A_BATCH array elements per row; only the first row describes
    the topology.
    """
    starts = {key: sum(row_lengths[:position]) for key, row_lengths in lengths.items()}
    totals = {key: row_lengths[position] for key, row_lengths in lengths.items()}
    continuation = {key: row.get(key) for key in ("source_file", "block_start", "ordinal", "line", "name")}
    for done in range(0, max(*totals.values(), 1), ROWS_A_BATCH):
        parts = {key: max(0, min(ROWS_A_BATCH, total - done)) for key, total in totals.items()}
        pieces = {
            key: struct.slice(starts[key] + done, parts[key]) if struct is not None else None
            for key, struct in structs.items()
        }
        yield _batch(
            [row if done == 0 else continuation], pieces, {key: [part] for key, part in parts.items()}
        )


def _add_fingerprints(pending: list[ParsedLine], transformations: pa.StructArray) -> None:
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


LINES = (
    "value binary, source_file string, block_start long, ordinal long, problem string, line long, "
    "too_long_bytes long"
)


class TopologyLine(NamedTuple):
    """A row of LINES, for a line, an element of a document, or a placeholder for one that is too long."""

    value: bytes
    source_file: str | None
    block_start: int
    ordinal: int | None = None  #: None: to be counted
    problem: str | None = None
    line: int | None = None  #: only for an element
    too_long_bytes: int | None = None


def parse_lines(
    batches: Iterable[pa.RecordBatch],
    max_line_bytes: int | None = None,
    job_defaults: JobDefaults = NO_DEFAULTS,
    cut_bytes: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Parse the lines for `mapInArrow` over LINES; yield batches of PARSED.

    Lines longer than `max_line_bytes` are rejected (None: no limit); a line of exactly `cut_bytes` may be
    truncated. `job_defaults` apply to settings that topologies leave unset.
    """
    return parse_each(lines_of(batches), max_line_bytes, job_defaults, cut_bytes)


def lines_of(batches: Iterable[pa.RecordBatch]) -> Iterator[TopologyLine]:
    """Yield the rows of LINES."""
    for batch in batches:
        columns = [batch.column(i).to_pylist() for i in range(batch.num_columns)]
        yield from map(TopologyLine._make, zip(*columns, strict=True))


def parse_each(
    lines: Iterable[TopologyLine],
    max_line_bytes: int | None,
    job_defaults: JobDefaults = NO_DEFAULTS,
    cut_bytes: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the lines as batches of PARSED.

    The garbage collector is off meanwhile: parsed JSON has no cycles, and collection would take a third of
    the time.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield from _parse_blocks(lines, max_line_bytes, job_defaults, cut_bytes)
    finally:
        if collecting:
            gc.enable()


def _parse_blocks(
    lines: Iterable[TopologyLine],
    max_line_bytes: int | None,
    job_defaults: JobDefaults,
    cut_bytes: int | None,
) -> Iterator[pa.RecordBatch]:
    block: tuple[str | None, int] | None = None
    path: str | None = None
    seen, size = 0, 0
    pending: list[ParsedLine] = []
    for value, file, start, ordinal, problem, line, too_long_bytes in lines:
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
            error = line_too_long(size_bytes, max_line_bytes, cut_bytes)
            parsed = _rejected(place, None, INPUT_STAGE, [error])
        elif problem is None and not value.strip():
            continue
        else:
            parsed = _parse_line(value, problem, place, job_defaults)
        size += len(parsed.transformations) + len(parsed.stream_nodes) + len(parsed.stream_edges) + 1
        pending.append(parsed)
        if size >= ROWS_A_BATCH:
            yield from _parsed_batches(pending)
            pending, size = [], 0
    if block is not None:
        pending.append(_block_end(path, block[1], seen))
        yield from _parsed_batches(pending)


def readable_path(file: str) -> str:
    """Return the path that a person would type for a local file's URI; other URIs stay."""
    return unquote(urlparse(file).path) if file.startswith("file:") else file


def _block_end(path: str | None, start: int, lines: int) -> ParsedLine:
    return ParsedLine({"source_file": path, "block_start": start, "block_lines": lines})


def _rejected(place: dict[str, Any], name: Any, stage: str, errors: list[TopologyError]) -> ParsedLine:
    return ParsedLine(
        {
            **place,
            "name": name if type(name) is str and name else None,
            "error_stage": stage,
            "errors": shown_errors(errors),
        }
    )


def with_stage(topology: dict[str, Any], errors: list[TopologyError]) -> tuple[str, list[TopologyError]]:
    """Return the stage that refuses a topology, and its errors, which are Flink's own if Flink
    reports them.
    """
    refusal = refuse_uid_hashes(topology, errors)
    if refusal is None:
        return INPUT_STAGE, errors
    return refusal.error_stage, refusal.as_topology_errors()


def shown_errors(errors: list[TopologyError]) -> list[dict[str, str]]:
    """Return the errors of a topology as structs of the `rejected` table."""
    return [shown(error) for error in first_errors(errors)]


def shown(error: TopologyError) -> dict[str, str]:
    """Return an error as a struct of the `rejected` table, with each part cut to MOST_CHARACTERS."""
    return {slot: limited(str(getattr(error, slot))) for slot in TopologyError.__slots__}


def first_errors(errors: list[TopologyError]) -> list[TopologyError]:
    """Return MOST_ERRORS of a topology's errors, and one with the number of further ones."""
    more = len(errors) - MOST_ERRORS
    if more <= 0:
        return errors
    rest = TopologyError(ErrorKind.MORE_ERRORS, "topology", f"{more:,} more errors", "", "fix these first")
    return [*errors[:MOST_ERRORS], rest]


def as_arrow(settings: dict[str, Any]) -> dict[str, Any]:
    """Return job settings with maps in the form that Arrow accepts."""
    return {key: list(value.items()) if type(value) is dict else value for key, value in settings.items()}


def _parse_line(
    value: bytes, problem: str | None, place: dict[str, Any], job_defaults: JobDefaults
) -> ParsedLine:
    if problem is not None:
        error = TopologyError(ErrorKind.NOT_JSON, LINE, problem, "valid JSON", "")
        return _rejected(place, None, INPUT_STAGE, [error])
    topology = parse_topology(value)
    if isinstance(topology, TopologyError):
        return _rejected(place, None, INPUT_STAGE, [topology])
    errors = duplicate_keys(value, topology)
    if TopologyForm.TRANSFORMATIONS not in topology:
        imported = as_topology(topology, place["source_file"], place["ordinal"])
        if isinstance(imported, list):
            return _rejected(place, topology.get("name"), INPUT_STAGE, errors + imported)
        topology = imported
    topology = job_defaults.under(topology)
    errors += validate_topology(topology)
    if errors:
        return _rejected(place, topology.get("name"), *with_stage(topology, errors))
    try:
        return _accepted(topology, place)
    except FlinkRefusal as refusal:
        return _rejected(place, topology["name"], refusal.error_stage, refusal.as_topology_errors())


def _accepted(topology: dict[str, Any], place: dict[str, Any]) -> ParsedLine:
    """Return a valid topology as a row; raise FlinkRefusal."""
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
            and reads_unbounded_source(
                (kind_by_bounds(t["kind"], t.get("bounded")), t.get("inputs", ())) for t in transformations
            ),
        )
        row |= {"form": str(TopologyForm.TRANSFORMATIONS), "settings": as_arrow(settings)}
        return ParsedLine(row, transformations, header=header(topology, TopologyForm.TRANSFORMATIONS))
    graph = topology["stream_graph"]
    settings = read_stream_graph_settings(
        graph,
        config,
        topology_name=row["name"],
        parallelism=row["parallelism"],
        max_parallelism=row["max_parallelism"],
    )
    graph_settings = {key: value for key, value in graph.items() if key not in ("nodes", "edges")}
    row |= {
        "form": str(TopologyForm.STREAM_GRAPH),
        "settings": as_arrow(settings),
        "stream_graph_settings": orjson.dumps(graph_settings).decode(),
        "fingerprint": stream_graph_fingerprint(header(topology, TopologyForm.STREAM_GRAPH), graph),
    }
    return ParsedLine(row, stream_nodes=nodes_with_sources(graph), stream_edges=placed_edges(graph))


# Uid hashes that Flink refuses, before it reads any setting.


_MESSAGE = "Node hash must be a 32 character String that describes a hex code. Found: "


def refuse_uid_hashes(topology: dict[str, Any], errors: Sequence[TopologyError]) -> FlinkRefusal | None:
    """Return Flink's refusal if only uid hashes (and options) of the `transformations` are wrong.

    `errors`: the complete result of validate_topology. Source: Transformation.setUidHash.
    """
    if "transformations" not in topology or not all(map(_is_flinks, errors)):
        return None
    hashes = (entry.get("uid_hash") for entry in topology["transformations"])
    wrong = [uid_hash for uid_hash in hashes if uid_hash is not None and not UID_HASH.accepts(uid_hash)]
    if not wrong:
        return None
    return FlinkRefusal(STREAM_GRAPH_STAGE, ILLEGAL_ARGUMENT, f"{_MESSAGE}{wrong[0]}", tuple(errors))


def _is_flinks(error: TopologyError) -> bool:
    is_hash_error = error.error == ErrorKind.OUT_OF_RANGE and error.found.startswith("uid_hash ")
    return is_hash_error or error.error == ErrorKind.INVALID_OPTION_VALUE
