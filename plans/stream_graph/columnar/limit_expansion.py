"""Topologies whose unions of unions expand to more edges than a plan can hold are refused."""

import numpy as np
import polars as pl

from penstock.plans.error_kinds import INPUT_STAGE
from penstock.plans.frames.compiled import run_loop
from penstock.plans.frames.counts import runs
from penstock.plans.frames.polars_refusals import without_topologies
from penstock.plans.stream_graph.columnar.input_rows import FIRST_VIRTUAL, KINDS, input_rows
from penstock.plans.stream_graph.limit_expansion import count_ways, most_edges, too_many_edges
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.columnar.rejected_rows import Refused, rejected_rows
from penstock.plans.vocabulary import Kind

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
