"""From transformations to stream nodes, block by block."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import polars as pl

from penstock.plans.blocks.giant import WAYS, Giant, reasons, runs_of
from penstock.plans.blocks.messages import DRIVER, WALK, Inbox, Message
from penstock.plans.blocks.read import OF_VIRTUAL, kinds_of, reasons_without_transformations
from penstock.plans.frames.arrays import Flags, Ints
from penstock.plans.frames.compiled import run_loop
from penstock.plans.frames.polars_frames import count_in_groups
from penstock.plans.frames.polars_refusals import refused_settings
from penstock.plans.job_graph.create_vertices import NODE_COLUMNS
from penstock.plans.stream_graph.choose_partitioners import (
    DEFAULT_SLOT_SHARING_GROUP,
    NO_GROUP,
    SOURCE_ATTRIBUTES,
    TARGET_ATTRIBUTES,
    inherited_groups,
)
from penstock.plans.stream_graph.expand_sinks import (
    expand_caches,
    expand_numbered_sinks,
    expand_sinks,
    with_configured,
)
from penstock.plans.stream_graph.refuse_stream_graphs import (
    different_resources,
    missing_uids,
    refuse_operator_settings,
    refuse_transformations,
    with_resources,
)
from penstock.plans.stream_graph.resolve_virtual_nodes import (
    FIRST_VIRTUAL,
    KINDS,
    InputRows,
    count_expanded_ways,
    most_edges,
    offsets,
    resolve_inputs,
)
from penstock.plans.stream_graph.transformation_details import details_of, has_details, with_node_ids
from penstock.plans.stream_graph.translate_transformations import translate_nodes
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import SOURCE_KINDS, Kind

ATTRIBUTES = tuple(dict.fromkeys((*SOURCE_ATTRIBUTES, *TARGET_ATTRIBUTES)))
"""Columns of nodes that decide the properties of their edges."""

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
_NO_TEXT = pl.lit(None, pl.String)


# Virtual transformations that other blocks read.


def export(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """Describe transformations of the block that other blocks name.

    To each asking block: kinds_of (of the ids that it named). To WALK: exported (rows of virtual
    transformations that it named, and of those that these read in this block), asked (their ids by asking
    block), and sinks (ids of the block's sinks that other blocks or its exported rows name).
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
    ids = virtual["id"].to_numpy()
    needed = np.isin(ids, to_virtual["id"].to_numpy())
    exported = virtual.filter(pl.Series(values=_with_read(ids, virtual["inputs"], needed)))
    inputs = exported["inputs"].explode(empty_as_null=False).to_numpy()
    own = inputs[inputs >= first]
    sinks = np.unique(
        np.concatenate([own[kinds[own - first] == _SINK], named["id"].to_numpy()[of_named == _SINK]])
    )
    if len(sinks):
        yield Message(WALK, "sinks", pl.DataFrame({"id": sinks.astype(np.int32)}))
    if len(to_virtual):
        yield Message(WALK, "exported", exported)
        yield Message(WALK, "asked", to_virtual)


def send_virtual(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """To each block: halo (rows of virtual transformations of other blocks that its rows lead up to) and
    halo_sinks (ids among their inputs that are sinks).
    """
    exported = inbox.together("exported")
    if exported is None:
        return
    asked, sinks = inbox.one("asked"), inbox.together("sinks")
    if sinks is None:
        sinks = pl.DataFrame(schema={"id": pl.Int32})
    exported = exported.unique("id").sort("id")
    ids = exported["id"].to_numpy()
    for asker in asked["asker"].unique().sort():
        of_asker = asked.filter(pl.col("asker") == asker)["id"].to_numpy()
        halo = exported.filter(pl.Series(values=_with_read(ids, exported["inputs"], np.isin(ids, of_asker))))
        inputs = halo["inputs"].explode(empty_as_null=False)
        yield Message(int(asker), "halo", halo)
        yield Message(int(asker), "halo_sinks", sinks.filter(pl.col("id").is_in(inputs.implode())))


def _with_read(ids: Ints, inputs: pl.Series, needed: Flags) -> Flags:
    """Flag rows, sorted by `ids`, that are `needed` or read by such rows, directly or through others."""
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

    To the block of each source: ask (the row of the source there, for each edge). To the block: nodes (of
    all physical transformations), node_of_row, may_be_unread (whether it is left out unless an operator reads
    it); edges, in the order in which sources are asked.
    To WALK, if slot sharing groups are inherited: group_nodes, group_edges, resources (of named groups).

    Ids tell which block has a transformation until its links are rows; then node ids replace them. Those of
    sources in other blocks come with the answers to `ask`.
    """
    raw, first = with_configured(inbox.one("rows")), giant.starts[block]
    halo = _halo(raw, first, inbox)
    before = len(halo.ids)
    own, links = expand_sinks(raw.with_columns(sink_topology=_NO_TEXT)), None
    excess = False
    if giant.traits.unions:
        links = _link_rows(halo, own, first)
        ways = _ways(links, before)
        yield Message(DRIVER, WAYS, pl.DataFrame({"ways": [ways]}))
        excess = ways > most_edges(giant.starts[-1] - 1)
    if inbox.has("sink_numbers"):
        own, links = expand_numbered_sinks(raw, inbox.one("sink_numbers")), None
    links = links or _link_rows(halo, own, first)
    if excess:
        links = _without_unions(links)  # the giant is rejected: any edges will do
    settings = giant.job_settings
    addresses = np.concatenate([halo.ids, own["id"].to_numpy()])
    if has_details(own):
        own = with_node_ids(expand_caches(own, settings))
    rows = pl.concat(
        [giant.with_topology(halo.labelled), own.select(TOPOLOGY, *OF_VIRTUAL, "kind")],
        how="diagonal_relaxed",
    ).rechunk()
    resolved = resolve_inputs(rows, links, before).with_columns(pl.col("target_row") - before)
    kinds = links.kinds[before:]
    physical = np.flatnonzero(kinds < FIRST_VIRTUAL)
    group = pl.DataFrame({"row": physical.astype(np.int32)}).with_columns(
        slot_sharing_group=pl.lit(DEFAULT_SLOT_SHARING_GROUP)
    )
    nodes = translate_nodes(own, settings, resolved, group, pl.DataFrame())
    # A source is translated where it is first read, which its own block finds out.
    unread = resolved.with_columns(out_index=pl.lit(-1, pl.Int32))
    yield from reasons(refuse_transformations(own, unread, settings))
    if giant.refuses_by_use:
        of_sources = own.select(_OF_SOURCES).filter(pl.col("kind").is_in(sorted(SOURCE_KINDS)))
        yield Message(block, "sources", of_sources)
    node_of_row = np.full(len(own), _NONE, np.int32)
    node_of_row[physical] = np.arange(len(physical), dtype=np.int32)
    if giant.traits.named_groups:
        groups = own["slot_sharing_group"].gather(pl.Series(physical.astype(np.uint32)))
        grouped = pl.DataFrame({"id": addresses[before + physical].astype(np.int32), "group": groups})
        ends = {
            "source": resolved["source_row"].to_numpy(),
            "target": resolved["target_row"].to_numpy() + before,
        }
        yield Message(WALK, "group_nodes", grouped)
        of_ends = {end: addresses[row_of].astype(np.int32) for end, row_of in ends.items()}
        yield Message(WALK, "group_edges", pl.DataFrame(of_ends))
        if has_details(own):
            yield Message(WALK, "resources", _first_resources(own))
    may_be_unread = _IS_SOURCE[kinds[physical]]
    if has_details(own):
        may_be_unread &= ~details_of(own)["registered"].fill_null(value=False).to_numpy()[physical]
    yield Message(block, "nodes", nodes)
    yield Message(block, "node_of_row", pl.DataFrame({"node": node_of_row}))
    yield Message(block, "may_be_unread", pl.DataFrame({"source": may_be_unread}))
    yield from _send_edges(giant, block, resolved, addresses, before, own["transformation"], node_of_row)


def _send_edges(
    giant: Giant,
    block: int,
    resolved: pl.DataFrame,
    addresses: Ints,
    before: int,
    transformations: pl.Series,
    node_of_row: Ints,
) -> Iterator[Message]:
    """To the block: edges, by the block of their source; to this: ask.

    In: resolved_inputs, whose sources are `before` rows of other blocks, then rows of this one, with these
    ids; `transformations` and `node_of_row` of these.
    """
    source_rows = resolved["source_row"].to_numpy()
    owners = np.where(source_rows < before, giant.owners(addresses[source_rows]), block)
    by_owner = np.argsort(owners, kind="stable")
    resolved = resolved.drop(TOPOLOGY, "source_row", "out_index", "out_degree")[by_owner]
    source_rows, owners = source_rows[by_owner], owners[by_owner]
    sources, targets = addresses[source_rows], resolved["target_row"].to_numpy()
    yield Message(block, "edges", resolved.with_columns(target_row=pl.Series(node_of_row[targets])))
    for owner, start, end in runs_of(owners):
        at = source_rows[start:end] - before if owner == block else sources[start:end] - giant.starts[owner]
        ask = pl.DataFrame({"row": at.astype(np.int32)})
        if giant.refuses_by_use:
            ask = ask.hstack(resolved.slice(start, end - start).select("target", "in_index"))
            of_targets = transformations.gather(pl.Series(targets[start:end].astype(np.uint32)))
            ask = ask.with_columns(transformation=of_targets)
        yield Message(owner, "ask", ask)


def _ways(links: InputRows, before: int) -> int:
    """Return the number of edges that the inputs of the block's rows stand for."""
    ways = np.zeros(len(links.kinds), np.int64)
    virtual, sinks = links.kinds >= FIRST_VIRTUAL, links.kinds == _SINK
    run_loop(
        count_expanded_ways,
        len(links.kinds) + len(links.rows),
        (links.order, links.bounds, links.rows, virtual, sinks),
        (ways,),
    )
    return int(ways[before:].sum())


def _without_unions(links: InputRows) -> InputRows:
    """The links, with the first input alone of each virtual row."""
    lengths = np.diff(links.bounds)
    of_input = np.repeat(np.arange(len(lengths)), lengths)
    kept = (links.kinds[of_input] < FIRST_VIRTUAL) | (np.arange(len(of_input)) == links.bounds[of_input])
    left = np.bincount(of_input[kept], minlength=len(lengths))
    return links._replace(bounds=offsets(left), rows=links.rows[kept])


class _Halo(NamedTuple):
    """Rows of other blocks that edges of a block need, by id.

    They are the inputs of the block's rows and, for virtual transformations among these, their inputs.
    """

    ids: Ints
    labelled: pl.DataFrame  #: id, and the other columns OF_VIRTUAL of virtual transformations, with node ids
    kinds: Ints
    lengths: Ints  #: the number of inputs of each row
    inputs: Ints  #: ids


def _halo(own: pl.DataFrame, first: int, inbox: Inbox) -> _Halo:
    inputs = own["inputs"].explode(empty_as_null=False).to_numpy()
    named = np.unique(inputs[inputs < first])
    answered, virtual = inbox.together("kinds_of"), inbox.together("halo")
    of_named: Ints = np.zeros(0, np.int64) if answered is None else answered["kind"].to_numpy()
    if virtual is None:
        labelled = pl.DataFrame({"id": named.astype(np.int32)})
        return _Halo(named, labelled, of_named, np.zeros(len(named), np.int64), inputs[:0])
    virtual_ids = virtual["id"].to_numpy()
    further: Ints = virtual["inputs"].explode(empty_as_null=False).to_numpy()
    ids = np.unique(np.concatenate([named, virtual_ids, further]))
    kinds: Ints = np.full(len(ids), _SOMETHING_PHYSICAL, np.int64)
    kinds[np.searchsorted(ids, inbox.one("halo_sinks")["id"].to_numpy())] = _SINK
    at = np.searchsorted(ids, virtual_ids)
    kinds[at] = kinds_of(virtual)
    kinds[np.searchsorted(ids, named)] = of_named
    labelled = pl.DataFrame({"id": ids.astype(np.int32)}).join(
        virtual.select(OF_VIRTUAL), on="id", how="left", maintain_order="left"
    )
    if has_details(labelled):
        labelled = labelled.with_columns(id=pl.coalesce(details_of(labelled)["node_id"], "id"))
    lengths = np.zeros(len(ids), np.int64)
    lengths[at] = virtual["inputs"].list.len().to_numpy()
    return _Halo(ids, labelled, kinds, lengths, further)


def _link_rows(halo: _Halo, own: pl.DataFrame, first: int) -> InputRows:
    """Link the rows of `halo`, and after them the rows `own` of the block, whose ids begin at `first`.

    Parts of sinks come after the block's transformations and have higher ids than all blocks.
    """
    before, ids = len(halo.ids), own["id"].to_numpy()
    is_part = ids != own["transformation"].to_numpy()
    given = len(ids) - int(is_part.sum())
    inputs = np.concatenate([halo.inputs, own["inputs"].explode(empty_as_null=False).to_numpy()])
    here = np.where(inputs < first, np.searchsorted(halo.ids, inputs), before + inputs - first)
    order = np.arange(before + len(own))
    if given < len(ids):
        of_parts = inputs - first >= given
        by_id = np.argsort(ids[given:])
        here[of_parts] = before + given + by_id[np.searchsorted(ids[given:][by_id], inputs[of_parts])]
        order[before:] = before + np.argsort(own["position"].to_numpy(), kind="stable")
    lengths = np.concatenate([halo.lengths, own["inputs"].list.len().to_numpy()])
    kinds = np.concatenate([halo.kinds, kinds_of(own)]).astype(np.int64)
    return InputRows(order, offsets(lengths), here, kinds)


def _first_resources(own: pl.DataFrame) -> pl.DataFrame:
    """Return the first row of each slot sharing group and resources that the block's rows give it."""
    given = with_resources(own).sort("position")
    return given.unique(["slot_sharing_group", "resources"], keep="first", maintain_order=True)


def inherit_groups(giant: Giant, walk: int, inbox: Inbox) -> Iterator[Message]:
    """To each block: groups (the slot sharing group of each node). See inherit_slot_sharing_groups."""
    resources = inbox.together("resources")
    if resources is not None:
        in_order = resources.sort("transformation", "position").with_columns(position=pl.int_range(pl.len()))
        yield from reasons(different_resources(in_order))
    nodes, edges = inbox.frames("group_nodes"), inbox.frames("group_edges")
    own = pl.concat([frame["group"] for _, frame in nodes])
    default = pl.Series([DEFAULT_SLOT_SHARING_GROUP])
    names = pl.concat([default, own.drop_nulls().unique(maintain_order=True)]).unique(maintain_order=True)
    ids = np.concatenate([frame["id"].to_numpy() for _, frame in nodes])
    ends = [np.concatenate([frame[end].to_numpy() for _, frame in edges]) for end in ("source", "target")]
    places = ids
    if giant.traits.highest_node_id:  # parts of sinks have higher ids, which may be far above all others
        by_id = np.sort(ids)
        places, *ends = (np.searchsorted(by_id, of) for of in (ids, *ends))
    numbers = np.full(places.max(initial=0) + 1, NO_GROUP, np.int32)
    own_numbers = own.cast(pl.Enum(names)).to_physical().cast(pl.Int32).fill_null(NO_GROUP)
    numbers[places] = own_numbers.to_numpy()
    groups = inherited_groups(numbers, *ends)[places]
    start = 0
    for block, frame in nodes:
        of_block = names.gather(pl.Series(groups[start : start + len(frame)].astype(np.uint32)))
        start += len(frame)
        yield Message(block, "groups", pl.DataFrame({"slot_sharing_group": of_block.cast(pl.Categorical)}))


# A source numbers the edges that leave it, and describes itself to their targets.


def answer(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """To each asking block: answer (the place of each source among the nodes of its block, out_index,
    out_degree, node_id if some row sets one, and the attributes of sources of other blocks).

    To the block: nodes (of the stream graph), kept (the place of each node before unread sources were
    removed), edges.
    """
    nodes = inbox.one("nodes")
    if giant.traits.named_groups:
        nodes = nodes.with_columns(inbox.one("groups")["slot_sharing_group"].cast(pl.String))
    node_of_row = inbox.one("node_of_row")["node"].to_numpy()
    may_be_unread = inbox.one("may_be_unread")["source"].to_numpy()
    asked = inbox.frames("ask")
    rows = np.concatenate([np.zeros(0, np.int32), *(frame["row"].to_numpy() for _, frame in asked)])
    read = node_of_row[rows]
    out_index = count_in_groups(read, len(nodes))
    out_degree = np.bincount(read, minlength=len(nodes)).astype(np.int32)
    kept = (out_degree > 0) | ~may_be_unread
    sources = nodes["id"].gather(pl.Series(read.astype(np.uint32)))
    place = (np.cumsum(kept) - 1).astype(np.int32)
    place[~kept] = _NONE
    if not kept.all():
        nodes = nodes.filter(pl.Series(values=kept))
    if giant.refuses_by_use:
        uses = [frame.drop("row") for _, frame in asked]
        yield from _refuse_sources(giant, inbox.one("sources"), uses, sources, out_index)
    numbers = pl.DataFrame({"place": place[read], "out_index": out_index, "out_degree": out_degree[read]})
    if giant.traits.highest_node_id:
        numbers = numbers.with_columns(sources.alias("node_id"))
    yield from _answers(giant, block, nodes, asked, numbers)
    yield Message(block, "kept", pl.DataFrame({"place": place}))
    yield Message(block, "edges", inbox.forward("edges"))


def answer_graph(giant: Giant, block: int, inbox: Inbox) -> Iterator[Message]:
    """As `answer`, for nodes of a given stream graph, whose sources are asked for by their ids."""
    nodes, asked = inbox.one("nodes"), inbox.frames("ask")
    yield from reasons(reasons_without_transformations(giant))
    ids = np.concatenate([np.zeros(0, np.int32), *(frame["row"].to_numpy() for _, frame in asked)])
    place = np.searchsorted(nodes["id"].to_numpy(), ids).astype(np.int32)
    out_degree = np.bincount(place, minlength=len(nodes)).astype(np.int32)[place]
    numbers = pl.DataFrame({"place": place, "out_degree": out_degree})
    yield from _answers(giant, block, nodes, asked, numbers)
    yield Message(block, "edges", inbox.forward("edges"))


def _answers(
    giant: Giant,
    block: int,
    nodes: pl.DataFrame,
    asked: list[tuple[int, pl.DataFrame]],
    numbers: pl.DataFrame,
) -> Iterator[Message]:
    """stream_nodes; to each asking block: answer (its part of `numbers`); to the block: nodes."""
    yield from giant.table("stream_nodes", nodes)
    attributes = nodes.select(SOURCE_ATTRIBUTES)
    start = 0
    for asker, frame in asked:
        of_asker = numbers.slice(start, len(frame))
        start += len(frame)
        remote = [] if asker == block else attributes[of_asker["place"]].get_columns()
        yield Message(asker, "answer", of_asker.hstack(remote))
    yield Message(block, "nodes", nodes.select(_OF_EDGES))


def _refuse_sources(
    giant: Giant, sources: pl.DataFrame, uses: list[pl.DataFrame], used: pl.Series, out_index: Ints
) -> Iterator[Message]:
    """Refusals of the block's sources when the first operator that reads them is translated."""
    if not uses:
        return
    edges = giant.with_topology(pl.concat(uses)).with_columns(source=used, out_index=pl.Series(out_index))
    first = edges.filter(pl.col("out_index") == 0).join(sources, left_on="source", right_on="id", how="semi")
    targets = first.select(TOPOLOGY, "transformation", id="target").unique()
    known = pl.concat([sources, targets], how="diagonal").unique(["id"], keep="first")
    settings = giant.job_settings
    yield from reasons(missing_uids(known, first, settings))
    refused = refused_settings(settings)
    if not refused.is_empty():
        yield from reasons(refuse_operator_settings(known, first, refused))
