"""Topologies whose unions of unions expand to more edges than a plan can hold are refused."""

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from penstock.plans.error_kinds import INPUT_STAGE
from penstock.plans.stream_graph.columnar.limit_expansion import MOST_EDGES, too_many_edges
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.joins.rejected_rows import rejected_rows
from penstock.plans.topology.joins.topologies_of_lines import TopologyTables
from penstock.plans.vocabulary import Kind

_COUNTED = f"{TOPOLOGY} bigint, id int, ways bigint, most bigint"
_ERROR = "struct<error: string, location: string, found: string, allowed: string, hint: string>"


def limit_expansion(tables: TopologyTables) -> TopologyTables:
    """The tables of the topology layer, in which topologies of too many edges are rows of `rejected` only.

    As columnar.limit_expansion. One Spark job, which finds topologies whose unions may have too many ways and
    has Python workers count these, one whole topology at a time.
    """
    wrong = _beyond_limit(tables.transformations)
    if not wrong:
        return tables
    refused = F.col(TOPOLOGY).isin(list(wrong))
    spark = tables.topologies.sparkSession
    errors = spark.createDataFrame(
        [(topology, [too_many_edges(**counts)]) for topology, counts in wrong.items()],
        f"{TOPOLOGY} bigint, errors array<{_ERROR}>",
    )
    rejected = (
        tables.topologies.filter(refused)
        .join(F.broadcast(errors), TOPOLOGY)
        .select("name", "source_file", "source_line", F.lit(INPUT_STAGE).alias("error_stage"), "errors")
    )
    return tables._replace(
        topologies=tables.topologies.filter(~refused),
        transformations=tables.transformations.filter(~refused),
        job_settings=tables.job_settings.filter(~refused),
        rejected=tables.rejected.unionByName(rejected_rows(rejected)),
    )


def _beyond_limit(transformations: DataFrame) -> dict[int, dict[str, Any]]:
    """The id, ways and most of each topology with too many edges."""
    counted = _keep_many_unions(transformations).groupBy(TOPOLOGY).applyInArrow(_count, _COUNTED)
    return {row[TOPOLOGY]: {name: row[name] for name in ("id", "ways", "most")} for row in counted.collect()}


def _keep_many_unions(transformations: DataFrame) -> DataFrame:
    """The transformations of topologies that may have too many edges.

    No union has more ways than the product of the inputs that all unions have.
    """
    inputs = F.greatest(F.size("inputs"), F.lit(1))
    doublings = F.sum(F.when(F.col("kind") == Kind.UNION, F.log2(inputs)).otherwise(0.0))
    many = (
        transformations.groupBy(TOPOLOGY)
        .agg(doublings.alias("doublings"), F.sum(inputs).alias("inputs"))
        .where(F.col("doublings") > 0)
        .where(F.col("doublings") + F.log2("inputs") > F.log2(F.lit(MOST_EDGES)))
    )
    return transformations.select(TOPOLOGY, "id", "kind", "inputs").join(many, TOPOLOGY, "left_semi")


def _count(rows: pa.Table) -> pa.Table:
    """One whole topology: its row if it has too many ways."""
    from penstock.plans.frames.polars_frames import from_arrow
    from penstock.plans.stream_graph.columnar.limit_expansion import beyond_limit

    too_large = beyond_limit(from_arrow(rows))
    return too_large.to_arrow()
