"""Managed memory weights whose sum overflows Flink's int."""

import polars as pl

from plans.columnar.refusals import ILLEGAL_ARGUMENT, NO_REASON, refusals
from plans.job_graph.columnar.set_managed_memory_fractions import fraction_rounded_down, wrapped
from plans.job_graph.java_double import java_double
from plans.job_graph.refuse_memory_fractions import (
    ARITHMETIC,
    BIG_INTEGER_BY_ZERO,
    LOAD_FACTOR,
    LONG_BY_ZERO,
    MAX_INT,
    MAX_LONG_WEIGHT,
    NOT_A_FRACTION,
    SMALLEST_TABLE,
)
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import Layer, ManagedMemoryUseCase

_GROUP = [TOPOLOGY, "slot_sharing_group"]


def refuse_memory_fractions(
    operators: pl.DataFrame, job_vertices: pl.DataFrame, precedence: int
) -> pl.DataFrame:
    """The reasons of weights whose sum overflows.

    Columns and source: see joins.refuse_memory_fractions.
    """
    weight = pl.col("managed_memory").map.get(ManagedMemoryUseCase.OPERATOR.value).cast(pl.Int64)
    weighing = operators.select(TOPOLOGY, "vertex", "managed_memory").filter(
        pl.col("managed_memory").map.len() > 0
    )
    if weighing.select(weight.sum()).item() <= MAX_INT:
        return NO_REASON
    vertices = job_vertices.select(*_GROUP, "vertex", "vertex_id")
    summed = weighing.select(TOPOLOGY, "vertex", weight.alias("weight")).join(
        vertices, on=[TOPOLOGY, "vertex"]
    )
    sums = summed.group_by(_GROUP).agg(pl.col("weight").sum().alias("sum")).filter(pl.col("sum") > MAX_INT)
    in_groups = vertices.join(sums, on=_GROUP).with_columns(
        _place(_id_hash(), pl.len().over(_GROUP)).alias("vertex_place")
    )
    topologies = sums.select(TOPOLOGY).unique()
    of_topologies = operators.select(TOPOLOGY, "vertex", "node", "managed_memory").join(
        topologies, on=TOPOLOGY, how="semi"
    )
    placed = (
        of_topologies.select(TOPOLOGY, "vertex", "node", weight.fill_null(0).alias("weight"))
        .join(in_groups, on=[TOPOLOGY, "vertex"])
        .with_columns(
            _place(pl.col("node"), pl.len().over(TOPOLOGY, "vertex")).alias("node_place"),
            wrapped(pl.col("sum")).alias("group_weight"),
        )
        .filter(pl.col("weight") > 0)
    )
    divided = placed.filter(pl.col("group_weight") != 0).with_columns(fraction_rounded_down())
    wrong = divided.filter(~pl.col("fraction").is_between(0, 1))
    message = wrong["fraction"].map_elements(lambda value: NOT_A_FRACTION + java_double(value), pl.String)
    by_zero = placed.filter(pl.col("group_weight") == 0)
    in_long = pl.col("weight") <= MAX_LONG_WEIGHT
    zero_message = pl.when(in_long).then(pl.lit(LONG_BY_ZERO)).otherwise(pl.lit(BIG_INTEGER_BY_ZERO))
    rows = pl.concat(
        [
            wrong.drop("fraction").with_columns(
                pl.lit(ILLEGAL_ARGUMENT).alias("error"), message.alias("message")
            ),
            by_zero.with_columns(pl.lit(ARITHMETIC).alias("error"), zero_message.alias("message")),
        ]
    )
    places = ("slot_sharing_group", "vertex_place", "vertex", "node_place", "node")
    return refusals(
        rows,
        Layer.JOB_GRAPH,
        [pl.lit(precedence), *map(pl.col, places)],
        pl.col("error"),
        pl.col("message"),
        pl.concat_str(pl.lit("node "), "node"),
    )


def _id_hash() -> pl.Expr:
    """AbstractID.hashCode: the exclusive or of its four words."""
    words = [pl.col("vertex_id").str.slice(8 * word, 8).str.to_integer(base=16) for word in range(4)]
    return words[0] ^ words[1] ^ words[2] ^ words[3]


def _place(hash_code: pl.Expr, count: pl.Expr) -> pl.Expr:
    """Where a hash set of as many elements as `count` holds an element."""
    bits = pl.max_horizontal(pl.lit(SMALLEST_TABLE), (count / LOAD_FACTOR).log(2).ceil().cast(pl.Int64))
    mask = pl.lit(2, pl.Int64).pow(bits).cast(pl.Int64) - 1
    word = hash_code.cast(pl.Int64)
    return (word ^ (word // (1 << 16))) & mask
