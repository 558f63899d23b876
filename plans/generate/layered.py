"""Shape `layered`: sources, layers of maps and joins over the layer before, sinks."""

from math import isqrt

import polars as pl

from plans.generate.draws import Draw, below, draws, pick
from plans.generate.fleet import (
    ID,
    INDEX,
    Fleet,
    default_parallelism,
    literal,
    numbered_uid,
    operators_of_units,
)
from plans.generate.spec import Spec
from plans.vocabulary import Kind, Partitioner

PARTITION_BLOCK = 4
"""One of this many consecutive operators reads through a partition."""

SHARE_OF_JOINS = 0.12

_PARTITIONERS = (str(Partitioner.HASH), str(Partitioner.REBALANCE), str(Partitioner.RESCALE))


def layered(spec: Spec) -> Fleet:
    """`width` sources, layers of `width` operators, `width` sinks.

    `width` (default: about the square root of `operators`): operators of a layer. There are as many whole
    layers as fit `operators`, at least one besides sources and sinks. The operator in column c reads column c
    of the layer before; a join (12 of 100 operators) also the next column. One in 4 operators reads its
    first input through a hash, rebalance or rescale partition; all other edges are forward.
    """
    width = spec.width or isqrt(spec.operators)
    layers = max(1, spec.operators // width - 2)
    operators = width * (layers + 2)
    draw = draws(spec.seed)

    def rows(units: pl.DataFrame) -> pl.DataFrame:
        nodes = _nodes(units.select(operators_of_units(operators)), draw, width, layers)
        return nodes.with_columns(**_columns(draw, spec, width, layers))

    return Fleet("layered", spec, spec.topologies * operators, 2, rows, default_parallelism(spec))


def _nodes(operators: pl.DataFrame, draw: Draw, width: int, layers: int) -> pl.DataFrame:
    """One row for each transformation: ID, the `node` of its operator, `operator`, `join` and input ids."""
    operator, inner = pl.col("operator"), width * layers
    blocks = inner // PARTITION_BLOCK
    column = operator % width
    beside = operator - width - column + (column + 1) % width
    is_inner = (operator >= width) & (operator < width + inner)

    def partition_position(block: pl.Expr) -> pl.Expr:
        """Which operator of a block is the one that reads through a partition."""
        return below(draw("block", pl.col(INDEX), block), PARTITION_BLOCK)

    def node_id(number: pl.Expr) -> pl.Expr:
        """The id of the operator with this number: one for itself and every operator and partition before."""
        position = number - width
        block = position // PARTITION_BLOCK
        is_partitioned = position % PARTITION_BLOCK >= partition_position(block)
        in_block = (
            pl.when((block < blocks) & is_partitioned)
            .then(block + 1)
            .otherwise(block.clip(upper_bound=blocks))
        )
        partitions = (
            pl.when(number < width).then(0).when(number >= width + inner).then(blocks).otherwise(in_block)
        )
        return number + partitions + 1

    block = (operator - width) // PARTITION_BLOCK
    partitioned = (
        is_inner & (block < blocks) & ((operator - width) % PARTITION_BLOCK == partition_position(block))
    )
    join = is_inner & pl.lit(width > 1) & (draw("join", pl.col(INDEX), operator) < SHARE_OF_JOINS)
    located = operators.select(
        INDEX,
        "operator",
        join.alias("join"),
        partitioned.alias("partitioned"),
        node_id(operator).alias("node"),
        node_id(operator - width).alias("straight"),
        node_id(beside).alias("beside"),
    )
    first = pl.col("node") - pl.col("partitioned").cast(pl.Int64)
    return located.with_columns(pl.int_ranges(first, pl.col("node") + 1).alias(ID)).explode(ID)


def _columns(draw: Draw, spec: Spec, width: int, layers: int) -> dict[str, pl.Expr]:
    node, operator = pl.col(ID), pl.col("operator")
    partition = node < pl.col("node")
    source, sink = operator < width, operator >= width * (layers + 1)
    join = pl.col("join")
    first_input = pl.when(pl.col("partitioned") & ~partition).then(node - 1).otherwise(pl.col("straight"))
    column = operator % width
    place = pl.concat_str(operator // width - 1, literal("-"), column)
    count = pl.when(source).then(0).when(join & ~partition).then(2).otherwise(1)
    return {
        "kind": pl.when(partition)
        .then(literal(Kind.PARTITION))
        .when(source)
        .then(literal(Kind.SOURCE))
        .when(sink)
        .then(literal(Kind.SINK))
        .when(join)
        .then(literal(Kind.TWO_INPUT))
        .otherwise(literal(Kind.ONE_INPUT)),
        "name": pl.when(partition)
        .then(literal(""))
        .when(source)
        .then(pl.concat_str(literal("Source-"), column))
        .when(sink)
        .then(pl.concat_str(literal("Sink-"), column))
        .when(join)
        .then(pl.concat_str(literal("Join-"), place))
        .otherwise(pl.concat_str(literal("Map-"), place)),
        "inputs": pl.concat_list(first_input, "beside").list.head(count),
        "partitioner": pl.when(partition).then(pick(draw("partitioner", pl.col(INDEX), node), _PARTITIONERS)),
        "uid": pl.when(~partition).then(numbered_uid(draw, spec)),
    }
