"""One job vertex a chain: its name, resources and task."""

import numpy as np
import polars as pl
import pyarrow as pa

from plans.arrow_walks import Ints
from plans.columnar.frames import TOPOLOGY
from plans.columnar.groups import by_group, groups
from plans.columnar.job_graph.assign_operators_to_vertices import hex_id
from plans.job_graph.create_vertices import RESOURCE_FIELDS, RESOURCES
from plans.job_graph.order_depth_first import FIRST_BRANCH, LATER_BRANCH, ONLY_BRANCH

_OF_MEMBERS = (
    "name",
    "chain_index",
    "branch",
    "closings",
    "parallelism_configured",
    "input_format",
    "output_format",
    "supports_concurrent_execution_attempts",
)
_OF_HEADS = (
    TOPOLOGY,
    "vertex",
    "id_lower",
    "id_upper",
    "parallelism",
    "max_parallelism",
    "invokable",
    "slot_sharing_group",
    "co_location_group",
    "postorder",
)
_CHAINED_SOURCE, _HEAD = 0, 1
_PLACE_OF_HEAD, _PLACE_OF_SOURCES = -(1 << 31), -(1 << 30)


def create_vertices(operators: pl.DataFrame) -> pl.DataFrame:
    """Vertices before groups and order. As plans.job_graph.create_vertices.

    The operators of a vertex are brought together as they stand in its chained name (head, chained sources,
    chain); whatever a vertex has of them is then taken over neighbouring rows.
    """
    rows, starts = by_group(groups(operators, "vertex"), _places(operators))
    members, heads = operators.select(_OF_MEMBERS)[rows], operators.select(_OF_HEADS)[rows[starts]]
    in_chain = pl.col("chain_index") > 0
    has_format = (pl.col("input_format") | pl.col("output_format")) & in_chain
    not_concurrent = ~pl.col("supports_concurrent_execution_attempts")
    return heads.select(
        TOPOLOGY,
        "vertex",
        hex_id(heads["id_lower"], heads["id_upper"]).alias("vertex_id"),
        _joined(_name_pieces(members), starts).alias("name"),
        "parallelism",
        "max_parallelism",
        _any(members, pl.col("parallelism_configured"), starts).alias("parallelism_configured"),
        "invokable",
        _any(members, has_format, starts).alias("format_vertex"),
        pl.col("slot_sharing_group").alias("slot_sharing_group_name"),
        pl.col("co_location_group").alias("co_location_group_name"),
        (~_any(members, not_concurrent, starts)).alias("supports_concurrent_execution_attempts"),
        *(_sum_of_resources(operators.select("chain_index", name), rows, starts) for name in RESOURCES),
        "postorder",
    )


def _places(operators: pl.DataFrame) -> Ints:
    place = (
        pl.when(pl.col("chain_index") == _HEAD)
        .then(_PLACE_OF_HEAD)
        .when(pl.col("chain_index") == _CHAINED_SOURCE)
        .then(_PLACE_OF_SOURCES + pl.col("chained_source_index"))
        .otherwise("preorder")
    )
    return operators.select(place.cast(pl.Int64)).to_series().to_numpy()


def _name_pieces(members: pl.DataFrame) -> pl.Series:
    """What each operator adds to the chained name, brackets included."""
    index, branch = pl.col("chain_index"), pl.col("branch")
    is_source = index == _CHAINED_SOURCE
    opening = (
        pl.when(index == _HEAD)
        .then(pl.lit(""))
        .when(is_source & (index.shift(1) == _HEAD))
        .then(pl.lit(" ["))
        .when(is_source | (branch == LATER_BRANCH))
        .then(pl.lit(", "))
        .when(branch == ONLY_BRANCH)
        .then(pl.lit(" -> "))
        .when(branch == FIRST_BRANCH)
        .then(pl.lit(" -> ("))
    )
    is_last_source = is_source & (index.shift(-1, fill_value=_HEAD) != _CHAINED_SOURCE)
    brackets = pl.lit("").str.pad_end(pl.when(index > _HEAD).then("closings").otherwise(0), ")")
    closing = pl.when(is_last_source).then(pl.lit("]")).otherwise(brackets)
    return members.select(pl.concat_str(opening, "name", closing).fill_null("")).to_series()


def _joined(texts: pl.Series, starts: Ints) -> pl.Series:
    """The texts from each start up to the next as one: Arrow has them side by side in memory already."""
    arrow = texts.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, bounds, characters = arrow.buffers()
    ends = np.frombuffer(bounds, dtype=np.int64)[arrow.offset : arrow.offset + len(arrow) + 1]
    kept = ends[np.append(starts, len(arrow))]
    strings = pa.LargeStringArray.from_buffers(len(starts), pa.py_buffer(kept), characters)
    return pl.Series(values=strings, dtype=pl.String)


def _any(members: pl.DataFrame, condition: pl.Expr, starts: Ints) -> pl.Series:
    holds = members.select(condition).to_series().to_numpy()
    return pl.Series(values=np.logical_or.reduceat(holds, starts))


def _sum_of_resources(specs: pl.DataFrame, rows: Ints, starts: Ints) -> pl.Series:
    """Sum over the chain without its chained sources; null as soon as one operator's is.

    In: chain_index and resources of all operators. As in Spark the head's amount is added to the sum of those
    below it, added one by one.
    """
    name = specs.columns[-1]
    if specs[name].null_count() == len(specs):
        return specs[name].clear(len(starts))
    members = specs[rows]
    unspecified = _any(members, (pl.col("chain_index") > 0) & pl.col(name).is_null(), starts)
    below = (members["chain_index"] > _HEAD).to_numpy()
    vertex = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(rows))))[below]
    sums = {}
    for field in RESOURCE_FIELDS:
        amount = members[name].struct.field(field).fill_null(0).to_numpy()
        of_vertices = np.zeros(len(starts), amount.dtype)
        np.add.at(of_vertices, vertex, amount[below])
        sums[field] = amount[starts] + of_vertices
    total = pl.when(~unspecified).then(pl.struct(pl.all())).alias(name)
    return pl.DataFrame(sums).select(total).to_series()
