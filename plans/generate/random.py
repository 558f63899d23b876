"""Shape `random`, fleets of topologies with every kind and option of Flink's DataStream API.

The shares match the golden data's random topologies: about 19 transformations with 12 operators each, of all
sizes. With refusals, Flink refuses a few topologies in a hundred (a forward partition between unequal
parallelisms, a uid used twice, a co-location group over two slot sharing groups); the causes get rarer as
topologies get larger, so that large ones are planned, too. Without refusals, no topology has a forward
partition, a shared uid or a co-location group.
"""

import polars as pl

from penstock.plans.generate.fleet import (
    ID,
    INDEX,
    Draw,
    Fleet,
    Spec,
    below,
    draw_options,
    draws,
    literal,
    operator_options,
    pick,
    pick_weighted,
)
from penstock.plans.vocabulary import Kind, Partitioner, StreamExchangeMode

CHUNK = 10_000
"""Transformations per unit, so that one large topology is created in many parts."""

TRANSFORMATIONS_PER_OPERATOR = 1.6
SIZES = (0.25, 1.75)
"""Smallest and largest topology of a fleet, relative to its mean size."""

PARALLELISMS = (1, 2, 3, 4, 8)
JOB_MAX_PARALLELISMS = (64, 128, 512)
NAMES = ("Map", "FlatMap", "Filter", "Process", "Window(5s)", "Parse, split", "Enrich", "聚合")

KINDS: tuple[tuple[Kind, float], ...] = (
    (Kind.SINK, 0.111),
    (Kind.MULTI_INPUT, 0.025),
    (Kind.ASYNC, 0.018),
    (Kind.ONE_INPUT, 0.350),
    (Kind.TWO_INPUT, 0.075),
    (Kind.SIDE_OUTPUT, 0.043),
    (Kind.UNION, 0.044),
    (Kind.PARTITION, 0.334),
)
"""The kinds after the sources, with shares that sum to 1; virtual kinds last, sinks first (see `_inputs`)."""

PARTITIONERS: tuple[tuple[str, float], ...] = (
    (Partitioner.HASH, 524),
    (Partitioner.REBALANCE, 482),
    (Partitioner.CUSTOM, 273),
    (Partitioner.RESCALE, 244),
    (Partitioner.GLOBAL, 235),
    (Partitioner.BROADCAST, 234),
    (Partitioner.SHUFFLE, 219),
)
SHARE_OF_FORWARD = 0.038
MAX_INPUTS = 4

CHAIN_DIFFERENT_MAX_PARALLELISM = "pipeline.operator-chaining.chain-operators-with-different-max-parallelism"

_SINKS_BELOW = KINDS[0][1]
_SIDE_OUTPUTS_FROM = KINDS[0][1] + KINDS[1][1]
_VIRTUAL_FROM = sum(share for _, share in KINDS[:5])


def random(spec: Spec) -> Fleet:
    """A random fleet.

    `operators` is the mean of a fleet, whose topologies have a quarter to seven quarters of it; a fleet of
    one has about that size. `parallelism` None: every topology draws its own. `share_of_uids` None: 0.165.
    `width` is not used. A transformation reads its predecessor if that is virtual, else any earlier one that
    is not a sink. `with_refusals`: a few topologies in a hundred are refused.
    """
    draw = draws(spec.seed)
    most = int(_mean(spec) * _sizes(spec)[1])
    chunks = most // CHUNK + 1

    def rows(units: pl.DataFrame) -> pl.DataFrame:
        transformations = draw_options(_inputs(_kinds(_rows(units, spec, draw, chunks), draw), draw), spec)
        return transformations.with_columns(
            name=_name(draw), **operator_options(spec), **_virtual_options(draw, spec)
        )

    units = spec.topologies * chunks
    settings = _job_settings(draw, spec)
    return Fleet("random", spec, units, min(CHUNK, most), rows, settings, CHAIN_DIFFERENT_MAX_PARALLELISM)


def _job_settings(draw: Draw, spec: Spec) -> dict[str, pl.Expr]:
    index = pl.col(INDEX)
    allowed = [m for m in JOB_MAX_PARALLELISMS if m >= (spec.parallelism or 1)]
    drawn = pick(draw("job parallelism", index), PARALLELISMS)
    chains_different = pick(draw("config value", index), ("true", "false"))
    settings = {
        "parallelism": pl.lit(spec.parallelism) if spec.parallelism else drawn,
        "chaining": draw("job chaining", index) >= 0.05,
        "config": pl.when(draw("config", index) < 0.1275).then(chains_different),
    }
    if allowed:
        value = pick(draw("job max parallelism value", index), allowed)
        settings["max_parallelism"] = pl.when(draw("job max parallelism", index) < 0.1).then(value)
    return settings


def _mean(spec: Spec) -> float:
    return spec.operators * TRANSFORMATIONS_PER_OPERATOR


def _sizes(spec: Spec) -> tuple[float, float]:
    return SIZES if spec.topologies > 1 else (1.0, 1.0)


def _rows(units: pl.DataFrame, spec: Spec, draw: Draw, chunks: int) -> pl.DataFrame:
    """Return INDEX, ID, the topology's size, its number of sources and `rarity`, one row per transformation.

    `rarity` is the factor for the shares of options that may make Flink refuse a topology.
    """
    mean, (low, high) = _mean(spec), _sizes(spec)
    drawn_size = (mean * (low + (high - low) * draw("size", pl.col(INDEX)))).floor().cast(pl.Int32)
    start = pl.col("chunk") * CHUNK
    most_sources = (pl.col("size") * 0.13).clip(lower_bound=1.0)
    return (
        units.select((pl.col("unit") // chunks).alias(INDEX), (pl.col("unit") % chunks).alias("chunk"))
        .with_columns(drawn_size.clip(lower_bound=3).alias("size"))
        .filter(start < pl.col("size"))
        .select(
            INDEX,
            "size",
            ((draw("sources", pl.col(INDEX)) * most_sources).floor() + 1).cast(pl.Int32).alias("sources"),
            (20 / pl.col("size")).clip(upper_bound=1.0).alias("rarity"),
            pl.int_ranges(start + 1, pl.min_horizontal(pl.col("size"), start + CHUNK) + 1).alias(ID),
        )
        .explode(ID)
    )


def _kinds(rows: pl.DataFrame, draw: Draw) -> pl.DataFrame:
    """Add `kind`, its input `count`, and `after_virtual`: whether the previous transformation is virtual."""
    index, node, sources = pl.col(INDEX), pl.col(ID), pl.col("sources")
    source = (
        pl.when(draw("source", index, node) < 0.5)
        .then(literal(Kind.SOURCE))
        .otherwise(literal(Kind.LEGACY_SOURCE))
    )
    drawn = rows.with_columns(
        draw("kind", index, node).alias("drawn"),
        ((node - 1 > sources) & (draw("kind", index, node - 1) >= _VIRTUAL_FROM)).alias("after_virtual"),
    )
    kind = (
        pl.when(node <= sources)
        .then(source)
        .when(node == pl.col("size"))
        .then(literal(Kind.SINK))
        .otherwise(pick_weighted(pl.col("drawn"), KINDS))
    )
    no_side_output_of_virtual = (
        pl.when(pl.col("after_virtual") & _is(Kind.SIDE_OUTPUT))
        .then(literal(Kind.PARTITION))
        .otherwise(pl.col("kind"))
    )
    count = (
        pl.when(node <= sources)
        .then(0)
        .when(_is(Kind.TWO_INPUT))
        .then(2)
        .when(_is(Kind.UNION))
        .then(below(draw("union inputs", index, node), 2) + 2)
        .when(_is(Kind.MULTI_INPUT))
        .then(below(draw("multiple inputs", index, node), 3) + 2)
        .otherwise(1)
    )
    return (
        drawn.with_columns(kind.alias("kind"))
        .with_columns(no_side_output_of_virtual.alias("kind"), count.alias("count"))
        .drop("drawn")
    )


def _inputs(rows: pl.DataFrame, draw: Draw) -> pl.DataFrame:
    """Add `inputs`, ids of earlier transformations, as many as the kind takes.

    Whether an earlier transformation can be read follows from its own draw of a kind, so no row depends on
    another: sinks are the lowest draws, virtual kinds the highest, and operators that may have side outputs
    lie between them. Two earlier ones are tried; if neither can be read, a source is.
    """
    index, node, sources = pl.col(INDEX), pl.col(ID), pl.col("sources")
    positions = range(MAX_INPUTS)
    names = {p: (f"near_{p}", f"far_{p}") for p in positions}

    def wanted(position: int) -> pl.Expr:
        count = pl.col("count")
        return ~pl.col("after_virtual") & (count > 0) if position == 0 else count > position

    candidates = rows.with_columns(
        pl.when(_is(Kind.SIDE_OUTPUT))
        .then(_SIDE_OUTPUTS_FROM)
        .otherwise(_SINKS_BELOW)
        .alias("readable_from"),
        pl.when(_is(Kind.SIDE_OUTPUT)).then(_VIRTUAL_FROM).otherwise(1.0).alias("readable_below"),
        *(
            pl.when(wanted(p)).then(below(draw(f"input {p} {name}", index, node), node - 1) + 1).alias(name)
            for p in positions
            for name in names[p]
        ),
    )
    drawn = candidates.with_columns(
        pl.when(pl.col(name).is_not_null()).then(draw("kind", index, pl.col(name))).alias(f"drawn_{name}")
        for p in positions
        for name in names[p]
    )

    def readable(name: str) -> pl.Expr:
        any_source = (pl.col(name) <= sources) & (pl.col("readable_below") == 1.0)
        kind_draw = pl.col(f"drawn_{name}")
        in_range = (kind_draw >= pl.col("readable_from")) & (kind_draw < pl.col("readable_below"))
        return any_source | (in_range & (pl.col(name) > sources))

    def input_at(position: int) -> pl.Expr:
        near, far = names[position]
        a_source = below(draw(f"source input {position}", index, node), sources) + 1
        earlier = (
            pl.when(readable(near))
            .then(pl.col(near))
            .when(readable(far))
            .then(pl.col(far))
            .otherwise(a_source)
        )
        return pl.when("after_virtual").then(node - 1).otherwise(earlier) if position == 0 else earlier

    several = pl.concat_list(*(input_at(p).cast(pl.Int32) for p in positions))
    return drawn.with_columns(several.list.head("count").alias("inputs")).select(*rows.columns, "inputs")


def _name(draw: Draw) -> pl.Expr:
    node = pl.col(ID)
    return (
        pl.when(_is(Kind.SOURCE, Kind.LEGACY_SOURCE))
        .then(pl.concat_str(literal("Source: s"), node))
        .when(_is(Kind.SINK))
        .then(pl.concat_str(literal("Sink: k"), node))
        .when(_is(Kind.TWO_INPUT))
        .then(literal("Join"))
        .when(_is(Kind.MULTI_INPUT))
        .then(literal("Multi"))
        .when(_is(Kind.ONE_INPUT, Kind.ASYNC))
        .then(pick(draw("name", pl.col(INDEX), node), NAMES))
        .otherwise(literal(""))
    )


def _is(*kinds: Kind) -> pl.Expr:
    return pl.col("kind").is_in([str(kind) for kind in kinds])


def _virtual_options(draw: Draw, spec: Spec) -> dict[str, pl.Expr]:
    index, node = pl.col(INDEX), pl.col(ID)
    modes = (StreamExchangeMode.UNDEFINED, StreamExchangeMode.PIPELINED, StreamExchangeMode.BATCH)
    mode = pick(draw("exchange mode value", index, node), [str(m) for m in modes])
    partition = _is(Kind.PARTITION)
    partitioner = pick_weighted(draw("partitioner", index, node), PARTITIONERS)
    if spec.with_refusals:
        forward = draw("forward", index, node) < SHARE_OF_FORWARD * pl.col("rarity")
        partitioner = pl.when(forward).then(literal(Partitioner.FORWARD)).otherwise(partitioner)
    has_mode = partition & (draw("exchange mode", index, node) < 0.081)
    return {
        "partitioner": pl.when(partition).then(partitioner),
        "exchange_mode": pl.when(has_mode).then(mode),
        "tag": pl.when(_is(Kind.SIDE_OUTPUT)).then(pick(draw("tag", index, node), ("errors", "late"))),
    }
