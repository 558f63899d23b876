"""Stream edges get their partitioner and know the nodes at both ends."""

import numpy as np
import polars as pl

from penstock.plans.frames.polars_frames import look_up
from penstock.plans.stream_graph.choose_partitioners import (
    ALIGNED,
    CLASSES,
    DEGREES,
    KEYED,
    PLACES,
    POINTWISE,
    SOURCE_ATTRIBUTES,
    TARGET_ATTRIBUTES,
    UNSPECIFIED_FORWARD,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import FORWARD_CLASSES, JobType, Partitioner, StreamExchangeMode

_VERDICTS = ("chainable", "chained_source", "not_chainable_reasons")
_PARTITIONERS = list(Partitioner)
_CLASSES = pl.Series([*(CLASSES[p] for p in _PARTITIONERS), UNSPECIFIED_FORWARD])
_IDS_AT_A_TIME = 1_000_000


def choose_partitioners(
    resolved_inputs: pl.DataFrame,
    edge_ends: pl.DataFrame,
    stream_nodes: pl.DataFrame,
    job_settings: pl.DataFrame,
    given_stream_edges: pl.DataFrame,
) -> pl.DataFrame:
    """The StreamGraph's edges, each with what decides whether it chains: attributes of its ends and its job.

    Columns and source: see joins.choose_partitioners. The edges that are translated come first, as in
    edge_ends.

    Example: tests/passes/fixtures/edges_with_ends.txt.
    """
    settings = job_settings.select(_SETTINGS).rechunk()
    count = len(resolved_inputs)
    ends = _attributes(stream_nodes, edge_ends[:count])
    chosen = look_up(resolved_inputs.hstack(ends), settings, {}).with_columns(_CHOICES)
    translated = chosen.with_columns(*_partitioner_names(chosen), _edge_ids(chosen)).select(_EDGES)
    if given_stream_edges.is_empty():
        return translated
    given_edges = given_stream_edges.drop(_VERDICTS).with_columns(_OF_GIVEN)
    ends = _attributes(stream_nodes, edge_ends[count:])
    with_ends = look_up(given_edges.hstack(ends), settings, {})
    return pl.concat([translated, with_ends.select(translated.columns)], rechunk=True)


def _attributes(nodes: pl.DataFrame, edge_ends: pl.DataFrame) -> list[pl.Series]:
    """The attributes of an edge's ends that decide whether it chains, one column each."""
    return [
        nodes[attribute][edge_ends[f"{end}_row"]].alias(f"{end}_{attribute}")
        for end, attributes in (("source", SOURCE_ATTRIBUTES), ("target", TARGET_ATTRIBUTES))
        for attribute in attributes
    ]


def _choices() -> list[pl.Expr]:
    unspecified_forward = pl.col("source_parallelism") == pl.col("target_parallelism")
    forward, rebalance = (
        pl.lit(_PARTITIONERS.index(p), pl.UInt8) for p in (Partitioner.FORWARD, Partitioner.REBALANCE)
    )
    exchange_mode = pl.col("exchange_mode")
    ignored = ~pl.col("batch") & (exchange_mode == StreamExchangeMode.BATCH)
    return [
        pl.col("partitioner")
        .to_physical()
        .fill_null(pl.when(unspecified_forward).then(forward).otherwise(rebalance))
        .alias("chosen"),
        (pl.col("partitioner").is_null() & unspecified_forward & pl.col("dynamic")).alias("unspecified"),
        pl.when(exchange_mode.is_null() | ignored)
        .then(pl.lit(str(StreamExchangeMode.UNDEFINED)))
        .otherwise(exchange_mode)
        .alias("exchange_mode"),
    ]


def _partitioner_names(edges: pl.DataFrame) -> list[pl.Series]:
    """partitioner, partitioner_class, partitioner_key."""
    chosen = edges["chosen"].to_numpy()
    keyed = np.isin(chosen, [_PARTITIONERS.index(p) for p in KEYED])
    classes = np.where(edges["unspecified"].to_numpy(), len(_PARTITIONERS), chosen)
    printed = pl.Series([p.upper() for p in _PARTITIONERS]).gather(chosen)
    of_keyed = pl.DataFrame([printed.alias("partitioner"), edges["partition"]]).filter(
        pl.Series(values=keyed)
    )
    keys = of_keyed.select(pl.concat_str("partitioner", "partition", separator="#")).to_series()
    key = np.where(keyed, len(_CLASSES) - 1 + np.cumsum(keyed), classes)
    return [
        printed.alias("partitioner"),
        _CLASSES.gather(classes).alias("partitioner_class"),
        pl.concat([_CLASSES, keys], rechunk=True).gather(key).alias("partitioner_key"),
    ]


def _edge_ids(edges: pl.DataFrame) -> pl.Series:
    """edge_id. Each number is converted to text once, because copying the text is faster."""
    highest = edges.select(pl.max_horizontal(pl.col(*_NUMBERS).max())).item() or 0
    numbers = pl.int_range(highest + 1, eager=True).cast(pl.String)
    ends = "-" + numbers + "_"
    edge_id = pl.concat_str(
        "source_name",
        pl.lit(ends).gather("source"),
        "target_name",
        pl.lit(ends).gather("target"),
        pl.lit(numbers).gather("type_number"),
        pl.lit(_BETWEEN_NUMBERS).gather("chosen"),
        pl.lit(numbers).gather("unique_id"),
    )
    # Some at a time: the pieces take twice the memory of the ids.
    starts = range(0, len(edges) or 1, _IDS_AT_A_TIME)
    ids = [edges.slice(start, _IDS_AT_A_TIME).select(edge_id=edge_id).to_series() for start in starts]
    return pl.concat(ids, rechunk=True)


def _is_one_of(*partitioners: Partitioner) -> pl.Expr:
    return pl.any_horizontal(pl.col("chosen") == _PARTITIONERS.index(p) for p in partitioners)


def _edges() -> list[str | pl.Expr]:
    return [
        *PLACES,
        "partitioner",
        "partitioner_class",
        "partitioner_key",
        _is_one_of(*POINTWISE).alias("pointwise"),
        _is_one_of(Partitioner.BROADCAST).alias("broadcast"),
        "exchange_mode",
        "output_tag",
        "selected_names",
        pl.col("source_buffer_timeout").alias("buffer_timeout"),
        (~_is_one_of(*ALIGNED)).alias("supports_unaligned_checkpoints"),
        "edge_id",
        pl.lit(None, pl.String).alias("persistent_data_set"),
        _is_one_of(Partitioner.FORWARD).alias("forward"),
        *DEGREES,
        *(f"source_{a}" for a in SOURCE_ATTRIBUTES if a != "buffer_timeout"),
        *(f"target_{a}" for a in TARGET_ATTRIBUTES),
        "chaining_enabled",
        "chain_different_max_parallelism",
    ]


def _size_of(*keys: str) -> pl.Expr:
    return pl.len().over(TOPOLOGY, *keys).cast(pl.Int32)


_SETTINGS = (
    pl.col(TOPOLOGY),
    pl.col("dynamic"),
    (pl.col("job_type") == JobType.BATCH).alias("batch"),
    pl.col("chaining_enabled"),
    pl.col("chain_different_max_parallelism"),
)
_CHOICES = _choices()
_NUMBERS = ("source", "target", "type_number", "unique_id")
_BETWEEN_NUMBERS = pl.Series([f"_{p.upper()}_" for p in _PARTITIONERS])
_EDGES = _edges()
_OF_GIVEN = (
    pl.col("partitioner_class").is_in(FORWARD_CLASSES).alias("forward"),
    _size_of("target").alias("in_degree"),
    _size_of("target", "type_number").alias("input_degree"),
    _size_of("source").alias("out_degree"),
)
