"""From transformations to stream nodes, block by block."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.blocks.giant import SUMMARY, WAYS, Giant, other_way, reasons
from penstock.plans.blocks.messages import DRIVER, WALK, Inbox, Message
from penstock.plans.frames.arrays import Flags, Ints
from penstock.plans.frames.compiled import run_loop
from penstock.plans.frames.polars_frames import count_in_groups
from penstock.plans.frames.polars_refusals import refused_settings
from penstock.plans.job_graph.columnar.create_vertices import NODE_COLUMNS
from penstock.plans.stream_graph.choose_partitioners import (
    DEFAULT_SLOT_SHARING_GROUP,
    NO_GROUP,
    SOURCE_ATTRIBUTES,
    TARGET_ATTRIBUTES,
    inherited_groups,
)
from penstock.plans.stream_graph.columnar.expand_sinks import expand_sinks
from penstock.plans.stream_graph.columnar.refuse_stream_graphs import (
    missing_uids,
    refuse_operator_settings,
    refuse_transformations,
)
from penstock.plans.stream_graph.columnar.resolve_virtual_nodes import (
    FIRST_VIRTUAL,
    KINDS,
    LABELLED,
    UNCOUNTED,
    InputRows,
    count_expanded_ways,
    most_edges,
    offsets,
    resolve_inputs,
)
from penstock.plans.stream_graph.columnar.transformation_details import has_details
from penstock.plans.stream_graph.columnar.translate_transformations import translate_nodes
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.normalized_tables import given_columns, normalized_transformations
from penstock.plans.topology.columnar.read_topology_tables import digest_blocks
from penstock.plans.vocabulary import SOURCE_KINDS, Kind

ATTRIBUTES = tuple(dict.fromkeys((*SOURCE_ATTRIBUTES, *TARGET_ATTRIBUTES)))
"""Columns of nodes that decide how their edges are."""

_OF_EDGES = (
    *(TOPOLOGY, "id", "transformation", "no_output_until_end_of_input", "among_sources"),
    *ATTRIBUTES,
    *(name for name in NODE_COLUMNS if name not in ATTRIBUTES),
)
"""Columns of nodes that later stages of their block read."""

_OF_SOURCES = (
    *(TOPOLOGY, "id", "transformation", "kind", "name", "uid", "uid_hash", "max_parallelism"),
    "buffer_timeout",
)

_SINK = KINDS.index(Kind.SINK)
_SOMETHING_PHYSICAL = KINDS.index(Kind.ONE_INPUT)
_IS_SOURCE = np.array([kind in SOURCE_KINDS for kind in KINDS])
_NONE = -1


# The first job: a block's transformations are read and looked at.


def read(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """The block's rows, and what other blocks have to say about them before they can be resolved.

    To other blocks: named (ids of theirs that are inputs here). To the block: rows; kinds (of all rows) and
    virtual (rows of virtual transformations). To the driver: SUMMARY, which alone comes of rows that may be
    wrong.
    """
    rows = _rows(giant, block, inbox)
    first, end = giant.starts[block : block + 2]
    ids = rows["id"].fill_null(0).to_numpy()
    sound = len(ids) == end - first and bool((ids == np.arange(first, end)).all())
    digests: list[str] = []
    if giant.given and sound:
        digests = digest_blocks(rows, None, np.zeros(1, np.int64)).digests
        sound = "" not in digests
    kinds = _kinds(rows) if sound else np.zeros(0, np.uint8)
    summary = {
        "block": block,
        "sound": sound,
        "digests": digests,
        "kinds": np.bincount(kinds, minlength=len(KINDS)).tolist(),
        "named_groups": rows["slot_sharing_group"].null_count() < len(rows),
        "expands_sinks": rows["sink_topology"].null_count() < len(rows),
        "has_details": has_details(rows),
    }
    yield Message(DRIVER, SUMMARY, pl.DataFrame([summary], _SUMMARY))
    if not sound:
        return
    yield from giant.table("transformations", rows)
    inputs = rows["inputs"].explode(empty_as_null=False).to_numpy()
    outside = np.unique(inputs[inputs < first])
    for owner, ids_of_owner in _by_owner(giant, outside):
        yield Message(owner, "named", pl.DataFrame({"id": ids_of_owner.astype(np.int32)}))
    yield Message(block, "kinds", pl.DataFrame({"kind": kinds}))
    yield Message(
        block,
        "virtual",
        rows.select(*LABELLED, "kind", "inputs").filter(pl.Series(values=kinds >= FIRST_VIRTUAL)),
    )
    yield Message(block, "rows", rows)


_SUMMARY: dict[str, pl.DataType | type[pl.DataType]] = {
    "block": pl.Int32,
    "sound": pl.Boolean,
    "digests": pl.List(pl.String),
    "kinds": pl.List(pl.Int64),
    "named_groups": pl.Boolean,
    "expands_sinks": pl.Boolean,
    "has_details": pl.Boolean,
}


def _rows(giant: Giant, block: int, inbox: Inbox) -> pl.DataFrame:
    """TRANSFORMATIONS of the block by id; rows with ids of no block are in one of them."""
    if giant.files is None:
        tables = [frame.to_arrow(compat_level=pl.CompatLevel.oldest()) for _, frame in inbox.frames("given")]
        found = pa.concat_tables(tables, promote_options="permissive")
    else:
        found = _rows_in_files(giant, block)
    rows = normalized_transformations(given_columns(found.schema, found.to_batches()))
    in_order = rows["id"].null_count() == 0 and bool((np.diff(rows["id"].to_numpy()) > 0).all())
    return rows if in_order else rows.sort("id", nulls_last=False)


def _rows_in_files(giant: Giant, block: int) -> pa.Table:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    assert giant.files is not None
    first, end = giant.starts[block : block + 2]
    tables = []
    for path, first_group, end_group in giant.files[block]:
        file = pq.ParquetFile(path)
        rows = file.read_row_groups(range(first_group, end_group), use_threads=False)
        ids = rows["id"].cast(pa.int64())
        inside = pc.and_(pc.greater_equal(ids, first), pc.less(ids, end))
        wanted = pc.and_(inside, pc.equal(rows[TOPOLOGY], giant.topology))
        tables.append(rows if pc.all(wanted).as_py() else rows.filter(wanted))
    return pa.concat_tables(tables, promote_options="permissive")


def _kinds(rows: pl.DataFrame) -> Ints:
    return rows["kind"].cast(pl.Enum(Kind)).to_physical().to_numpy().astype(np.uint8)


def _by_owner(giant: Giant, ids: Ints) -> Iterator[tuple[int, Ints]]:
    """Sorted ids by the block that has them."""
    owners = giant.owners(ids)
    starts = np.flatnonzero(np.diff(owners, prepend=_NONE))
    for start, end in pairwise([*starts.tolist(), len(ids)]):
        yield int(owners[start]), ids[start:end]


# Virtual transformations that other blocks read.


def export(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """Answers about transformations that other blocks name, whose rows this block has.

    To each asking block: kinds_of (of the ids that it named). To WALK: exported (rows of virtual
    transformations that it named, and of those that these read in this block), asked (their ids by asking
    block), and sinks (those that are named, here or by an exported row).
    """
    asked = inbox.frames("named")
    kinds, virtual = inbox.one("kinds")["kind"].to_numpy(), inbox.one("virtual")
    if not asked:
        return
    first = giant.starts[block]
    for asker, frame in asked:
        yield Message(asker, "kinds_of", frame.select(kind=pl.Series(kinds[frame["id"].to_numpy() - first])))
    named = pl.concat([frame.with_columns(asker=pl.lit(asker, pl.Int32)) for asker, frame in asked])
    of_named = kinds[named["id"].to_numpy() - first]
    to_virtual = named.filter(pl.Series(values=of_named >= FIRST_VIRTUAL))
    if to_virtual.is_empty():
        return
    ids = virtual["id"].to_numpy()
    needed = np.isin(ids, to_virtual["id"].to_numpy())
    exported = virtual.filter(pl.Series(values=_with_read(ids, virtual["inputs"], needed)))
    inputs = exported["inputs"].explode(empty_as_null=False).to_numpy()
    own = inputs[inputs >= first]
    sinks = np.concatenate(
        [own[kinds[own - first] == _SINK], named["id"].to_numpy()[of_named == _SINK]]
    ).astype(np.int32)
    yield Message(WALK, "exported", exported)
    yield Message(WALK, "asked", to_virtual)
    yield Message(WALK, "sinks", pl.DataFrame({"id": np.unique(sinks)}))


def send_virtual(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """To each block: halo (rows of virtual transformations of other blocks that its rows lead up to) and
    halo_sinks (ids among their inputs that are sinks).
    """
    exported = inbox.together("exported")
    if exported is None:
        return
    asked = inbox.together("asked")
    sinks = inbox.together("sinks")
    assert asked is not None
    assert sinks is not None
    exported = exported.unique("id").sort("id")
    ids = exported["id"].to_numpy()
    for asker in asked["asker"].unique().sort():
        of_asker = asked.filter(pl.col("asker") == asker)["id"].to_numpy()
        halo = exported.filter(pl.Series(values=_with_read(ids, exported["inputs"], np.isin(ids, of_asker))))
        inputs = halo["inputs"].explode(empty_as_null=False)
        yield Message(int(asker), "halo", halo)
        yield Message(int(asker), "halo_sinks", sinks.filter(pl.col("id").is_in(inputs.implode())))


def _with_read(ids: Ints, inputs: pl.Series, needed: Flags) -> Flags:
    """Which rows, by `ids`, are `needed` or read by such rows, directly or by way of others."""
    bounds = offsets(inputs.list.len().to_numpy())
    named = inputs.explode(empty_as_null=False).to_numpy()
    at = np.searchsorted(ids, named) if len(ids) else np.zeros(len(named), np.int64)
    known = at < len(ids)
    known[known] = ids[at[known]] == named[known]
    reads = np.where(known, at, _NONE)
    marked = needed.copy()
    run_loop(_mark_read, len(ids) + len(reads), (bounds, reads), (marked,))
    return marked


def _mark_read(bounds: Ints, reads: Ints, marked: Flags) -> None:
    """The loop (see run_loop): rows come after those that they read."""
    for from_end in range(1, len(marked) + 1):
        row = len(marked) - from_end
        if marked[row]:
            for place in range(bounds[row], bounds[row + 1]):
                if reads[place] >= 0:
                    marked[reads[place]] = True


# Transformations become nodes, and edges that know their target.


def make_nodes(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """Nodes of the block, and the edges into them, by the block of their source.

    To the block of each source: ask (the place of the source there, of each edge). To the block: nodes (of
    all physical transformations), node_of_row, is_source; edges, in the order in which sources are asked.
    To WALK, where slot sharing groups are inherited: group_nodes, group_edges.
    """
    own = expand_sinks(inbox.one("rows"))
    rows, links, before = _with_halo(giant, own, block, inbox)
    if giant.traits.unions:
        ways = np.zeros(len(rows), np.int64)
        virtual, sinks = links.kinds >= FIRST_VIRTUAL, links.kinds == _SINK
        run_loop(
            count_expanded_ways,
            len(rows) + len(links.rows),
            (links.order, links.bounds, links.rows, virtual, sinks),
            (ways,),
        )
        of_block = min(int(ways[before:].sum()), UNCOUNTED)
        yield Message(DRIVER, WAYS, pl.DataFrame({"ways": [of_block]}))
        if of_block > most_edges(giant.starts[-1] - 1):
            yield other_way("unions of unions expand to too many edges")
            links = _without_unions(links)  # any edges will do: nothing of it is used
    resolved = resolve_inputs(rows, links, before).with_columns(pl.col("target_row") - before)
    kinds = links.kinds[before:]
    physical = np.flatnonzero(kinds < FIRST_VIRTUAL)
    settings = giant.job_settings
    group = pl.DataFrame({"row": physical.astype(np.int32)}).with_columns(
        slot_sharing_group=pl.lit(DEFAULT_SLOT_SHARING_GROUP)
    )
    nodes = translate_nodes(own, settings, resolved, group, pl.DataFrame())
    # A source is translated where it is read first, which its own block is told.
    unread = resolved.with_columns(out_index=pl.lit(-1, pl.Int32))
    yield from reasons(refuse_transformations(own, unread, settings))
    if giant.asks_for_uses:
        of_sources = own.select(_OF_SOURCES).filter(pl.col("kind").is_in(sorted(SOURCE_KINDS)))
        yield Message(block, "sources", of_sources)
    node_of_row = np.full(len(own), _NONE, np.int32)
    node_of_row[physical] = np.arange(len(physical), dtype=np.int32)
    if giant.traits.named_groups:
        yield Message(
            WALK,
            "group_nodes",
            pl.DataFrame(
                {
                    "id": nodes["id"],
                    "group": own["slot_sharing_group"].gather(pl.Series(physical.astype(np.uint32))),
                }
            ),
        )
        yield Message(WALK, "group_edges", resolved.select("source", "target"))
    owners = giant.owners(resolved["source"].to_numpy())
    by_owner = np.argsort(owners, kind="stable")
    resolved = resolved.drop(TOPOLOGY, "source_row", "out_index", "out_degree")[by_owner]
    owners, sources = owners[by_owner], resolved["source"].to_numpy()
    target_row = pl.Series(node_of_row[resolved["target_row"].to_numpy()])
    yield Message(block, "nodes", nodes)
    yield Message(block, "node_of_row", pl.DataFrame({"node": node_of_row}))
    yield Message(block, "is_source", pl.DataFrame({"is_source": _IS_SOURCE[kinds[physical]]}))
    yield Message(block, "edges", resolved.with_columns(target_row=target_row))
    starts = np.flatnonzero(np.diff(owners, prepend=_NONE))
    for start, end in pairwise([*starts.tolist(), len(owners)]):
        owner = int(owners[start])
        ask = pl.DataFrame({"row": (sources[start:end] - giant.starts[owner]).astype(np.int32)})
        if giant.asks_for_uses:
            ask = ask.hstack(resolved.slice(start, end - start).select("source", "target", "in_index"))
        yield Message(owner, "ask", ask)


def _without_unions(links: InputRows) -> InputRows:
    """The links, with the first input alone of each virtual row."""
    lengths = np.diff(links.bounds)
    of_input = np.repeat(np.arange(len(lengths)), lengths)
    kept = (links.kinds[of_input] < FIRST_VIRTUAL) | (np.arange(len(of_input)) == links.bounds[of_input])
    left = np.bincount(of_input[kept], minlength=len(lengths))
    return links._replace(bounds=offsets(left), rows=links.rows[kept])


def _with_halo(
    giant: Giant, own: pl.DataFrame, block: int, inbox: Inbox
) -> tuple[pl.DataFrame, InputRows, int]:
    """The rows of other blocks that those of the block lead up to, then its own, and their links by rows;
    how many are of others. Inputs have lower ids, so that all rows are in order.
    """
    first = giant.starts[block]
    lengths = own["inputs"].list.len().to_numpy()
    inputs = own["inputs"].explode(empty_as_null=False).to_numpy()
    named = np.unique(inputs[inputs < first])
    kinds_of = inbox.together("kinds_of")
    of_named = np.zeros(0, np.uint8) if kinds_of is None else kinds_of["kind"].to_numpy()
    halo = inbox.together("halo")
    outside, kinds, halo_lengths, halo_inputs = named, of_named, np.zeros(len(named), np.int64), inputs[:0]
    labelled = pl.DataFrame({"id": outside.astype(np.int32)})
    if halo is not None:
        virtual_ids, further = halo["id"].to_numpy(), halo["inputs"].explode(empty_as_null=False).to_numpy()
        outside = np.unique(np.concatenate([named, virtual_ids, further]))
        kinds = np.full(len(outside), _SOMETHING_PHYSICAL, np.uint8)
        kinds[np.searchsorted(outside, inbox.one("halo_sinks")["id"].to_numpy())] = _SINK
        at = np.searchsorted(outside, virtual_ids)
        kinds[at] = _kinds(halo)
        kinds[np.searchsorted(outside, named)] = of_named
        labelled = pl.DataFrame({"id": outside.astype(np.int32)}).join(
            halo.select(LABELLED), on="id", how="left", maintain_order="left"
        )
        halo_lengths = np.zeros(len(outside), np.int64)
        halo_lengths[at] = halo["inputs"].list.len().to_numpy()
        halo_inputs = further
    rows = pl.concat(
        [giant.with_topology(labelled), own.select(TOPOLOGY, *LABELLED)], how="diagonal_relaxed"
    ).rechunk()
    every = np.concatenate([halo_inputs, inputs])
    here = np.where(every >= first, len(outside) + every - first, np.searchsorted(outside, every))
    bounds = offsets(np.concatenate([halo_lengths, lengths]))
    all_kinds = np.concatenate([kinds, _kinds(own)]).astype(np.int64)
    return rows, InputRows(np.arange(len(rows)), bounds, here, all_kinds), len(outside)


def inherit_groups(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """To each block: groups (the slot sharing group of each node). See inherit_slot_sharing_groups."""

    nodes, edges = inbox.frames("group_nodes"), inbox.frames("group_edges")
    own = pl.concat([frame["group"] for _, frame in nodes])
    default = pl.Series([DEFAULT_SLOT_SHARING_GROUP])
    names = pl.concat([default, own.drop_nulls().unique(maintain_order=True)]).unique(maintain_order=True)
    numbers = np.full(giant.starts[-1], NO_GROUP, np.int32)
    ids = np.concatenate([frame["id"].to_numpy() for _, frame in nodes])
    own_numbers = own.cast(pl.Enum(names)).to_physical().cast(pl.Int32).fill_null(NO_GROUP)
    numbers[ids] = own_numbers.to_numpy()
    ends = [np.concatenate([frame[end].to_numpy() for _, frame in edges]) for end in ("source", "target")]
    groups = inherited_groups(numbers, *ends)
    for block, frame in nodes:
        of_block = names.gather(pl.Series(groups[frame["id"].to_numpy()].astype(np.uint32)))
        yield Message(block, "groups", pl.DataFrame({"slot_sharing_group": of_block.cast(pl.Categorical)}))


# A source numbers the edges that leave it, and says to their targets what it is.


def answer(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """To each asking block: answer (place of the source among its block's nodes, out_index, out_degree, and
    its attributes where it is another's). To the block: nodes (those of the stream graph), kept (the place
    of each node before sources left that nobody reads), edges.
    """
    nodes = inbox.one("nodes")
    if giant.traits.named_groups:
        nodes = nodes.with_columns(inbox.one("groups")["slot_sharing_group"].cast(pl.String))
    node_of_row = inbox.one("node_of_row")["node"].to_numpy()
    is_source = inbox.one("is_source")["is_source"].to_numpy()
    asked = inbox.frames("ask")
    rows = np.concatenate([np.zeros(0, np.int32), *(frame["row"].to_numpy() for _, frame in asked)])
    read = node_of_row[rows]
    out_index = count_in_groups(read, len(nodes))
    out_degree = np.bincount(read, minlength=len(nodes)).astype(np.int32)
    kept = (out_degree > 0) | ~is_source
    place = (np.cumsum(kept) - 1).astype(np.int32)
    place[~kept] = _NONE
    if not kept.all():
        nodes = nodes.filter(pl.Series(values=kept))
    if giant.asks_for_uses:
        uses = [frame.select("source", "target", "in_index") for _, frame in asked]
        yield from _refuse_sources(giant, inbox.one("sources"), uses, out_index)
    yield from giant.table("stream_nodes", nodes)
    attributes = nodes.select(SOURCE_ATTRIBUTES)
    first = 0
    for asker, frame in asked:
        end = first + len(frame)
        at = place[read[first:end]]
        of_edges = pl.DataFrame(
            {"place": at, "out_index": out_index[first:end], "out_degree": out_degree[read[first:end]]}
        )
        yield Message(asker, "answer", of_edges if asker == block else of_edges.hstack(attributes[at]))
        first = end
    yield Message(block, "nodes", nodes.select(_OF_EDGES))
    yield Message(block, "kept", pl.DataFrame({"place": place}))
    yield Message(block, "edges", inbox.forward("edges"))


def _refuse_sources(
    giant: Giant, sources: pl.DataFrame, uses: list[pl.DataFrame], out_index: Ints
) -> Iterator[Message]:
    """What Flink refuses of the block's sources when the first operator that reads them is translated."""
    if not uses:
        return
    edges = giant.with_topology(pl.concat(uses)).with_columns(out_index=pl.Series(out_index))
    first = edges.filter(pl.col("out_index") == 0).join(sources, left_on="source", right_on="id", how="semi")
    # No sink was expanded, so an operator is its own transformation.
    targets = first.select(TOPOLOGY, id="target", transformation="target").unique()
    known = pl.concat([sources, targets], how="diagonal").unique(["id"], keep="first")
    settings = giant.job_settings
    yield from reasons(missing_uids(known, first, settings))
    refused = refused_settings(settings)
    if not refused.is_empty():
        yield from reasons(refuse_operator_settings(known, first, refused))
