"""Shape `layered`: sources, layers of maps and joins over the layer before, sinks."""

from math import isqrt

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from plans.generate.draws import Draw, below, draws, pick
from plans.generate.rows import numbered_uid, operator_rows, topologies, transformations
from plans.generate.spec import Spec
from plans.vocabulary import Kind, Partitioner

PARTITION_BLOCK = 4
"""One of so many consecutive operators stands behind a partition."""

SHARE_OF_JOINS = 0.12

_PARTITIONERS = (str(Partitioner.HASH), str(Partitioner.REBALANCE), str(Partitioner.RESCALE))


def layered(spark: SparkSession, spec: Spec) -> tuple[DataFrame, DataFrame]:
    """(TOPOLOGIES, TRANSFORMATIONS): `width` sources, layers of `width` operators, `width` sinks.

    `width` (default: about the square root of `operators`): operators a layer. There are as many whole
    layers as fit `operators`, at least one beside sources and sinks. The operator in column c reads column c
    of the layer before; a join (12 of 100 operators) also the next column. One in 4 operators reads its
    first input through a hash, rebalance or rescale partition; all other edges are forward.
    """
    width = spec.width or isqrt(spec.operators)
    layers = max(1, spec.operators // width - 2)
    parallelism = F.lit(spec.parallelism or 4)
    draw = draws(spec.seed)
    nodes = _nodes(operator_rows(spark, spec, width * (layers + 2)), draw, width, layers)
    return (
        topologies(spark, "layered", spec, {"parallelism": parallelism}),
        transformations(nodes, "layered", spec, _columns(draw, spec, width, layers)),
    )


def _nodes(operators: DataFrame, draw: Draw, width: int, layers: int) -> DataFrame:
    """One row a transformation: `id`, the id `node` of its operator, `operator`, `join` and input ids."""
    operator, inner = F.col("operator"), width * layers
    blocks = inner // PARTITION_BLOCK
    column = operator % width
    beside = operator - width - column + (column + 1) % width
    is_inner = (operator >= width) & (operator < width + inner)

    def partition_position(block: Column) -> Column:
        """Which operator of a block is the one behind a partition."""
        return below(draw("block", F.col("index"), block), F.lit(PARTITION_BLOCK))

    def node_id(number: Column) -> Column:
        """The id of the operator with this number: one for itself and every operator and partition before."""
        position = number - width
        block = F.floor(position / PARTITION_BLOCK)
        in_block = F.when(
            (block < blocks) & (position % PARTITION_BLOCK >= partition_position(block)), block + 1
        ).otherwise(F.least(block, F.lit(blocks)))
        partitions = F.when(number < width, 0).when(number >= width + inner, blocks).otherwise(in_block)
        return (number + partitions + 1).cast("int")

    block = F.floor((operator - width) / PARTITION_BLOCK)
    partitioned = (
        is_inner & (block < blocks) & ((operator - width) % PARTITION_BLOCK == partition_position(block))
    )
    join = is_inner & F.lit(width > 1) & (draw("join", F.col("index"), operator) < SHARE_OF_JOINS)
    located = operators.select(
        "index",
        "operator",
        join.alias("join"),
        partitioned.alias("partitioned"),
        node_id(operator).alias("node"),
        node_id(operator - width).alias("straight"),
        node_id(beside).alias("beside"),
    )
    first = F.col("node") - F.col("partitioned").cast("int")
    return located.select("*", F.explode(F.sequence(first, F.col("node"))).alias("id"))


def _columns(draw: Draw, spec: Spec, width: int, layers: int) -> dict[str, Column]:
    node, operator = F.col("id"), F.col("operator")
    partition = node < F.col("node")
    source, sink = operator < width, operator >= width * (layers + 1)
    first_input = F.when(F.col("partitioned") & ~partition, node - 1).otherwise(F.col("straight"))
    place = F.expr(f"concat(operator div {width} - 1, '-', operator % {width})")
    column = (operator % width).cast("string")
    return {
        "id": node,
        "kind": F.when(partition, str(Kind.PARTITION))
        .when(source, str(Kind.SOURCE))
        .when(sink, str(Kind.SINK))
        .when(F.col("join"), str(Kind.TWO_INPUT))
        .otherwise(str(Kind.ONE_INPUT)),
        "name": F.when(partition, "")
        .when(source, F.concat(F.lit("Source-"), column))
        .when(sink, F.concat(F.lit("Sink-"), column))
        .when(F.col("join"), F.concat(F.lit("Join-"), place))
        .otherwise(F.concat(F.lit("Map-"), place)),
        "inputs": F.when(source, F.array().cast("array<int>"))
        .when(F.col("join") & ~partition, F.array(first_input, F.col("beside")))
        .otherwise(F.array(first_input)),
        "partitioner": F.when(partition, pick(draw("partitioner", F.col("index"), node), _PARTITIONERS)),
        "uid": F.when(~partition, numbered_uid(draw, spec)),
    }
