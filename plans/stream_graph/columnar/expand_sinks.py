"""Sinks of the Sink V2 API become the operators that Flink makes of them."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.columnar.frames import from_arrow
from penstock.plans.stream_graph.expand_sinks import EXPANDED, SINK_ITSELF, sink_operators
from penstock.plans.tables.column_types import TOPOLOGY


def expand_sinks(transformations: pl.DataFrame) -> pl.DataFrame:
    """The transformations with what their sinks become (see EXPANDED).

    Columns and source: see joins.expand_sinks.

    Example: a sink that commits becomes a writer and a committer
    (tests/passes/fixtures/expanded_transformations.txt).

        transformations
        id  kind    inputs  name   uid  sink_topology
        1   source  []      s      -    -
        2   sink    [1]     Files  out  {"committer":{},"writer":{}}

        -> expanded_transformations
        id  kind       inputs  name              uid
        1   source     []      s                 -
        2   union      []      Files             -
        3   writer     [1]     Files: Writer     out
        4   partition  [3]     ""                -
        5   committer  [4]     Files: Committer  Sink Committer: out
    """
    plain = transformations.with_columns(
        position=pl.col("id"), transformation=pl.col("id"), concurrent_attempts=pl.lit(value=True)
    ).select(EXPANDED.names)
    sinks = transformations.filter(pl.col("sink_topology").is_not_null())
    if sinks.is_empty():
        return plain
    has_sinks = pl.col(TOPOLOGY).is_in(sinks[TOPOLOGY].unique().implode())
    ordered = transformations.filter(has_sinks).sort(TOPOLOGY, "id")
    made, sizes = _operators(ordered)
    is_sink = pl.col("sink_topology").is_not_null()
    added = pl.col("added").cum_sum().over(TOPOLOGY) - pl.col("added")
    kept = (
        ordered.with_columns(added=sizes)
        .with_columns(position=pl.col("id") + added, transformation=pl.col("id"))
        .with_columns(
            pl.when(is_sink).then(pl.lit(value, plain.schema[name])).otherwise(name).alias(name)
            for name, value in SINK_ITSELF.items()
        )
        .with_columns(concurrent_attempts=pl.lit(value=True))
    )
    first = kept.filter(is_sink).select("position", "added")
    positions = first.select(
        pl.int_ranges(pl.col("position") + 1, pl.col("position") + 1 + pl.col("added"))
    ).to_series()
    operators = from_arrow(pa.Table.from_pylist(made, _WITHOUT_POSITION))
    expanded = operators.with_columns(position=positions.explode())
    parts = (plain.filter(~has_sinks), kept, expanded)
    return pl.concat(part.select(plain.columns).cast(plain.schema) for part in parts)


_WITHOUT_POSITION = EXPANDED.remove(EXPANDED.get_field_index("position"))


def _operators(ordered: pl.DataFrame) -> tuple[list[dict[str, Any]], pl.Series]:
    """What the sinks become, of transformations by topology and id; and into how many rows each row turns."""
    kinds, inputs = ordered["kind"].cast(pl.String).to_list(), ordered["inputs"].to_list()
    rows = ordered.filter(pl.col("sink_topology").is_not_null())
    sinks = rows.to_arrow(compat_level=pl.CompatLevel.oldest()).to_pylist()
    made: list[dict[str, Any]] = []
    sizes = np.zeros(len(ordered), np.int32)
    bounds = ordered[TOPOLOGY].rle().struct.field("len").cum_sum().to_list()
    start = place = 0
    for end in bounds:
        last = place
        topology = ordered[TOPOLOGY][start]
        while last < len(sinks) and sinks[last][TOPOLOGY] == topology:
            last += 1
        of_topology = sinks[place:last]
        for sink, operators in zip(
            of_topology, sink_operators(kinds[start:end], inputs[start:end], of_topology), strict=True
        ):
            sizes[start + sink["id"] - 1] = len(operators)
            made += operators
        start, place = end, last
    return made, pl.Series(sizes)
