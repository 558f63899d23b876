"""Topologies whose unions of unions expand to more edges than a plan can hold are refused."""

import numpy as np
import polars as pl

from penstock.plans.error_kinds import INPUT_STAGE, ErrorKind
from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.compiled import run_loop
from penstock.plans.frames.counts import runs
from penstock.plans.frames.polars_refusals import without_topologies
from penstock.plans.stream_graph.columnar.resolve_virtual_nodes import FIRST_VIRTUAL, KINDS, input_rows
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.topologies_of_lines import Refused, rejected_rows
from penstock.plans.vocabulary import Kind

# Counts the edges that a topology's virtual transformations expand to, before any edge is created.
#
# A union may read another union twice, which doubles its ways up: a topology of 60 transformations can expand
# to 2^60 edges.


MOST_EDGES = 1 << 22
"""Of a small topology. Flink keeps an object for each of them."""
EDGES_OF_A_TRANSFORMATION = 16
"""Of a large topology for each transformation, where that is more."""
UNCOUNTED = 1 << 31
"""Ways of one transformation are counted up to this number."""


def most_edges(transformations: int) -> int:
    """The number of ways that all transformations of a topology may have together."""
    return max(MOST_EDGES, EDGES_OF_A_TRANSFORMATION * transformations)


def count_ways(order: Ints, bounds: Ints, inputs: Ints, virtual: Ints, sinks: Ints, ways: Ints) -> None:
    """The number of ways up from each transformation to physical ones (see run_loop).

    Row r has the inputs bounds[r] to bounds[r + 1], which come before it in `order`. Each way of a physical
    transformation is one of its edges. A sink gives none to those that read it.
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
    """The error of a topology whose transformations up to `id` have that many ways, as parse_lines.shown."""
    beyond = "more than " if ways >= UNCOUNTED else ""
    return {
        "error": str(ErrorKind.TOO_MANY_EDGES),
        "location": f"transformation {id}",
        "found": f"unions of unions that expand to {beyond}{min(ways, UNCOUNTED):,} edges up to here",
        "allowed": f"at most {most:,} edges in a topology of this size",
        "hint": "let a union name each of its inputs once, or put an operator between the unions",
    }


_SINK = KINDS.index(Kind.SINK)
_HOLD_TOPOLOGIES = ("topologies", "transformations", "job_settings")


def limit_expansion(tables: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables of the topology layer, in which topologies of too many edges are rows of `rejected` only.

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
        Refused(name, file, line, INPUT_STAGE, [errors[topology]])
        for topology, name, file, line in rows.select(
            TOPOLOGY, "name", "source_file", "source_line"
        ).iter_rows()
    )
    kept = {name: without_topologies(tables[name], refused) for name in _HOLD_TOPOLOGIES}
    return {**tables, **kept, "rejected": pl.concat([tables["rejected"], rejected])}


def beyond_limit(transformations: pl.DataFrame) -> pl.DataFrame:
    """(topology_id, id, ways, most): each topology's first transformation with too many ways, if any.

    Topologies without unions are skipped: their edges are just the inputs in the file.
    """
    unions = transformations.filter(pl.col("kind") == Kind.UNION)[TOPOLOGY].unique()
    if len(unions) < transformations[TOPOLOGY].n_unique():
        transformations = transformations.filter(pl.col(TOPOLOGY).is_in(unions.implode()))
    order, bounds, inputs, kinds = input_rows(transformations.select(TOPOLOGY, "id", "inputs", "kind"))
    ways = np.zeros(len(kinds), np.int64)
    run_loop(
        count_ways,
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
