"""Managed memory weights whose sum overflows Flink's int."""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from plans.job_graph.joins.set_managed_memory_fractions import fraction_rounded_down, wrapped
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
from plans.joins.frames import join_groups, join_local, rename
from plans.joins.refusals import refusals
from plans.refusals import ILLEGAL_ARGUMENT
from plans.tables.column_types import TOPOLOGY
from plans.vocabulary import Layer, ManagedMemoryUseCase


def refuse_memory_fractions(operators: DataFrame, job_vertices: DataFrame, precedence: int) -> DataFrame:
    """The reasons (see refusals) of weights whose sum overflows: the first operator that Flink meets.

    In: operators (see assign_operators_to_vertices), job_vertices (with slot_sharing_group). Flink walks
    hash sets of vertex ids and of nodes; ids that share a place in the table are taken in their order.

    Source: StreamingJobGraphGenerator.setManagedMemoryFractionForSlotSharingGroup,
    StreamConfig.setManagedMemoryFractionOperatorOfUseCase.
    """
    vertices = job_vertices.select(TOPOLOGY, "vertex", "slot_sharing_group", "vertex_id")
    weight = F.col("managed_memory")[ManagedMemoryUseCase.OPERATOR.value]
    weighing = operators.select(TOPOLOGY, "vertex", "node", weight.alias("weight")).filter("weight > 0")
    of_vertices = rename(vertices, in_vertex="vertex", slot_sharing_group="slot_sharing_group")
    sums = (
        join_local(weighing, of_vertices, {"vertex": "in_vertex"})
        .groupBy(TOPOLOGY, "slot_sharing_group")
        .agg(F.sum("weight").alias("sum"))
        .filter(F.col("sum") > MAX_INT)
    )
    group = rename(sums, group="slot_sharing_group", sum="sum")
    at_most = job_vertices.select(TOPOLOGY, "slot_sharing_group").distinct()
    in_groups = join_groups(vertices, group, {"slot_sharing_group": "group"}, at_most=at_most).select(
        "*", _place(_id_hash(), Window.partitionBy(TOPOLOGY, "slot_sharing_group")).alias("vertex_place")
    )
    placed = join_local(
        operators.select(TOPOLOGY, F.col("vertex").alias("of_vertex"), "node", weight.alias("weight")),
        in_groups,
        {"of_vertex": "vertex"},
    ).select("*", _place(F.col("node"), Window.partitionBy(TOPOLOGY, "of_vertex")).alias("node_place"))
    total = wrapped(F.col("sum"))
    fraction = fraction_rounded_down(F.col("weight"), F.when(total != 0, total))
    wrong = placed.select("*", fraction.alias("fraction")).filter(
        (F.col("weight") > 0) & (F.col("fraction").isNull() | ~F.col("fraction").between(0, 1))
    )
    by_zero = F.col("fraction").isNull()
    divided = F.when(F.col("weight") <= MAX_LONG_WEIGHT, LONG_BY_ZERO).otherwise(BIG_INTEGER_BY_ZERO)
    places = ("slot_sharing_group", "vertex_place", "of_vertex", "node_place", "node")
    return refusals(
        wrong,
        Layer.JOB_GRAPH,
        [F.lit(precedence), *map(F.col, places)],
        F.when(by_zero, F.lit(ARITHMETIC)).otherwise(F.lit(ILLEGAL_ARGUMENT)),
        F.when(by_zero, divided).otherwise(F.concat(F.lit(NOT_A_FRACTION), F.col("fraction").cast("string"))),
        F.concat(F.lit("node "), "node"),
    )


def _id_hash() -> Column:
    """AbstractID.hashCode: the exclusive or of its four words."""
    words = [F.conv(F.substring("vertex_id", 8 * word + 1, 8), 16, 10).cast("bigint") for word in range(4)]
    first, *others = words
    for word in others:
        first = first.bitwiseXOR(word)
    return first


def _place(hash_code: Column, of_set: WindowSpec) -> Column:
    """Where a hash set of as many elements as `of_set` has rows holds an element."""
    count = F.count(F.lit(1)).over(of_set)
    bits = F.greatest(F.lit(SMALLEST_TABLE), F.ceil(F.log2(count / LOAD_FACTOR)))
    mask = F.pow(F.lit(2), bits).cast("bigint") - 1
    word = hash_code.cast("bigint").bitwiseAND(F.lit(0xFFFF_FFFF))
    return word.bitwiseXOR(F.shiftright(word, 16)).bitwiseAND(mask)
