"""Inputs of physical transformations lead to physical transformations."""

import numpy as np
import polars as pl

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.compiled import run_loop
from penstock.plans.stream_graph.columnar.expand_virtual_nodes import expand_virtual_nodes
from penstock.plans.stream_graph.columnar.input_rows import FIRST_VIRTUAL, KINDS, input_rows, offsets
from penstock.plans.stream_graph.expand_virtual_nodes import LABELS
from penstock.plans.stream_graph.resolve_virtual_nodes import KEYED_BEHIND_HASH, MULTIPLE_INPUTS
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Kind

_NONE = -1
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

    As in joins.resolve_virtual_nodes, with source_row and target_row, the rows of the two in
    transformations; edges of one topology stand together, sorted by target and in_index.

    Example: tests/passes/fixtures/resolved_inputs.txt.
    """
    input_arrays = input_rows(expanded_transformations)
    order, bounds, inputs, kinds = input_arrays
    expansions = expand_virtual_nodes(expanded_transformations, input_arrays)
    virtual = kinds >= FIRST_VIRTUAL
    starts = offsets(np.bincount(expansions["row"].to_numpy(), minlength=len(kinds)))
    edges = np.where(virtual, np.diff(starts), kinds != _SINK)
    before = offsets(edges[inputs])[bounds]
    count = int(np.diff(before)[~virtual].sum())
    edge_arrays = np.empty((len(_EDGE_NUMBERS), count), np.int32)
    out_degree, pairs, last_target = (np.full(len(virtual), value, np.int32) for value in (0, 0, _NONE))
    run_loop(
        _add_edges,
        len(virtual) + count,
        (order, bounds, inputs, virtual, edges, starts, expansions["source_row"].to_numpy()),
        (*edge_arrays, out_degree, pairs, last_target),
    )
    edge = dict(zip(_EDGE_NUMBERS, edge_arrays, strict=True))
    target, source, way = (edge.pop(name) for name in ("target", "source", "way"))
    at = pl.Series(way.view(np.uint32))
    labels = expansions.select(pl.col(_TAKEN).gather(at, null_on_oob=True))
    topologies, ids = (expanded_transformations[name].to_numpy() for name in (TOPOLOGY, "id"))
    return pl.DataFrame(
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
    """Numbers the edges of each target, each source and each two nodes (see run_loop).

    `edges` is how many an input that names a row gives, `starts` where the row's ways start. The last two
    are scratch space.
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
        for of_target in range(first, edge):
            in_degree[of_target] = edge - first
