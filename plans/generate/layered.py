"""Topologies of simple shapes, and layered ones."""

from collections.abc import Callable
from difflib import get_close_matches
from math import isqrt
from typing import NamedTuple

import polars as pl

from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.draw_by_trace import DEFAULT_MOST_PARALLELISM, TRACES
from penstock.plans.generate.fleet import (
    DEFAULT_PARALLELISM,
    DEFAULT_SHARE_OF_UIDS,
    ID,
    INDEX,
    Draw,
    Fleet,
    Spec,
    below,
    default_parallelism,
    draws,
    literal,
    numbered_uid,
    operators_of_units,
    pick,
)
from penstock.plans.generate.giant import DEFAULT_WIDTH, giant
from penstock.plans.generate.random import random
from penstock.plans.vocabulary import Kind, Partitioner

PARTITION_BLOCK = 4
"""One in this many consecutive operators reads through a partition."""

SHARE_OF_JOINS = 0.12

_PARTITIONERS = (str(Partitioner.HASH), str(Partitioner.REBALANCE), str(Partitioner.RESCALE))


def layered(spec: Spec) -> Fleet:
    """`width` sources, layers of `width` operators, `width` sinks.

    `width` (default: about the square root of `operators`): operators per layer. There are as many whole
    layers as fit `operators`, at least one besides sources and sinks. The operator in column c reads column c
    of the previous layer; a join (12 in 100 operators) also the next column. One in 4 operators reads its
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
    """Return ID, the `node` of its operator, `operator`, `join` and input ids, one row per transformation."""
    operator, inner = pl.col("operator"), width * layers
    blocks = inner // PARTITION_BLOCK
    column = operator % width
    beside = operator - width - column + (column + 1) % width
    is_inner = (operator >= width) & (operator < width + inner)

    def partition_position(block: pl.Expr) -> pl.Expr:
        """Return the operator of each block that reads through a partition."""
        return below(draw("block", pl.col(INDEX), block), PARTITION_BLOCK)

    def node_id(number: pl.Expr) -> pl.Expr:
        """Return an operator's id, which counts it and every operator and partition before it."""
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


def chain(spec: Spec) -> Fleet:
    """In every topology, operator k reads k - 1. `width` is not used."""
    node = pl.col(ID)
    first, last = node == 1, node == spec.operators
    columns = {
        "kind": pl.when(first)
        .then(literal(Kind.SOURCE))
        .when(last)
        .then(literal(Kind.SINK))
        .otherwise(literal(Kind.ONE_INPUT)),
        "name": pl.when(first)
        .then(literal("Source"))
        .when(last)
        .then(literal("Sink"))
        .otherwise(pl.concat_str(literal("Map-"), node)),
        "inputs": pl.concat_list(node - 1).list.head(pl.when(first).then(0).otherwise(1)),
        "uid": numbered_uid(draws(spec.seed), spec),
    }

    def rows(units: pl.DataFrame) -> pl.DataFrame:
        operators = units.select(operators_of_units(spec.operators))
        return operators.with_columns((pl.col("operator") + 1).alias(ID)).with_columns(**columns)

    return Fleet("chain", spec, spec.topologies * spec.operators, 1, rows, default_parallelism(spec))


_DIAMOND_WIDTH = 2


def diamond(spec: Spec) -> Fleet:
    """Source, stages of `width` branches and their join, sink.

    `width` (default 2): branches per stage, 2 or more. Two branches meet in a two-input operator, more in a
    multiple-input one. The next stage fans out from the join of a stage. A topology has as many whole stages
    as fit `operators`, at least one. Raises ConfigurationError for a width below 2.
    """
    width = spec.width or _DIAMOND_WIDTH
    if width < 2:
        raise ConfigurationError(f"width must be 2 or more branches for the shape diamond, got {width}")
    stage_size = width + 1
    stages = max(1, (spec.operators - 2) // stage_size)
    sink_id = 2 + stages * stage_size
    node = pl.col(ID)
    first, last = node == 1, node == sink_id
    stage, position = (node - 2) // stage_size, (node - 2) % stage_size
    join = position == width
    fan_out = stage * stage_size + 1
    columns = {
        "kind": pl.when(first)
        .then(literal(Kind.SOURCE))
        .when(last)
        .then(literal(Kind.SINK))
        .when(join)
        .then(literal(Kind.TWO_INPUT if width == 2 else Kind.MULTI_INPUT))
        .otherwise(literal(Kind.ONE_INPUT)),
        "name": pl.when(first)
        .then(literal("Source"))
        .when(last)
        .then(literal("Sink"))
        .when(join)
        .then(pl.concat_str(literal("Join-"), stage))
        .otherwise(pl.concat_str(literal("Branch-"), stage, literal("-"), position)),
        "inputs": _inputs(first, last, join, fan_out, width),
        "uid": numbered_uid(draws(spec.seed), spec),
    }

    def rows(units: pl.DataFrame) -> pl.DataFrame:
        operators = units.select(operators_of_units(sink_id))
        return operators.with_columns((pl.col("operator") + 1).alias(ID)).with_columns(**columns)

    return Fleet("diamond", spec, spec.topologies * sink_id, 1, rows, default_parallelism(spec))


def _inputs(first: pl.Expr, last: pl.Expr, join: pl.Expr, fan_out: pl.Expr, width: int) -> pl.Expr:
    start = pl.when(first | last).then(pl.col(ID) - 1).when(join).then(fan_out + 1).otherwise(fan_out)
    count = pl.when(first).then(0).when(join & ~last).then(width).otherwise(1)
    return pl.int_ranges(start, start + count)


_WIDE_WIDTH = 8


def wide(spec: Spec) -> Fleet:
    """Groups of `width` branches; each group's union goes into a sink.

    `width` (default 8): branches per group. There are as many groups as fit `operators` (a source, the
    branches and a sink each), at least one, and one source per group; branch b of group g reads the source (g
    + b) modulo the number of groups, so that sources and groups are thoroughly linked.
    """
    width = spec.width or _WIDE_WIDTH
    groups = max(1, spec.operators // (width + 2))
    group_size = width + 2
    size = groups + groups * group_size
    node = pl.col(ID)
    source = node <= groups
    after_sources = node - groups - 1
    group, position = after_sources // group_size, after_sources % group_size
    union, sink = ~source & (position == width), ~source & (position == width + 1)
    first_input = (
        pl.when(union).then(node - width).when(sink).then(node - 1).otherwise((group + position) % groups + 1)
    )
    count = pl.when(source).then(0).when(union).then(width).otherwise(1)
    columns = {
        "kind": pl.when(source)
        .then(literal(Kind.SOURCE))
        .when(union)
        .then(literal(Kind.UNION))
        .when(sink)
        .then(literal(Kind.SINK))
        .otherwise(literal(Kind.ONE_INPUT)),
        "name": pl.when(source)
        .then(pl.concat_str(literal("Source-"), node - 1))
        .when(union)
        .then(literal(""))
        .when(sink)
        .then(pl.concat_str(literal("Sink-"), group))
        .otherwise(pl.concat_str(literal("Branch-"), group, literal("-"), position)),
        "inputs": pl.int_ranges(first_input, first_input + count),
        "uid": pl.when(~union).then(numbered_uid(draws(spec.seed), spec)),
    }

    def rows(units: pl.DataFrame) -> pl.DataFrame:
        operators = units.select(operators_of_units(size))
        return operators.with_columns((pl.col("operator") + 1).alias(ID)).with_columns(**columns)

    return Fleet("wide", spec, spec.topologies * size, 1, rows, default_parallelism(spec))


# The shapes of synthetic topologies: their description and parameters.


class Shape(NamedTuple):
    """A named generator that derives the description of its fleet from a Spec."""

    name: str
    fleet: Callable[[Spec], Fleet]
    default_operators: int
    width: str  #: the meaning of the Spec's width for this shape; empty: no width
    about: str
    picture: str
    defaults: str


_PARALLELISM = f"parallelism {DEFAULT_PARALLELISM}, share of uids 0"

SHAPES: tuple[Shape, ...] = (
    Shape(
        "random",
        random,
        12,
        "",
        "Topologies of all sizes around the mean, with every kind and option of Flink's DataStream API.",
        """
  S ──o──┬──o──P──J──K
  S ──P──┘──o──U──┘
  S ──o──────K
""",
        f"parallelism drawn by each topology, share of uids {DEFAULT_SHARE_OF_UIDS}",
    ),
    Shape(
        "layered",
        layered,
        400,
        "operators in a layer",
        "Layers of equal width between sources and sinks; 12 of 100 operators join two columns, a quarter "
        "reads through a hash, rebalance or rescale partition.",
        """
  S──o──o───P─o──K
  S──o──J───o────K
  S──o─/o───J────K
  S──P─o───/o────K
""",
        f"width √operators, {_PARALLELISM}",
    ),
    Shape(
        "chain",
        chain,
        60,
        "",
        "Each operator reads the previous one: a topology is one job vertex.",
        """
  S──o──o──o──o──o──K
""",
        _PARALLELISM,
    ),
    Shape(
        "diamond",
        diamond,
        62,
        "branches of a stage",
        "Stages in sequence, each a fan-out into branches and their join.",
        """
     ┌─o─┐  ┌─o─┐
  S──┤   J──┤   J──K
     └─o─┘  └─o─┘
""",
        f"width {_DIAMOND_WIDTH}, {_PARALLELISM}",
    ),
    Shape(
        "wide",
        wide,
        100,
        "branches of a group",
        "Groups of branches whose union goes into a sink; branches of a group read different sources.",
        """
  S──┬─o─┐
     ├─o─U──K
  S──┴─o─┘
""",
        f"width {_WIDE_WIDTH}, {_PARALLELISM}",
    ),
    Shape(
        "giant",
        giant,
        10_000,
        "cells that a union reads",
        "One chain of a tenth of the operators, cells with every kind in Flink, and unions over cells: "
        "everything that makes large topologies hard to plan.",
        """
  S──o──o──o──o──o──o──K
  [cell]──┐
  [cell]──U──P──o──K
  [cell]──┘
""",
        f"width {DEFAULT_WIDTH:,}, {_PARALLELISM}; BATCH if seed + number is even",
    ),
)
LEGEND = "S source, o operator, J join, U union, P partition, K sink"

WORKLOADS = "workloads"
"""The name of a further generator: published benchmarks with costs."""


class DrawnShape(NamedTuple):
    """The name, description and options of a generator besides the shapes."""

    name: str
    about: str
    parameters: str


OTHERS: tuple[DrawnShape, ...] = (
    DrawnShape(
        WORKLOADS,
        "Published benchmarks with costs of their operators: Nexmark, ShuffleBench, RIoTBench and others.",
        f"parallelism {DEFAULT_PARALLELISM}",
    ),
    *(
        DrawnShape(
            trace,
            "Jobs of the sizes and shapes of a published trace (docs/drawn-fleets.md).",
            f"topologies, seed, parallelism (the most) {DEFAULT_MOST_PARALLELISM}",
        )
        for trace in TRACES
    ),
    DrawnShape("FILE.yaml", "Topologies drawn by a spec file (docs/drawn-fleets.md).", "topologies, seed"),
    DrawnShape(
        "--like SOURCE", "Topologies drawn after those of a store or file (docs/drawn-fleets.md).",
        "topologies, seed",
    ),
)  # fmt: skip


def find_shape(name: str, argument: str = "SHAPE") -> Shape:
    """Return the shape called `name`. Raises ConfigurationError, which lists everything that can be
    generated.
    """
    shape = next((shape for shape in SHAPES if shape.name == name), None)
    if shape is None:
        allowed = [*(shape.name for shape in SHAPES), WORKLOADS, *TRACES]
        close = get_close_matches(name, allowed, n=1)
        hint = f"did you mean {close[0]}?" if close else "penstock generate --list shows them"
        raise ConfigurationError(f"{argument} must be {', '.join(allowed)}, got {name!r}", hint)
    return shape


def fleet_of_shape(
    name: str,
    topologies: int,
    operators: int | None,
    seed: int,
    parallelism: int | None,
    share_of_uids: float | None,
    width: int | None,
    with_refusals: bool,
    argument: str = "SHAPE",
) -> Fleet:
    """Return a fleet of a shape, with the shape's defaults for None. Raises ConfigurationError."""
    shape = find_shape(name, argument)
    if width is not None and not shape.width:
        widths = "; ".join(f"{shape.name}: {shape.width}" for shape in SHAPES if shape.width)
        raise ConfigurationError(f"the shape {shape.name} has no width", f"shapes with a width: {widths}")
    return shape.fleet(
        Spec(
            operators=shape.default_operators if operators is None else operators,
            topologies=topologies,
            seed=seed,
            parallelism=parallelism,
            share_of_uids=share_of_uids,
            width=width,
            with_refusals=with_refusals,
        )
    )
