"""Shape `random`: fleets of topologies with every kind and option that Flink's DataStream API has.

The shares are those of the golden data's random topologies: about 19 transformations with 12 operators each,
of all sizes, and a few topologies in a hundred that Flink refuses (a forward partition between unequal
parallelisms, a uid used twice, a co-location group over two slot sharing groups). What Flink refuses gets
rarer as topologies get larger, so that large ones are planned, too.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from plans.generate.draws import Draw, below, draws, pick, pick_weighted
from plans.generate.random_options import draw_options, operator_options
from plans.generate.rows import topologies, transformations
from plans.generate.spec import Spec
from plans.vocabulary import Kind, Partitioner, StreamExchangeMode

CHUNK = 10_000
"""Transformations that one row of the range unfolds to, so that one large topology is made by many tasks."""

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
"""What stands behind the sources, with shares that sum to 1; virtual kinds last, sinks first (see
`_inputs`)."""

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
_INDEX, _ID = "index", "id"


def random(spark: SparkSession, spec: Spec) -> tuple[DataFrame, DataFrame]:
    """(TOPOLOGIES, TRANSFORMATIONS) of a random fleet.

    `operators` is the mean of a fleet, whose topologies have a quarter to seven quarters of it; a fleet of
    one has about that size. `parallelism` None: every topology draws its own. `share_of_uids` None: 0.165.
    `width` is not used. A transformation reads its predecessor if that is virtual, else any earlier one that
    is no sink.
    """
    draw = draws(spec.seed)
    rows = draw_options(_inputs(_kinds(_rows(spark, spec, draw), draw), draw), spec)
    columns = {
        "id": F.col(_ID),
        "kind": F.col("kind"),
        "name": _name(draw),
        "inputs": F.col("inputs"),
        **operator_options(spec),
        **_virtual_options(draw),
    }
    return (
        topologies(spark, "random", spec, _job_settings(draw, spec)),
        transformations(rows, "random", spec, columns),
    )


def _job_settings(draw: Draw, spec: Spec) -> dict[str, Column]:
    index = F.col(_INDEX)
    allowed = [m for m in JOB_MAX_PARALLELISMS if m >= (spec.parallelism or 1)]
    chains_different = F.create_map(
        F.lit(CHAIN_DIFFERENT_MAX_PARALLELISM), pick(draw("config value", index), ("true", "false"))
    )
    settings = {
        "parallelism": F.lit(spec.parallelism or pick(draw("job parallelism", index), PARALLELISMS)),
        "chaining": draw("job chaining", index) >= 0.05,
        "config": F.when(draw("config", index) < 0.1275, chains_different).otherwise(
            F.create_map().cast("map<string,string>")
        ),
    }
    if allowed:
        value = pick(draw("job max parallelism value", index), allowed)
        settings["max_parallelism"] = F.when(draw("job max parallelism", index) < 0.1, value)
    return settings


def _rows(spark: SparkSession, spec: Spec, draw: Draw) -> DataFrame:
    """One row a transformation: index, id, the topology's size, its number of sources and `rarity`.

    `rarity` is what shares of options are multiplied with that may make Flink refuse a topology.
    """
    mean = spec.operators * TRANSFORMATIONS_PER_OPERATOR
    low, high = SIZES if spec.topologies > 1 else (1.0, 1.0)
    chunks = int(mean * high) // CHUNK + 1
    size = F.greatest(
        F.lit(3), F.floor(mean * (low + (high - low) * draw("size", F.col(_INDEX)))).cast("int")
    )
    chunked = (
        spark.range(spec.topologies * chunks)
        .select(
            F.expr(f"id div {chunks}").alias(_INDEX), F.expr(f"cast(id % {chunks} as int)").alias("chunk")
        )
        .select("*", size.alias("size"))
        .where(F.col("chunk") * CHUNK < F.col("size"))
    )
    ids = F.sequence(F.col("chunk") * CHUNK + 1, F.least(F.col("size"), (F.col("chunk") + 1) * CHUNK))
    most_sources = F.greatest(F.lit(1.0), F.col("size") * 0.13)
    return chunked.select(
        _INDEX,
        "size",
        (F.floor(draw("sources", F.col(_INDEX)) * most_sources) + 1).cast("int").alias("sources"),
        F.least(F.lit(1.0), 20 / F.col("size")).alias("rarity"),
        F.explode(ids).alias(_ID),
    )


def _kinds(rows: DataFrame, draw: Draw) -> DataFrame:
    """`rows` with `kind`, its input `count`, and `behind_virtual`: whether the one before is virtual.

    Each step is a projection of its own, so that what it names is computed once.
    """
    index, node, sources = F.col(_INDEX), F.col(_ID), F.col("sources")
    source = F.when(draw("source", index, node) < 0.5, str(Kind.SOURCE)).otherwise(str(Kind.LEGACY_SOURCE))
    drawn = rows.select(
        "*",
        draw("kind", index, node).alias("drawn"),
        ((node - 1 > sources) & (draw("kind", index, node - 1) >= _VIRTUAL_FROM)).alias("behind_virtual"),
    )
    kind = (
        F.when(node <= sources, source)
        .when(node == F.col("size"), str(Kind.SINK))
        .otherwise(pick_weighted(F.col("drawn"), KINDS))
    )
    with_kind = drawn.select("*", kind.alias("kind"))
    no_side_output_of_virtual = F.when(
        F.col("behind_virtual") & _is(Kind.SIDE_OUTPUT), str(Kind.PARTITION)
    ).otherwise(F.col("kind"))
    count = (
        F.when(node <= sources, 0)
        .when(_is(Kind.TWO_INPUT), 2)
        .when(_is(Kind.UNION), below(draw("union inputs", index, node), F.lit(2)) + 2)
        .when(_is(Kind.MULTI_INPUT), below(draw("multiple inputs", index, node), F.lit(3)) + 2)
        .otherwise(1)
    )
    return with_kind.select(
        *(c for c in drawn.columns if c != "drawn"),
        no_side_output_of_virtual.alias("kind"),
        count.alias("count"),
    )


def _inputs(rows: DataFrame, draw: Draw) -> DataFrame:
    """`rows` with `inputs`: as many earlier ids as the kind takes.

    Whether an earlier transformation can be read is seen from its own draw of a kind, so no row looks at
    another: sinks are the lowest draws, virtual kinds the highest, and operators that may have side outputs
    stand together between them. Two earlier ones are looked at; if neither can be read, a source is.
    """
    index, node, sources = F.col(_INDEX), F.col(_ID), F.col("sources")
    positions = range(MAX_INPUTS)
    names = {p: (f"near_{p}", f"far_{p}") for p in positions}

    def wanted(position: int) -> Column:
        return ~F.col("behind_virtual") & (F.col("count") > 0) if position == 0 else F.col("count") > position

    candidates = rows.select(
        "*",
        F.when(_is(Kind.SIDE_OUTPUT), _SIDE_OUTPUTS_FROM).otherwise(_SINKS_BELOW).alias("readable_from"),
        F.when(_is(Kind.SIDE_OUTPUT), _VIRTUAL_FROM).otherwise(1.0).alias("readable_below"),
        *(
            F.when(wanted(p), below(draw(f"input {p} {name}", index, node), node - 1) + 1).alias(name)
            for p in positions
            for name in names[p]
        ),
    )
    drawn = candidates.select(
        "*",
        *(
            F.when(F.col(name).isNotNull(), draw("kind", index, F.col(name))).alias(f"drawn_{name}")
            for p in positions
            for name in names[p]
        ),
    )

    def readable(name: str) -> Column:
        any_source = (F.col(name) <= sources) & (F.col("readable_below") == 1.0)
        found = F.col(f"drawn_{name}")
        in_range = (found >= F.col("readable_from")) & (found < F.col("readable_below"))
        return any_source | (in_range & (F.col(name) > sources))

    def input_at(position: int) -> Column:
        near, far = names[position]
        a_source = below(draw(f"source input {position}", index, node), sources) + 1
        earlier = F.when(readable(near), F.col(near)).when(readable(far), F.col(far)).otherwise(a_source)
        return F.when(F.col("behind_virtual"), node - 1).otherwise(earlier) if position == 0 else earlier

    several = F.slice(F.array(*(input_at(p) for p in positions)), F.lit(1), F.col("count"))
    inputs = (
        F.when(F.col("count") == 0, F.array().cast("array<int>"))
        .when(F.col("count") == 1, F.array(input_at(0)))
        .otherwise(several)
    )
    return drawn.select(*rows.columns, inputs.alias("inputs"))


def _name(draw: Draw) -> Column:
    number = F.col(_ID).cast("string")
    by_kind = {
        (Kind.SOURCE, Kind.LEGACY_SOURCE): F.concat(F.lit("Source: s"), number),
        (Kind.SINK,): F.concat(F.lit("Sink: k"), number),
        (Kind.TWO_INPUT,): F.lit("Join"),
        (Kind.MULTI_INPUT,): F.lit("Multi"),
        (Kind.ONE_INPUT, Kind.ASYNC): pick(draw("name", F.col(_INDEX), F.col(_ID)), NAMES),
    }
    name = F.when(F.lit(False), "")
    for kinds, value in by_kind.items():
        name = name.when(_is(*kinds), value)
    return name.otherwise("")


def _is(*kinds: Kind) -> Column:
    return F.col("kind").isin(*(str(kind) for kind in kinds))


def _virtual_options(draw: Draw) -> dict[str, Column]:
    index, node = F.col(_INDEX), F.col(_ID)
    modes = (StreamExchangeMode.UNDEFINED, StreamExchangeMode.PIPELINED, StreamExchangeMode.BATCH)
    mode = pick(draw("exchange mode value", index, node), [str(m) for m in modes])
    partition = _is(Kind.PARTITION)
    partitioner = F.when(
        draw("forward", index, node) < SHARE_OF_FORWARD * F.col("rarity"), str(Partitioner.FORWARD)
    ).otherwise(pick_weighted(draw("partitioner", index, node), PARTITIONERS))
    return {
        "partitioner": F.when(partition, partitioner),
        "exchange_mode": F.when(partition & (draw("exchange mode", index, node) < 0.081), mode),
        "tag": F.when(_is(Kind.SIDE_OUTPUT), pick(draw("tag", index, node), ("errors", "late"))),
    }
