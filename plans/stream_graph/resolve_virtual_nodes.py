"""Resolve inputs of physical transformations to physical transformations."""

from typing import NamedTuple

import numpy as np
import polars as pl

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.errors import INPUT_STAGE, ErrorKind
from penstock.plans.frames.arrays import Ints, runs
from penstock.plans.frames.compiled import run_loop
from penstock.plans.frames.polars_frames import places
from penstock.plans.frames.polars_refusals import without_topologies
from penstock.plans.stream_graph.transformation_details import details_of, has_details
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.topologies_of_lines import RejectedTopology, rejected_rows
from penstock.plans.vocabulary import SOURCE_KINDS, VIRTUAL_KINDS, Kind, Partitioner, StreamExchangeMode

# Rows of the inputs of transformations, and their kinds.


KINDS = list(Kind)
FIRST_VIRTUAL = min(map(KINDS.index, VIRTUAL_KINDS))
"""Virtual kinds are the last ones."""


class InputRows(NamedTuple):
    """Links between the rows of transformations, which are in any order."""

    order: Ints  #: all rows, grouped by topology and sorted by id, so that inputs come first
    bounds: Ints  #: row r has the inputs bounds[r] to bounds[r + 1]
    rows: Ints  #: the row of each input
    kinds: Ints  #: per row, as numbered by KINDS


def input_rows(transformations: pl.DataFrame) -> InputRows:
    """Return the inputs of all transformations. Ids are 1, 2, … in each topology without expanded sinks."""
    topologies, ids = (transformations[name].to_numpy() for name in (TOPOLOGY, "id"))
    lengths = transformations["inputs"].list.len().to_numpy()
    inputs = transformations["inputs"].explode(empty_as_null=False).to_numpy()
    kinds = transformations["kind"].cast(pl.Enum(Kind)).to_physical().to_numpy().astype(np.int64)
    bounds = offsets(lengths)
    if "position" in transformations.columns and (transformations["position"] != transformations["id"]).any():
        return _input_rows_by_id(transformations, bounds, kinds)
    own = np.arange(len(ids))
    first = ids == 1
    follows = (ids[1:] == ids[:-1] + 1) & (topologies[1:] == topologies[:-1])
    if first[:1].all() and (first[1:] | follows).all():
        return InputRows(own, bounds, np.repeat(own - ids, lengths) + inputs, kinds)
    order = np.lexsort((ids, topologies))
    own[order] = own.copy()
    return InputRows(order, bounds, order[np.repeat(own - ids, lengths) + inputs], kinds)


def _input_rows_by_id(transformations: pl.DataFrame, bounds: Ints, kinds: Ints) -> InputRows:
    """As `input_rows`, in the order of translation and with inputs looked up by id."""
    order = transformations.select(pl.arg_sort_by(TOPOLOGY, "position")).to_series().to_numpy()
    inputs = transformations.select(TOPOLOGY, pl.col("inputs").alias("input")).explode(
        "input", empty_as_null=False
    )
    rows = places(inputs, transformations, {"input": "id"})
    return InputRows(order.astype(np.int64), bounds, rows.astype(np.int64), kinds)


def offsets(lengths: Ints) -> Ints:
    """Return the starts of consecutive spans of these lengths, and the end of the last one."""
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


# Transformations that become stream nodes.


def is_kind(*kinds: str) -> pl.Expr:
    """Return whether the kind is one of `kinds`; a few comparisons take a fraction of the time of is_in."""
    return pl.any_horizontal(pl.col("kind") == kind for kind in kinds)


_IS_PHYSICAL, _IS_SOURCE = ~is_kind(*VIRTUAL_KINDS), is_kind(*SOURCE_KINDS)


def node_rows(transformations: pl.DataFrame, resolved_inputs: pl.DataFrame) -> Ints:
    """Return the rows of the physical transformations, without unregistered sources that nothing reads."""
    physical, source = (c.to_numpy() for c in transformations.select(p=_IS_PHYSICAL, s=_IS_SOURCE))
    read = np.zeros(len(source), bool)
    read[resolved_inputs["source_row"].to_numpy()] = True
    if has_details(transformations):
        read |= details_of(transformations)["registered"].fill_null(value=False).to_numpy()
    return np.flatnonzero(physical & (read | ~source))


# Rows of the nodes at the ends of stream edges.


_ENDS = ("source", "target")


def find_edge_ends(
    resolved_inputs: pl.DataFrame,
    inherited_groups: pl.DataFrame,
    stream_nodes: pl.DataFrame,
    given_stream_edges: pl.DataFrame,
) -> pl.DataFrame:
    """Return source_row and target_row, the rows in stream_nodes of the ends of each row of stream_edges.

    On Spark, joins find them.
    """
    rows = inherited_groups["row"].to_numpy()
    nodes = np.empty(rows.max(initial=-1) + 1, np.int32)
    nodes[rows] = np.arange(len(rows))
    translated = pl.DataFrame(
        {f"{end}_row": nodes[resolved_inputs[f"{end}_row"].to_numpy()] for end in _ENDS}
    )
    if given_stream_edges.is_empty():
        return translated
    given_ends = {f"{end}_row": places(given_stream_edges, stream_nodes, {end: "id"}) for end in _ENDS}
    return pl.concat([translated, pl.DataFrame(given_ends)], rechunk=True)


# Each virtual transformation is replaced by the physical ones above it.


_NONE = -1
_MOST = (1 << 31) - 1
"""Limit of the count of ways: unions of unions double them."""

_SINK_KIND, _PARTITION, _SIDE_OUTPUT, _SELECT = map(
    KINDS.index, (Kind.SINK, Kind.PARTITION, Kind.SIDE_OUTPUT, Kind.SELECT)
)
_PARTITIONER = pl.col("partitioner").cast(pl.Enum(Partitioner))
LABELLED = ("id", "partitioner", "exchange_mode", "tag", "names")
_LABELS = (
    (pl.col("id").alias("partition"), _PARTITIONER),
    (pl.col("exchange_mode").fill_null(pl.lit(str(StreamExchangeMode.UNDEFINED))),),
    (pl.col("tag").alias("output_tag"),),
    (pl.col("names").alias("selected_names"),),
)
"""Attributes that an edge takes from each of the four rows that decide its labels."""


def _expand_virtual_nodes(transformations: pl.DataFrame, inputs: InputRows) -> pl.DataFrame:
    """One row per virtual transformation and way up to a physical one, in the order of inputs.

    Out (sorted by row): row, the row of the virtual transformation; source_row; the labels collected on the
    way (see _LABELS); right_behind_hash, the transformation is a hash partition. Ways up
    to a sink are omitted: its translator returns no stream node ids to transformations that read it.
    """
    kinds = inputs.kinds
    virtual = kinds >= FIRST_VIRTUAL
    ways = np.where(kinds == _SINK_KIND, 0, 1)
    run_loop(_count_ways, len(kinds), inputs, (ways,))
    if (ways == _MOST).any():
        raise MemoryError("unions of unions: more edges than can be numbered")
    starts = offsets(np.where(virtual, ways, 0))
    way_columns = np.full((1 + len(_LABELS), starts[-1]), _NONE, np.int32)
    run_loop(_fill_ways, len(kinds), (*inputs, starts), tuple(way_columns))
    sources, *deciding = way_columns

    labelled = transformations.select(LABELLED).filter(pl.Series(values=virtual)).rechunk()
    places = np.append(np.cumsum(virtual) - 1, _NONE).astype(np.uint32)
    labels = [
        labelled.select(columns).select(pl.all().gather(pl.Series(places[rows]), null_on_oob=True))
        for columns, rows in zip(_LABELS, deciding, strict=True)
    ]
    rows = np.repeat(np.arange(len(kinds), dtype=np.int32), np.diff(starts))
    hashed = (pl.col("partitioner") == Partitioner.HASH) & pl.Series(values=deciding[0] == rows)
    return pl.concat(
        [pl.DataFrame({"row": rows, "source_row": sources}), *labels], how="horizontal"
    ).with_columns(hashed.fill_null(False).alias("right_behind_hash"))


def _count_ways(order: Ints, bounds: Ints, inputs: Ints, kinds: Ints, ways: Ints) -> None:
    """Count the ways up from each virtual transformation (see run_loop)."""
    for row in order:
        if kinds[row] >= FIRST_VIRTUAL:
            count = 0
            for place in range(bounds[row], bounds[row + 1]):
                count = min(count + ways[inputs[place]], _MOST)
            ways[row] = count


def _fill_ways(
    order: Ints,
    bounds: Ints,
    inputs: Ints,
    kinds: Ints,
    starts: Ints,
    sources: Ints,
    partitions: Ints,
    exchange_modes: Ints,
    output_tags: Ints,
    selected_names: Ints,
) -> None:
    """Write the end of each way and the rows that decide its labels (see run_loop): its input's, then its
    own.

    The nearest row decides; for the exchange mode, the farthest row that sets one.
    """
    for row in order:
        kind = kinds[row]
        if kind < FIRST_VIRTUAL:
            continue
        way = starts[row]
        for place in range(bounds[row], bounds[row + 1]):
            source = inputs[place]
            if kinds[source] >= FIRST_VIRTUAL:
                for further in range(starts[source], starts[source + 1]):
                    sources[way] = sources[further]
                    partitions[way] = partitions[further]
                    exchange_modes[way] = exchange_modes[further]
                    output_tags[way] = output_tags[further]
                    selected_names[way] = selected_names[further]
                    way += 1
            elif kinds[source] != _SINK_KIND:
                sources[way] = source
                way += 1
        for own in range(starts[row], starts[row + 1]):
            if kind == _PARTITION:
                partitions[own] = row
                if exchange_modes[own] == _NONE:
                    exchange_modes[own] = row
            elif kind == _SIDE_OUTPUT:
                output_tags[own] = row
            elif kind == _SELECT:
                selected_names[own] = row


# Kinds of operators with several inputs, and kinds that may be keyed.


MULTIPLE_INPUTS = [kind for kind, properties in OPERATOR_KINDS.items() if properties.multiple_inputs]
KEYED_BEHIND_HASH = (Kind.ONE_INPUT, Kind.WRITER, Kind.COMMITTER)
"""Kinds that are keyed right after a hash partition: KeyedStream.doTransform creates their operators."""


# Attributes that an edge gets from the virtual transformations on its way.


LABELS = ("partition", "partitioner", "exchange_mode", "output_tag", "selected_names")


_TAKEN = ("right_behind_hash", *LABELS)
_EDGE_NUMBERS = (
    "target",
    "source",
    "way",
    "type_number",
    "in_index",
    "in_degree",
    "input_degree",
    "out_index",
    "unique_id",
)


_SINK = KINDS.index(Kind.SINK)
_KEYED = np.array([kind in KEYED_BEHIND_HASH for kind in KINDS])
_SEVERAL = np.array([kind in MULTIPLE_INPUTS for kind in KINDS])


def resolve_virtual_nodes(expanded_transformations: pl.DataFrame) -> pl.DataFrame:
    """One row per StreamEdge, in the order in which Flink adds them to their target.

    Out (key topology_id, target, in_index): source, type_number, the LABELS of the virtual transformations
    between the two (null without one), keyed (the target reads a hash partition directly), numbers of the
    edge at both ends, and source_row and target_row, the rows of both ends in transformations. Edges of one
    topology are contiguous, sorted by target and in_index.

    Source: StreamGraph.addEdgeInternal, the translators of virtual transformations.

    Example: tests/passes/fixtures/resolved_inputs.txt.
    """
    return resolve_inputs(expanded_transformations, input_rows(expanded_transformations))


def resolve_inputs(transformations: pl.DataFrame, links: InputRows, first: int = 0) -> pl.DataFrame:
    """As resolve_virtual_nodes, of the edges whose targets are the row `first` or later ones.

    In: the columns topology_id, id, and those that label edges; `links` between these rows. Rows before
    `first` are only read: their own edges are left out, and out_index, out_degree and the like of such
    sources count the edges to the other rows.
    """
    order, bounds, inputs, kinds = links
    expansions = _expand_virtual_nodes(transformations, links)
    virtual = kinds >= FIRST_VIRTUAL
    starts = offsets(np.bincount(expansions["row"].to_numpy(), minlength=len(kinds)))
    edges = np.where(virtual, np.diff(starts), kinds != _SINK)
    before = offsets(edges[inputs])[bounds]
    count = int(np.diff(before)[first:][~virtual[first:]].sum())
    edge_arrays = np.empty((len(_EDGE_NUMBERS), count), np.int32)
    out_degree, pairs, last_target = (np.full(len(virtual), value, np.int32) for value in (0, 0, _NONE))
    run_loop(
        _add_edges,
        len(virtual) + count,
        (order[order >= first], bounds, inputs, virtual, edges, starts, expansions["source_row"].to_numpy()),
        (*edge_arrays, out_degree, pairs, last_target),
    )
    edge = dict(zip(_EDGE_NUMBERS, edge_arrays, strict=True))
    target, source, way = (edge.pop(name) for name in ("target", "source", "way"))
    at = pl.Series(way.view(np.uint32))
    labels = expansions.select(pl.col(_TAKEN).gather(at, null_on_oob=True))
    topologies, ids = (transformations[name].to_numpy() for name in (TOPOLOGY, "id"))
    input_numbers = edge["type_number"]
    resolved = pl.DataFrame(
        {
            TOPOLOGY: topologies[target],
            "target": ids[target],
            "source": ids[source],
            **labels[LABELS].to_dict(),
            "keyed": labels["right_behind_hash"].fill_null(False) & pl.Series(values=_KEYED[kinds[target]]),
            "source_row": source,
            "target_row": target,
            **edge,
            "type_number": np.where(_SEVERAL[kinds[target]], edge["type_number"], 0),
            "out_degree": out_degree[source],
        }
    )
    if "details" in transformations.columns and has_details(transformations):
        return _with_details(resolved, input_numbers, transformations)
    return resolved


OF_DETAILS = ("unaligned_checkpoints", "persistent_data_set")
"""Columns of resolved inputs if a transformation has details; else an edge may be overtaken, and no data set
is kept."""


def _with_details(resolved: pl.DataFrame, input_numbers: Ints, transformations: pl.DataFrame) -> pl.DataFrame:
    """Let the details of targets say which inputs are keyed, and add OF_DETAILS."""
    details = details_of(transformations)
    target = resolved["target_row"]
    of_targets = pl.DataFrame(
        {
            "by_input": details["keyed"][target],
            "input": input_numbers - 1,
            "data_set": details["data_set"][target],
            "writes": (transformations["kind"] == Kind.CACHE_WRITE)[target],
            "behind_hash": resolved["keyed"],
        }
    )
    keyed = pl.col("by_input").list.get(pl.col("input"), null_on_oob=True)
    aligned = transformations.select(TOPOLOGY, partition="id").filter(~details["unaligned_checkpoints"])
    return (
        resolved.drop("keyed")
        .hstack(
            of_targets.select(
                keyed=pl.coalesce(keyed, "behind_hash"),
                persistent_data_set=pl.when("writes").then("data_set"),
            )
        )
        .join(
            aligned.with_columns(unaligned_checkpoints=pl.lit(value=False)),
            on=[TOPOLOGY, "partition"],
            how="left",
            maintain_order="left",
        )
        .with_columns(pl.col("unaligned_checkpoints").fill_null(value=True))
    )


def _add_edges(
    order: Ints,
    bounds: Ints,
    inputs: Ints,
    virtual: Ints,
    edges: Ints,
    starts: Ints,
    way_sources: Ints,
    targets: Ints,
    sources: Ints,
    ways: Ints,
    type_numbers: Ints,
    in_index: Ints,
    in_degree: Ints,
    input_degree: Ints,
    out_index: Ints,
    unique_id: Ints,
    out_degree: Ints,
    pairs: Ints,
    last_target: Ints,
) -> None:
    """Number the edges of each target, each source and each pair of nodes (see run_loop).

    `edges`: the number of edges per input that names a row; `starts`: the first of the row's ways. The last
    two arguments are scratch space.
    """
    edge = 0
    for target in order:
        if virtual[target]:
            continue
        first = edge
        for place in range(bounds[target], bounds[target + 1]):
            named = inputs[place]
            for number in range(edges[named]):
                source, way = named, _NONE
                if virtual[named]:
                    way = starts[named] + number
                    source = way_sources[way]
                if last_target[source] != target:
                    last_target[source] = target
                    pairs[source] = 0
                targets[edge] = target
                sources[edge] = source
                ways[edge] = way
                type_numbers[edge] = place - bounds[target] + 1
                in_index[edge] = edge - first
                input_degree[edge] = edges[named]
                out_index[edge] = out_degree[source]
                unique_id[edge] = pairs[source]
                out_degree[source] += 1
                pairs[source] += 1
                edge += 1
        for added in range(first, edge):
            in_degree[added] = edge - first


# Topologies whose unions of unions expand to more edges than a plan can contain are refused.


# Count of the edges that a topology's virtual transformations expand to, before any edge is created.
#
# A union may read another union twice, which doubles its ways up: a topology of 60 transformations can expand
# to 2^60 edges.


MOST_EDGES = 1 << 22
"""Limit of a small topology. Flink holds an object for each edge."""
EDGES_OF_A_TRANSFORMATION = 16
"""Limit of a large topology per transformation, if that is more."""
UNCOUNTED = 1 << 31
"""Ways of one transformation are counted up to this number."""


def most_edges(transformations: int) -> int:
    """Return the number of ways that all transformations of a topology may have together."""
    return max(MOST_EDGES, EDGES_OF_A_TRANSFORMATION * transformations)


def count_expanded_ways(
    order: Ints, bounds: Ints, inputs: Ints, virtual: Ints, sinks: Ints, ways: Ints
) -> None:
    """Count the ways up from each transformation to physical ones (see run_loop).

    Row r has the inputs bounds[r] to bounds[r + 1], which precede it in `order`. Each way of a physical
    transformation is one of its edges. A sink provides none to its readers.
    """
    for row in order:
        count = 0
        for place in range(bounds[row], bounds[row + 1]):
            named = inputs[place]
            if virtual[named]:
                count = min(count + ways[named], UNCOUNTED)
            elif not sinks[named]:
                count = min(count + 1, UNCOUNTED)
        ways[row] = count


def too_many_edges(id: int, ways: int, most: int) -> dict[str, str]:
    """Return the error for a topology whose transformations up to `id` have `ways` ways, as
    parse_lines.shown.
    """
    beyond = "more than " if ways >= UNCOUNTED else ""
    return {
        "error": str(ErrorKind.TOO_MANY_EDGES),
        "location": f"transformation {id}",
        "found": f"unions of unions that expand to {beyond}{min(ways, UNCOUNTED):,} edges up to here",
        "allowed": f"at most {most:,} edges in a topology of this size",
        "hint": "let a union name each of its inputs once, or put an operator between the unions",
    }


_TABLES_OF_TOPOLOGIES = ("topologies", "transformations", "job_settings")


def limit_expansion(tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Move topologies with too many edges from the tables of the topology layer to `rejected`.

    They are rejected at stage input, with the first transformation at which there are too many.
    """
    wrong = beyond_limit(tables["transformations"])
    if wrong.is_empty():
        return tables
    refused = np.sort(wrong[TOPOLOGY].to_numpy())
    errors = {
        topology: too_many_edges(id, ways, most)
        for topology, id, ways, most in wrong.select(TOPOLOGY, "id", "ways", "most").iter_rows()
    }
    rows = tables["topologies"].filter(pl.col(TOPOLOGY).is_in(wrong[TOPOLOGY].implode()))
    rejected = rejected_rows(
        RejectedTopology(name, file, line, INPUT_STAGE, [errors[topology]])
        for topology, name, file, line in rows.select(
            TOPOLOGY, "name", "source_file", "source_line"
        ).iter_rows()
    )
    remaining = {name: without_topologies(tables[name], refused) for name in _TABLES_OF_TOPOLOGIES}
    return {**tables, **remaining, "rejected": pl.concat([tables["rejected"], rejected])}


def beyond_limit(transformations: pl.DataFrame) -> pl.DataFrame:
    """(topology_id, id, ways, most): each topology's first transformation with too many ways, if any.

    Topologies without unions are skipped: their edges are exactly the inputs in the file.
    """
    unions = transformations.filter(pl.col("kind") == Kind.UNION)[TOPOLOGY].unique()
    if len(unions) < transformations[TOPOLOGY].n_unique():
        transformations = transformations.filter(pl.col(TOPOLOGY).is_in(unions.implode()))
    links = input_rows(transformations.select(TOPOLOGY, "id", "inputs", "kind"))
    return beyond_limit_of(transformations, links)


def beyond_limit_of(transformations: pl.DataFrame, links: InputRows) -> pl.DataFrame:
    """As beyond_limit, of topologies with unions; `links` between the rows, of which only ids are read."""
    order, bounds, inputs, kinds = links
    ways = np.zeros(len(kinds), np.int64)
    run_loop(
        count_expanded_ways,
        len(kinds) + len(inputs),
        (order, bounds, inputs, kinds >= FIRST_VIRTUAL, kinds == _SINK),
        (ways,),
    )
    topologies = transformations[TOPOLOGY].to_numpy()[order]
    of_topologies = runs(topologies)
    until_here = np.cumsum(ways[order])
    sizes = np.diff(np.append(of_topologies.starts, len(order)))
    before = np.repeat(until_here[of_topologies.starts] - ways[order][of_topologies.starts], sizes)
    way_counts = pl.DataFrame(
        {
            TOPOLOGY: topologies,
            "id": transformations["id"].to_numpy()[order],
            "ways": until_here - before,
            "most": np.repeat([most_edges(int(size)) for size in sizes], sizes).astype(np.int64),
        }
    )
    return way_counts.filter(pl.col("ways") > pl.col("most")).unique(
        TOPOLOGY, keep="first", maintain_order=True
    )
