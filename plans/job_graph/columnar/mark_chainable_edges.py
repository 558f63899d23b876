"""Every stream edge knows whether it is chainable, and every reason why not; every node knows its chain."""

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.polars_frames import look_up, walk
from penstock.plans.frames.polars_groups import ints
from penstock.plans.job_graph.order_depth_first import HEADS, find_heads
from penstock.plans.stream_graph.not_chainable_reasons import (
    EdgeExpressions,
    NotChainableReason,
    local_conditions,
)
from penstock.plans.tables import STREAM_EDGES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import ChainingStrategy


def mark_local_reasons(edges_with_ends: pl.DataFrame) -> pl.DataFrame:
    """All reasons that an edge and its two ends decide.

    Columns and source: see joins.mark_chainable_edges.

    Example: tests/passes/fixtures/marked_edges.txt.
    """
    reasons = edges_with_ends.select(_LOCAL_REASONS)
    return edges_with_ends.drop(_NOT_NEEDED).hstack(reasons).with_columns(_CHAINED_SOURCE)


def mark_chainable_edges(
    marked_edges: pl.DataFrame, edge_ends: pl.DataFrame, chain_heads: pl.DataFrame
) -> pl.DataFrame:
    """The StreamGraph's edges with their verdicts on chaining.

    Columns and source: see joins.mark_chainable_edges.

    Example: tests/passes/fixtures/stream_edges.txt.
    """
    return settle_edges(marked_edges, edge_ends, _behind_legacy_sources(marked_edges, chain_heads))


def settle_edges(marked_edges: pl.DataFrame, edge_ends: pl.DataFrame, behind_legacy: Ints) -> pl.DataFrame:
    """As mark_chainable_edges; `behind_legacy`: edges of legacy sources' chains to yielding operators."""
    sets = marked_edges["reasons"].to_numpy().copy()
    sets[behind_legacy] |= _YIELDING
    set_occurs = np.zeros(1 << len(NotChainableReason), bool)
    set_occurs[sets] = True
    lists = _named(np.flatnonzero(set_occurs)).gather((np.cumsum(set_occurs) - 1)[sets])
    forced = marked_edges.select(_FORCES_ALIGNMENT).to_series().to_numpy()
    targets = edge_ends["target_row"].to_numpy()
    aligned = np.zeros(targets.max(initial=-1) + 1, bool)
    aligned[targets[forced]] = True
    return marked_edges.with_columns(
        supports_unaligned_checkpoints=_UNALIGNED & ~pl.Series(values=aligned[targets]),
        chainable=pl.Series(values=sets == 0),
        not_chainable_reasons=lists,
    ).select(STREAM_EDGES.names)


def _named(sets: Ints) -> pl.Series:
    """The names of the reasons in each set. From Arrow, since polars takes ten times as long for lists."""
    names = [[reason.value for reason in NotChainableReason if bits & reason.bit] for bits in sets.tolist()]
    return pl.Series(values=pa.array(names, pa.list_(pa.string())))


def _behind_legacy_sources(marked_edges: pl.DataFrame, chain_heads: pl.DataFrame) -> Ints:
    """The edges whose target yields and whose source is a legacy source or chained to one."""
    yielding = edges_to_yielding(marked_edges)
    legacy_heads = chain_heads.filter("head_is_legacy_source").select(TOPOLOGY, "node", chained_to_one=True)
    cut_edges = look_up(yielding, legacy_heads, {"source": "node"}).filter(
        pl.col("legacy_source") | pl.col("chained_to_one").is_not_null()
    )
    return ints(cut_edges, "edge")


def edges_to_yielding(marked_edges: pl.DataFrame) -> pl.DataFrame:
    """edge (its row), topology_id, source, legacy_source of the edges whose target yields."""
    return marked_edges.select(_OF_YIELDING).filter("yielding")


_NOT_NEEDED = ("forward", "chaining_enabled", "chain_different_max_parallelism")
_YIELDING = NotChainableReason.YIELDING_BEHIND_LEGACY_SOURCE.bit
_UNALIGNED = pl.col("supports_unaligned_checkpoints")
_FORCES_ALIGNMENT = (pl.col("in_degree") > 1) & ~_UNALIGNED
_LOCAL_REASONS = pl.sum_horizontal(
    pl.when(condition).then(reason.bit).otherwise(0)
    for reason, condition in local_conditions(
        EdgeExpressions(pl.col, pl.Expr.fill_null, pl.col("forward"))
    ).items()
).alias("reasons")
_CHAINED_SOURCE = (
    pl.col("source_source")
    & (pl.col("out_degree") == 1)
    & (pl.col("target_chaining") == ChainingStrategy.HEAD_WITH_SOURCES)
    & ((pl.col("reasons") & ~NotChainableReason.SEVERAL_INPUTS.bit) == 0)
).alias("chained_source")
_OF_YIELDING = (
    pl.int_range(pl.len()).alias("edge"),
    pl.col(TOPOLOGY),
    pl.col("source"),
    pl.col("source_legacy_source").alias("legacy_source"),
    pl.col("target_yielding").alias("yielding"),
)


_POINTERS = (
    pl.col(TOPOLOGY),
    pl.col("target").alias("node"),
    pl.col("source").alias("parent"),
    pl.col("target_yielding").alias("yielding"),
    pl.col("source_legacy_source").alias("behind_legacy_source"),
    ((pl.col("reasons") == 0) & ~pl.col("chained_source")).alias("chains"),
)


def find_chain_heads(marked_edges: pl.DataFrame) -> pl.DataFrame:
    """One row per node that is chained to another.

    Columns and source: see joins.find_chain_heads.

    Example: tests/passes/fixtures/chain_heads.txt.
    """
    return walk(chain_pointers(marked_edges), ["node"], find_heads, HEADS)


def chain_pointers(marked_edges: pl.DataFrame) -> pl.DataFrame:
    """The rows that find_heads reads: a node that is chained to another one points at it."""
    return marked_edges.select(_POINTERS).filter("chains").drop("chains")
