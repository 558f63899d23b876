"""Whole topologies by the passes over DataFrames, which plan giants that blocks leave to them."""

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from penstock.engine.planning.plan_topologies import read_topologies, validated
from penstock.engine.planning.planning_settings import partitions_for, planning_settings
from penstock.plans.planners.run_joins import Planned, run_passes
from penstock.plans.stream_graph.joins.resolve_virtual_nodes import limit_expansion
from penstock.plans.vocabulary import Layer


def plan_by_joins(
    spark: SparkSession, topologies: Iterable[Mapping[str, Any]], until: Layer = Layer.SLOTS
) -> Planned:
    read = validated(spark, read_topologies(spark, list(topologies)))
    partitions = partitions_for(spark, read.transformations.count())
    with planning_settings(spark, partitions):
        return run_passes(limit_expansion(read), until, partitions)
