"""Sinks of the Sink V2 API become the operators that Flink makes of them."""

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from penstock.plans.frames.packed_blocks import LEAST_PARTITIONS, partitioned
from penstock.plans.frames.spark_frames import join_local
from penstock.plans.frames.spark_walks import Part, walk_topologies
from penstock.plans.stream_graph.columnar.expand_sinks import EXPANDED
from penstock.plans.tables.column_types import TOPOLOGY


def expand_sinks(transformations: DataFrame) -> DataFrame:
    """The transformations with what their sinks become (see EXPANDED).

    In: transformations. Out (key topology_id, id): their columns but for sink_topology; position, the order
    in which Flink translates them; transformation, the author's id of what they were made of;
    concurrent_attempts. Ids of what a sink becomes follow those of all transformations.

    Source: SinkTransformationTranslator, GlobalCommitterTransformationTranslator.

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
    sinks = transformations.filter(F.col("sink_topology").isNotNull()).select(TOPOLOGY).distinct()
    columns = [
        *(name for name in EXPANDED.names if name in transformations.columns),
        F.col("id").alias("position"),
        F.col("id").alias("transformation"),
        F.lit(True).alias("concurrent_attempts"),
    ]
    if sinks.isEmpty():
        return transformations.select(columns)
    with_sinks = join_local(transformations, sinks, {}, "left_semi")
    without = join_local(transformations, sinks, {}, "left_anti").select(columns)
    columns_of_rows = to_arrow_schema(with_sinks.schema)

    def expand(rows: pa.Table) -> list[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = expand_table(rows.cast(columns_of_rows)).combine_chunks().to_batches()
        return batches

    expanded = walk_topologies([Part(with_sinks, "id")], expand, EXPANDED)
    # Rows from Python workers have no known partitioning; with one, later passes need no exchange.
    partitions = int(transformations.sparkSession.conf.get("spark.sql.shuffle.partitions") or 200)
    return without.unionByName(partitioned(expanded, max(LEAST_PARTITIONS, partitions)))


def expand_table(rows: pa.Table) -> pa.Table:
    """The rows of whole topologies, all of which have sinks, expanded."""
    from penstock.plans.frames.polars_frames import from_arrow
    from penstock.plans.stream_graph.columnar.expand_sinks import expand_sinks as expand

    return expand(from_arrow(rows)).to_arrow().cast(EXPANDED)
