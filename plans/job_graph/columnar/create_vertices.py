"""Every stream node belongs to the job vertex of its chain; one job vertex per chain."""

from binascii import hexlify

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.frames.arrow_walks import Ints
from penstock.plans.frames.counts import runs
from penstock.plans.job_graph.create_vertices import (
    CHAINED_SOURCE,
    HEAD,
    NODE_COLUMNS,
    RESOURCE_FIELDS,
    VERTEX_RULES,
    FromChain,
)
from penstock.plans.job_graph.order_depth_first import FIRST_BRANCH, LATER_BRANCH, NO_BRANCH, ONLY_BRANCH
from penstock.plans.tables.column_types import TOPOLOGY

_HEX_DIGITS = 32


def hex_id(lower: pl.Series, upper: pl.Series) -> pl.Series:
    """Flink's AbstractID.toString of ids held as two longs."""
    longs = np.empty((len(lower), 2), dtype=">i8")
    longs[:, 0], longs[:, 1] = lower.to_numpy(), upper.to_numpy()
    ends = np.arange(len(lower) + 1, dtype=np.int64) * _HEX_DIGITS
    digits = pa.py_buffer(hexlify(longs.data))
    strings = pa.LargeStringArray.from_buffers(len(lower), pa.py_buffer(ends), digits)
    return pl.Series(values=strings, dtype=pl.String)


_FIRST_SOURCE, _FIRST_IN_CHAIN = 1, 1 << 31
_FIRST_CHAINED_SOURCE = LATER_BRANCH + 1
_OPENING = {
    NO_BRANCH: "",
    ONLY_BRANCH: " -> ",
    FIRST_BRANCH: " -> (",
    LATER_BRANCH: ", ",
    _FIRST_CHAINED_SOURCE: " [",
}
"""The text before an operator's name, by its place in the chain."""
_OPENINGS = pl.Series([_OPENING[branch] for branch in sorted(_OPENING)])


def create_vertices(operators: pl.DataFrame) -> pl.DataFrame:
    """Vertices before groups and order, in the order in which Flink creates them.

    Columns and source: see joins.create_vertices.

    Example: tests/passes/fixtures/chain_vertices.txt.
    """
    of_vertices = operators["vertex_place"].to_numpy()
    head_rows = np.flatnonzero((operators["chain_index"] == HEAD).to_numpy())
    heads = np.empty_like(head_rows)
    heads[of_vertices[head_rows]] = head_rows
    in_chain = pl.col("chain_index") >= HEAD
    has_format = (pl.col("input_format") | pl.col("output_format")) & in_chain

    def any_of(condition: pl.Expr) -> pl.Series:
        holds = np.zeros(len(heads), np.bool_)
        holds[of_vertices[operators.select(condition).to_series().to_numpy()]] = True
        return pl.Series(values=holds)

    of_heads: list[pl.Expr] = []
    of_chains: list[pl.Series] = []
    for name, (of_chain, column) in VERTEX_RULES.items():
        match of_chain:
            case FromChain.HEAD:
                of_heads.append(pl.col(column).alias(name))
            case FromChain.ANY:
                of_chains.append(any_of(pl.col(column)).alias(name))
            case FromChain.ALL:
                of_chains.append((~any_of(~pl.col(column))).alias(name))
            case FromChain.SUM:
                of_chains.append(_sum_of_resources(operators, column, heads).alias(name))
    return operators.select(TOPOLOGY, "vertex", pl.col("operator_id").alias("vertex_id"), *of_heads)[
        heads
    ].hstack(
        [
            _chained_names(operators, heads).alias("name"),
            any_of(has_format).alias("format_vertex"),
            *of_chains,
        ]
    )


def _by_chained_name(operators: pl.DataFrame, rows: Ints) -> Ints:
    """These rows by vertex, and as they stand in its chained name: head, chained sources, chain."""
    of_vertices, index, source_index, preorder = (
        operators[name].to_numpy()[rows].astype(np.int64)
        for name in ("vertex_place", "chain_index", "chained_source_index", "preorder")
    )
    behind_head = np.where(index == CHAINED_SOURCE, _FIRST_SOURCE + source_index, _FIRST_IN_CHAIN + preorder)
    return rows[np.argsort(of_vertices << 32 | np.where(index == HEAD, 0, behind_head))]


def _chained_names(operators: pl.DataFrame, heads: Ints) -> pl.Series:
    """The chained names of the vertices with these heads; of an operator alone it is its name."""
    of_vertices = operators["vertex_place"].to_numpy()
    has_several = np.bincount(of_vertices, minlength=len(heads)) > 1
    rows = _by_chained_name(operators, np.flatnonzero(has_several[of_vertices]))
    starts = runs(of_vertices[rows]).starts
    members = operators.select("name", "chain_index", "branch", "closings")[rows]
    names = pl.concat([operators["name"], _joined(_name_pieces(members), starts)], rechunk=True)
    at = heads.copy()
    at[has_several] = len(operators) + np.arange(len(starts))
    return names.gather(pl.Series(values=at, dtype=pl.get_index_type()))


def _name_pieces(members: pl.DataFrame) -> pl.Series:
    """The part of the chained name that each operator adds, brackets included."""
    index = pl.col("chain_index")
    is_source = index == CHAINED_SOURCE
    is_first = is_source & (index.shift(1) == HEAD)
    hangs = (
        pl.when(is_first).then(_FIRST_CHAINED_SOURCE).when(is_source).then(LATER_BRANCH).otherwise("branch")
    )
    is_last_source = is_source & (index.shift(-1, fill_value=HEAD) != CHAINED_SOURCE)
    brackets = pl.lit("").str.pad_end(pl.when(index > HEAD).then("closings").otherwise(0), ")")
    closing = pl.when(is_last_source).then(pl.lit("]")).otherwise(brackets)
    return members.select(pl.concat_str(pl.lit(_OPENINGS).gather(hangs), "name", closing)).to_series()


def _joined(texts: pl.Series, starts: Ints) -> pl.Series:
    """Joins the texts from each start up to the next without a copy: Arrow stores them side by side."""
    arrow = texts.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, bounds, characters = arrow.buffers()
    ends = np.frombuffer(bounds, dtype=np.int64)[arrow.offset : arrow.offset + len(arrow) + 1]
    kept = ends[np.append(starts, len(arrow))]
    strings = pa.LargeStringArray.from_buffers(len(starts), pa.py_buffer(kept), characters)
    return pl.Series(values=strings, dtype=pl.String)


def _sum_of_resources(operators: pl.DataFrame, name: str, heads: Ints) -> pl.Series:
    """Sum over the chain without its chained sources; null as soon as one operator's is.

    As in Spark the head's amount is added to the sum of those below it, added one by one.
    """
    if operators[name].null_count() == len(operators):
        return operators[name].clear(len(heads))
    in_chain = np.flatnonzero((operators["chain_index"] >= HEAD).to_numpy())
    rows = _by_chained_name(operators, in_chain)
    members = operators.select("vertex_place", "chain_index", name)[rows]
    vertex, below = members["vertex_place"].to_numpy(), (members["chain_index"] > HEAD).to_numpy()
    unspecified = np.zeros(len(heads), np.bool_)
    unspecified[vertex[members[name].is_null().to_numpy()]] = True
    sums = {}
    for field in RESOURCE_FIELDS:
        amount = members[name].struct.field(field).fill_null(0).to_numpy()
        of_vertices = np.zeros(len(heads), amount.dtype)
        np.add.at(of_vertices, vertex[below], amount[below])
        sums[field] = amount[~below] + of_vertices
    total = pl.when(pl.Series(values=~unspecified)).then(pl.struct(pl.all())).alias(name)
    return pl.DataFrame(sums).select(total).to_series()


_OF_WALK = (
    "vertex",
    "vertex_place",
    "chain_index",
    "chained_source_index",
    "operator_order",
    "operator_place",
    "preorder",
    "branch",
    "closings",
)


def assign_operators_to_vertices(stream_nodes: pl.DataFrame, walked: pl.DataFrame) -> pl.DataFrame:
    """The operators of all vertices, with the columns from which vertices are derived.

    As in joins.assign_operators_to_vertices, with vertex_place (see walk_stream_graph), operator_id
    and operator_order.

    Example: tests/passes/fixtures/operators.txt.
    """
    nodes = stream_nodes.select(TOPOLOGY, pl.col("id").alias("node"), *NODE_COLUMNS)
    operators = nodes.hstack(walked.select(_OF_WALK)).with_columns(
        hex_id(walked["id_lower"], walked["id_upper"]).alias("operator_id")
    )
    # An operator that no source leads to (its only input was a sink) is in no vertex.
    in_vertex = operators["vertex_place"] >= 0
    return operators if in_vertex.all() else operators.filter(in_vertex)
