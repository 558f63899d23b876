"""Stream edges with the nodes at their ends, their partitioner chosen."""

import polars as pl

from plans.columnar.frames import TOPOLOGY, rename
from plans.columnar.look_up import look_up
from plans.stream_graph.choose_partitioners import (
    CLASSES,
    DEGREES,
    SOURCE_ATTRIBUTES,
    TARGET_ATTRIBUTES,
    UNSPECIFIED_FORWARD,
)
from plans.vocabulary import JobType, Partitioner, StreamExchangeMode

_VERDICTS = ("chainable", "chained_source", "not_chainable_reasons")
_PARTITIONERS = list(Partitioner)


def choose_partitioners(
    resolved_inputs: pl.DataFrame,
    stream_nodes: pl.DataFrame,
    job_settings: pl.DataFrame,
    given_stream_edges: pl.DataFrame,
) -> pl.DataFrame:
    """The StreamGraph's edges, each with what chaining has to know of its ends.

    As plans.stream_graph.choose_partitioners. Every edge's ends are among stream_nodes.
    """
    sources = rename(stream_nodes, source="id", **{f"source_{a}": a for a in SOURCE_ATTRIBUTES})
    targets = rename(stream_nodes, target="id", **{f"target_{a}": a for a in TARGET_ATTRIBUTES})

    def with_ends(edges: pl.DataFrame) -> pl.DataFrame:
        return look_up(look_up(edges, sources, {"source": "source"}), targets, {"target": "target"})

    with_settings = look_up(with_ends(resolved_inputs), job_settings.select(_SETTINGS), {})
    translated = with_settings.with_columns(_CHOICES).with_columns(_NAMES).select(_EDGES)
    if given_stream_edges.is_empty():
        return translated
    given = with_ends(given_stream_edges.drop(_VERDICTS).with_columns(_GIVEN_DEGREES))
    return pl.concat([translated, given.select(translated.columns)], rechunk=True)


def _choices() -> list[pl.Expr]:
    unspecified_forward = pl.col("source_parallelism") == pl.col("target_parallelism")
    forward, rebalance = (
        pl.lit(_PARTITIONERS.index(p), pl.UInt8) for p in (Partitioner.FORWARD, Partitioner.REBALANCE)
    )
    exchange_mode = pl.col("exchange_mode")
    ignored = ~pl.col("batch") & (exchange_mode == StreamExchangeMode.BATCH)
    return [
        pl.col("partitioner")
        .cast(pl.Enum(Partitioner))
        .to_physical()
        .fill_null(pl.when(unspecified_forward).then(forward).otherwise(rebalance))
        .alias("chosen"),
        (pl.col("partitioner").is_null() & unspecified_forward & pl.col("dynamic")).alias("unspecified"),
        pl.when(exchange_mode.is_null() | ignored)
        .then(pl.lit(str(StreamExchangeMode.UNDEFINED)))
        .otherwise(exchange_mode)
        .alias("exchange_mode"),
    ]


def _of_partitioner(values: dict[Partitioner, str]) -> pl.Expr:
    in_order = pl.Series([values[p] for p in _PARTITIONERS], dtype=pl.String)
    return pl.lit(in_order).gather(pl.col("chosen"))


def _is_one_of(*partitioners: Partitioner) -> pl.Expr:
    return pl.any_horizontal(pl.col("chosen") == _PARTITIONERS.index(p) for p in partitioners)


def _edge_id() -> pl.Expr:
    end, part = pl.lit("-"), pl.lit("_")
    source, target = ("source_name", end, "source"), ("target_name", end, "target")
    return pl.concat_str(*source, part, *target, part, "type_number", part, "partitioner", part, "unique_id")


def _edges() -> list[str | pl.Expr]:
    pointwise = _is_one_of(Partitioner.FORWARD, Partitioner.RESCALE)
    broadcast = _is_one_of(Partitioner.BROADCAST)
    return [
        TOPOLOGY,
        "source",
        "target",
        "in_index",
        "out_index",
        "type_number",
        "unique_id",
        "partitioner",
        "partitioner_class",
        pl.when(_is_one_of(Partitioner.HASH, Partitioner.CUSTOM))
        .then(pl.concat_str("partitioner", "partition", separator="#", ignore_nulls=True))
        .otherwise("partitioner_class")
        .alias("partitioner_key"),
        pointwise.alias("pointwise"),
        broadcast.alias("broadcast"),
        "exchange_mode",
        "output_tag",
        "selected_names",
        pl.col("source_buffer_timeout").alias("buffer_timeout"),
        (~(pointwise | broadcast | _is_one_of(Partitioner.CUSTOM))).alias("supports_unaligned_checkpoints"),
        _edge_id().alias("edge_id"),
        *DEGREES,
        *(f"source_{a}" for a in SOURCE_ATTRIBUTES if a != "buffer_timeout"),
        *(f"target_{a}" for a in TARGET_ATTRIBUTES),
    ]


def _size_of(*keys: str) -> pl.Expr:
    return pl.len().over(TOPOLOGY, *keys).cast(pl.Int32)


_SETTINGS = (pl.col(TOPOLOGY), pl.col("dynamic"), (pl.col("job_type") == JobType.BATCH).alias("batch"))
_CHOICES = _choices()
_NAMES = (
    _of_partitioner({p: p.upper() for p in Partitioner}).alias("partitioner"),
    pl.when("unspecified")
    .then(pl.lit(UNSPECIFIED_FORWARD))
    .otherwise(_of_partitioner(CLASSES))
    .alias("partitioner_class"),
)
_EDGES = _edges()
_GIVEN_DEGREES = (
    _size_of("target").alias("in_degree"),
    _size_of("target", "type_number").alias("input_degree"),
    _size_of("source").alias("out_degree"),
)
