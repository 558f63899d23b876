"""Sinks of the Sink V2 API become the operators that Flink makes of them."""

import polars as pl
import pyarrow as pa

from penstock.plans.columnar.frames import from_arrow
from penstock.plans.stream_graph.expand_sinks import EXPANDED
from penstock.plans.stream_graph.expand_sinks import expand_sinks as expand
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
    rows = ordered.to_arrow(compat_level=pl.CompatLevel.oldest()).to_pylist()
    made: list[dict[str, object]] = []
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or rows[end][TOPOLOGY] != rows[start][TOPOLOGY]:
            made += expand(rows[start:end])
            start = end
    expanded = from_arrow(pa.Table.from_pylist(made, EXPANDED))
    return pl.concat([plain.filter(~has_sinks), expanded.select(plain.columns).cast(plain.schema)])
