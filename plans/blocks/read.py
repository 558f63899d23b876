"""Read a giant in blocks, validate given rows, and walk over its inputs where a rule needs all of them."""

from collections.abc import Iterator

import numpy as np
import orjson
import polars as pl
import pyarrow as pa

from penstock.plans.blocks.giant import EXCESS, EXPLAINED, SUMMARY, TAKEN, UNBOUNDED, Giant, runs_of
from penstock.plans.blocks.messages import DRIVER, WALK, Inbox, Message
from penstock.plans.frames.arrays import Ints
from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.stream_graph.expand_sinks import EXPANDED, number_sinks, sizes_of_sinks
from penstock.plans.stream_graph.refuse_stream_graphs import refuse_transformations
from penstock.plans.stream_graph.resolve_virtual_nodes import (
    FIRST_VIRTUAL,
    KINDS,
    LABELLED,
    InputRows,
    beyond_limit_of,
    offsets,
    resolve_virtual_nodes,
)
from penstock.plans.stream_graph.transformation_details import details_of, has_details
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.lines_of_tables import (
    Numbers,
    cycle_of,
    numbers_in_order,
    position_in,
    texts_of_wrong_rows,
    validate_wrong_rows,
    wrong_by_number,
)
from penstock.plans.topology.normalized_tables import given_columns, normalized_transformations
from penstock.plans.topology.read_topology_tables import digest_checked_blocks, kinds_by_bounds
from penstock.plans.topology.validate_transformations import reads_unbounded_source
from penstock.plans.vocabulary import Kind

_OLDEST = pl.CompatLevel.oldest()


# The first job: each block reads its rows.


def read(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """Read and check the transformations of a block.

    To other blocks: named (ids of their rows that are inputs here). To the block: rows; kinds (of all rows)
    and virtual (rows of virtual transformations). To the driver: SUMMARY. Blocks with wrong rows send only
    SUMMARY and rows.
    """
    rows = _rows(giant, block, inbox)
    first, end = giant.starts[block : block + 2]
    ids = rows["id"].fill_null(0).to_numpy()
    sound = len(ids) == end - first and bool((ids == np.arange(first, end)).all())
    digests: list[str] = []
    if giant.given and sound:
        digests = digest_checked_blocks(rows, giant.starts[-1] - 1)
        sound = "" not in digests
    kinds = kinds_of(rows) if sound else np.zeros(0, np.uint8)
    summary = {
        "block": block,
        "sound": sound,
        "digests": digests,
        "kinds": np.bincount(kinds, minlength=len(KINDS)).tolist(),
        "named_groups": rows["slot_sharing_group"].null_count() < len(rows) or _steps_name_groups(rows),
        "expands_sinks": rows["sink_topology"].null_count() < len(rows),
        "legacy_by_bounds": 0,
        "highest_node_id": None,
    }
    if sound:
        legacy = kinds_of(rows.select(kinds_by_bounds(rows))) == KINDS.index(Kind.LEGACY_SOURCE)
        summary["legacy_by_bounds"] = int(legacy.sum())
        summary["highest_node_id"] = details_of(rows)["node_id"].max() if has_details(rows) else None
    yield Message(DRIVER, SUMMARY, pl.DataFrame([summary], _SUMMARY))
    yield Message(block, "rows", rows)
    if not sound:
        return
    yield from giant.table("transformations", rows)
    inputs = rows["inputs"].explode(empty_as_null=False).to_numpy()
    outside = np.unique(inputs[inputs < first])
    for owner, ids_of_owner in giant.by_owner(outside):
        yield Message(owner, "named", pl.DataFrame({"id": ids_of_owner.astype(np.int32)}))
    yield Message(block, "kinds", pl.DataFrame({"kind": kinds}))
    yield Message(
        block,
        "virtual",
        rows.select(*OF_VIRTUAL, "kind", "inputs").filter(pl.Series(values=kinds >= FIRST_VIRTUAL)),
    )


_SUMMARY: dict[str, pl.DataType | type[pl.DataType]] = {
    "block": pl.Int32,
    "sound": pl.Boolean,
    "digests": pl.List(pl.String),
    "kinds": pl.List(pl.Int64),
    "named_groups": pl.Boolean,
    "expands_sinks": pl.Boolean,
    "legacy_by_bounds": pl.Int64,
    "highest_node_id": pl.Int64,
}
OF_VIRTUAL = (*LABELLED, "details")
"""Columns of virtual transformations that edges through them read."""


def _steps_name_groups(rows: pl.DataFrame) -> bool:
    """Whether the steps of a sink may name a slot sharing group."""
    return bool(rows["sink_topology"].drop_nulls().str.contains("slot_sharing_group", literal=True).any())


def kinds_of(rows: pl.DataFrame) -> Ints:
    """Return the kind of each row as its place in KINDS."""
    return rows["kind"].cast(pl.Enum(Kind)).to_physical().to_numpy().astype(np.uint8)


def _rows(giant: Giant, block: int, inbox: Inbox) -> pl.DataFrame:
    """Return TRANSFORMATIONS of the block by id, null first.

    The first and the last block also have the rows whose ids are below or above those of all blocks.
    """
    if giant.files is None:
        tables = [frame.to_arrow(compat_level=_OLDEST) for _, frame in inbox.frames("given")]
        given = pa.concat_tables(tables, promote_options="permissive")
    else:
        given = _rows_in_files(giant, block)
    rows = normalized_transformations(given_columns(given.schema, given.to_batches()))
    in_order = rows["id"].null_count() == 0 and bool((np.diff(rows["id"].to_numpy()) > 0).all())
    return rows if in_order else rows.sort("id", nulls_last=False)


def _rows_in_files(giant: Giant, block: int) -> pa.Table:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    assert giant.files is not None
    tables = []
    for path, first_group, end_group in giant.files[block]:
        file = pq.ParquetFile(path)
        rows = file.read_row_groups(range(first_group, end_group), use_threads=False)
        ids = pc.fill_null(rows["id"].cast(pa.int64()), 0).to_numpy()
        inside = pa.array(np.clip(giant.owners(ids), 0, giant.blocks - 1) == block)
        wanted = pc.and_(inside, pc.equal(rows[TOPOLOGY], giant.topology))
        tables.append(rows if pc.all(wanted).as_py() else rows.filter(wanted))
    return pa.concat_tables(tables, promote_options="permissive")


# Wrong rows: the errors of the whole topology, in its line's order.


def send_numbers(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """To WALK: ids, read (the Numbers of the block's rows). To the block: ordered (its rows)."""
    if not inbox.has("rows"):
        return  # other blocks have named ids that no row has
    ordered, numbers = numbers_in_order(inbox.one("rows"))
    ids = pl.DataFrame({"id": numbers.ids, "inputs": np.diff(numbers.starts)}, _IDS)
    nulls = pl.DataFrame({"id": [None] * numbers.without_id, "inputs": [0] * numbers.without_id}, _IDS)
    yield Message(WALK, "ids", pl.concat([nulls, ids]))
    yield Message(WALK, "read", pl.DataFrame({"id": numbers.read}))
    yield Message(block, "ordered", ordered)


_IDS = {"id": pl.Int32, "inputs": pl.Int32}


def find_wrong_numbers(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """To each block: wrong (see wrong_by_number) and before (the number of rows in earlier blocks).

    To WALK: ids, read.
    """
    parts = inbox.frames("ids")
    ids, read = pl.concat([frame for _, frame in parts]), inbox.one("read")
    wrong = wrong_by_number(_numbers(ids, read))
    start = 0
    for block, frame in parts:
        flags = pl.DataFrame({"wrong": wrong[start : start + len(frame)]})
        yield Message(block, "wrong", flags)
        yield Message(block, "before", pl.DataFrame({"rows": [start]}))
        start += len(frame)
    yield Message(WALK, "ids", ids)
    yield Message(WALK, "read", read)


def _numbers(ids: pl.DataFrame, read: pl.DataFrame) -> Numbers:
    without_id = ids["id"].null_count()
    lengths = ids["inputs"].to_numpy()[without_id:]
    numbers: Ints = ids["id"].drop_nulls().to_numpy()
    return Numbers(without_id, numbers, offsets(lengths), read["id"].to_numpy())


def show_wrong_rows(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """To WALK: texts (position and JSON of the rows that may be wrong)."""
    wrong, before = inbox.one("wrong")["wrong"].to_numpy(), int(inbox.one("before")["rows"][0])
    texts = [*texts_of_wrong_rows(inbox.one("ordered"), wrong, before)]
    positions, values = zip(*texts, strict=True) if texts else ((), ())
    yield Message(WALK, "texts", pl.DataFrame({"position": positions, "text": values}, _TEXTS))


_TEXTS = {"position": pl.Int64, "text": pl.Binary}


def explain(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """To the driver: EXPLAINED (stage and errors as JSON; nothing if the topology is right)."""
    numbers = _numbers(inbox.one("ids"), inbox.one("read"))
    rows = (row for frame in inbox.each("texts") for row in frame.iter_rows())
    refusal = validate_wrong_rows(giant.header, rows, position_in(numbers), cycle_of(*numbers[1:]))
    if refusal is not None:
        yield Message(DRIVER, EXPLAINED, pl.DataFrame({"refusal": [orjson.dumps(refusal).decode()]}))


# The stream node ids that given rows set.


def send_node_ids(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """To WALK: node_ids (of each row, its id if it sets none)."""
    rows = inbox.one("rows")
    node_ids = details_of(rows)["node_id"] if has_details(rows) else pl.lit(None, pl.Int32)
    yield Message(WALK, "node_ids", rows.select(id=pl.coalesce(node_ids, "id")))


def find_taken_node_ids(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """To the driver: TAKEN (whether two rows have one stream node id, which is an error)."""
    yield Message(
        DRIVER, TAKEN, pl.DataFrame({"taken": [bool(inbox.one("node_ids")["id"].is_duplicated().any())]})
    )


# Walks over the inputs of all transformations.


def send_links(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """To WALK: links (kind and number of inputs of each row), inputs, sink_sizes (see sizes_of_sinks).

    The kind of a source is as its bounds say (see kinds_by_bounds).
    """
    rows = inbox.one("rows")
    lengths = rows["inputs"].list.len().cast(pl.Int32)
    kinds = kinds_of(rows.select(kinds_by_bounds(rows)))
    yield Message(WALK, "links", pl.DataFrame({"kind": kinds, "inputs": lengths}))
    yield Message(WALK, "inputs", pl.DataFrame({"id": rows["inputs"].explode(empty_as_null=False)}))
    sizes = sizes_of_sinks(rows)
    if len(sizes):
        yield Message(WALK, "sink_sizes", sizes.with_columns(pl.col("row") + giant.starts[block] - 1))


def _links(inbox: Inbox) -> InputRows:
    """The links between all rows, whose ids are 1, 2, …"""
    rows, inputs = inbox.one("links"), inbox.one("inputs")["id"].to_numpy().astype(np.int64)
    bounds = offsets(rows["inputs"].to_numpy())
    return InputRows(np.arange(len(rows)), bounds, inputs - 1, rows["kind"].to_numpy().astype(np.int64))


def number_all_sinks(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """To each block with sinks to expand: sink_numbers (see number_sinks)."""
    links, parts = _links(inbox), inbox.frames("sink_sizes")
    sizes = pl.concat([frame for _, frame in parts])
    topologies = np.full(len(links.kinds), giant.topology)
    highest = np.full(len(links.kinds), giant.traits.highest_node_id)
    numbers = number_sinks(topologies, links, sizes, highest_ids=highest)
    start = 0
    for block, frame in parts:
        yield Message(block, "sink_numbers", numbers.slice(start, len(frame)))
        start += len(frame)


def find_unbounded_source(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """To the driver: UNBOUNDED (whether an operator reads an unbounded source)."""
    _, bounds, inputs, kinds = _links(inbox)
    ends = bounds.tolist()
    rows = (
        (KINDS[kind], (inputs[ends[row] : ends[row + 1]] + 1).tolist())
        for row, kind in enumerate(kinds.tolist())
    )
    yield Message(DRIVER, UNBOUNDED, pl.DataFrame({"reads": [reads_unbounded_source(rows)]}))


def find_excess(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """To the driver: EXCESS (see beyond_limit; no row if there are not too many edges)."""
    links = _links(inbox)
    rows = giant.with_topology(pl.DataFrame({"id": np.arange(1, len(links.kinds) + 1, dtype=np.int32)}))
    yield Message(DRIVER, EXCESS, beyond_limit_of(rows, links))


# Topologies that are given as stream graphs.


def read_graph(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """Read the nodes of a block, and the edges into them.

    To the block of each source: ask (the id of the source of each edge). To the block: nodes, edges. To the
    driver: SUMMARY.
    """
    nodes = inbox.one("given").sort("id")
    given = inbox.together("given_edges")
    edges = (empty("stream_edges") if given is None else given).sort("target", "in_index")
    kinds = np.zeros(len(KINDS), np.int64)
    kinds[KINDS.index(Kind.LEGACY_SOURCE)] = nodes["legacy_source"].sum()
    kinds[KINDS.index(Kind.ASYNC)] = nodes["yielding"].sum()
    summary = {"block": block, "sound": True, "digests": [], "kinds": kinds.tolist()}
    summary |= {"named_groups": False, "expands_sinks": False, "legacy_by_bounds": 0}
    yield Message(DRIVER, SUMMARY, pl.DataFrame([summary], _SUMMARY))
    owners = giant.owners(edges["source"].to_numpy())
    by_owner = np.argsort(owners, kind="stable")
    edges = edges[by_owner]
    target_row = np.searchsorted(nodes["id"].to_numpy(), edges["target"].to_numpy())
    yield Message(block, "nodes", nodes)
    yield Message(block, "edges", edges.with_columns(target_row=pl.Series(target_row, dtype=pl.Int32)))
    sources = edges["source"].to_numpy()
    for owner, start, end in runs_of(owners[by_owner]):
        yield Message(owner, "ask", pl.DataFrame({"row": sources[start:end].astype(np.int32)}))


def reasons_without_transformations(giant: Giant) -> pl.DataFrame:
    """The reasons of refuse_transformations that a stream graph's settings give."""
    nothing = from_arrow(pa.Table.from_batches([], EXPANDED))
    return refuse_transformations(nothing, resolve_virtual_nodes(nothing), giant.job_settings)
