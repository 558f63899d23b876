"""Every virtual transformation is replaced by the physical ones behind it, by pointer doubling."""

import polars as pl

from plans.columnar.frames import TOPOLOGY, join_topology
from plans.stream_graph.expand_virtual_nodes import LABELS
from plans.vocabulary import VIRTUAL_KINDS, Kind, StreamExchangeMode

_KIND = pl.col("kind")
_IS_PARTITION = _KIND == Kind.PARTITION
_VIRTUAL = _KIND.is_in(sorted(VIRTUAL_KINDS))
_READ = (TOPOLOGY, "id", "kind", "inputs", "partitioner", "exchange_mode", "tag", "names")
_OPEN = pl.col("open")
_START = (
    pl.col(TOPOLOGY),
    pl.col("id").alias("node"),
    pl.int_ranges(pl.col("inputs").list.len(), dtype=pl.Int32).alias("position"),
    pl.col("inputs").alias("input"),
    pl.when(_IS_PARTITION).then("id").alias("partition"),
    pl.when(_IS_PARTITION).then("partitioner").alias("partitioner"),
    pl.when(_IS_PARTITION)
    .then(pl.col("exchange_mode").fill_null(pl.lit(str(StreamExchangeMode.UNDEFINED))))
    .alias("exchange_mode"),
    pl.when(_KIND == Kind.SIDE_OUTPUT).then("tag").alias("output_tag"),
    pl.when(_KIND == Kind.SELECT).then("names").alias("selected_names"),
    (_KIND == Kind.UNION).alias("union"),
)
_STARTED = (
    pl.col(TOPOLOGY),
    pl.col("node"),
    pl.when("union").then(pl.concat_list("position")).otherwise(pl.lit([], pl.List(pl.Int32))).alias("path"),
    pl.col("input"),
    _OPEN.fill_null(False),
    *(pl.col(label) for label in LABELS),
)
_FURTHER = (
    pl.col(TOPOLOGY),
    pl.col("node").alias("at"),
    *(pl.col(name).alias(f"further_{name}") for name in ("path", "input", "open", *LABELS)),
)


def _nearest(label: str) -> pl.Expr:
    return pl.coalesce(label, f"further_{label}").alias(label)


_COMPOSED = (
    pl.col(TOPOLOGY),
    pl.col("node"),
    pl.concat_list("path", "further_path").alias("path"),
    pl.col("further_input").alias("input"),
    pl.col("further_open").alias("open"),
    _nearest("partition"),
    _nearest("partitioner"),
    pl.coalesce("further_exchange_mode", "exchange_mode").alias("exchange_mode"),
    _nearest("output_tag"),
    _nearest("selected_names"),
)


def expand_virtual_nodes(transformations: pl.DataFrame) -> pl.DataFrame:
    """One row a virtual transformation and way up to a physical one; no row is open.

    As plans.stream_graph.expand_virtual_nodes, whose `step` is repeated here.
    """
    expansions = _start(transformations)
    while expansions["open"].any():
        expansions = _step(expansions)
    return expansions


def _start(transformations: pl.DataFrame) -> pl.DataFrame:
    """The expansion by one step."""
    virtual = transformations.select(_READ).filter(_VIRTUAL)
    expansions = virtual.select(_START).explode("position", "input")
    virtual_ids = virtual.select(TOPOLOGY, "id", open=True)
    return join_topology(expansions, virtual_ids, {"input": "id"}, "left").select(_STARTED)


def _step(expansions: pl.DataFrame) -> pl.DataFrame:
    """Every open row composed with the rows of the node it stands at: twice as far in one join.

    That node has rows of its own, since a virtual transformation has inputs.
    """
    composed = expansions.filter(_OPEN).join(
        expansions.select(_FURTHER), left_on=[TOPOLOGY, "input"], right_on=[TOPOLOGY, "at"]
    )
    return pl.concat([expansions.filter(~_OPEN), composed.select(_COMPOSED)], rechunk=True)
