"""Metrics of tables in Spark against those of the columnar planner: the same rows, to the bit."""

import polars as pl
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.library.measured import metrics_as_dataframes
from penstock.engine.planning import metrics_on_spark as module
from penstock.engine.planning.chosen_costs import chosen_costs
from penstock.engine.planning.metrics_on_spark import metrics_on_spark
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.frames.spark_schemas import free
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.plan_metrics import NEEDED, plan_metrics
from tests.plans.planners.test_plan_columnar import GOLDEN, golden_lines
from tests.reference.random_topologies import MODES, random_topology

CHOICES = PlanOptions()
(EDGE_CASES,) = (path for path in GOLDEN if path.name == "edge_cases.jsonl.gz")
KEYS = {"plans": ["topology_id"], "vertices": ["topology_id", "vertex"],
        "edges": ["topology_id", "target", "in_index"]}  # fmt: skip


def _types(rows: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in rows.schema]


@pytest.fixture(scope="module")
def planned() -> dict[str, pl.DataFrame]:
    """Tables of random topologies, one of which says costs, and of some without sources or operators, with
    rows in no order."""
    topologies = [
        random_topology(seed, 2 + seed * 7 % 40, mode=MODES[seed % len(MODES)]) for seed in range(40)
    ]
    topologies += [
        line["topology"]
        for line in golden_lines(EDGE_CASES)
        if line["topology"]["name"].startswith(("a sink as an input", "no operator"))
    ]
    topologies[3]["config"] = {
        **topologies[3].get("config", {}),
        "penstock.costs.1": "records_per_second:123.4,record_bytes:7",
    }
    tables = plan_in_process(topologies).tables
    return {name: from_arrow(tables[name]).sample(fraction=1.0, shuffle=True, seed=5) for name in NEEDED}


@pytest.fixture(scope="module")
def on_spark(spark: SparkSession, planned: dict[str, pl.DataFrame]) -> dict[str, DataFrame]:
    return {name: spark.createDataFrame(planned[name].to_arrow()) for name in NEEDED}


@pytest.mark.parametrize(
    ("largest", "block", "partitions", "costs"),
    [(25, 5, 7, "drawn")],
    ids=["giants beside others"],
)
def test_metrics_are_those_of_the_columnar_planner(
    spark, planned, on_spark, monkeypatch, largest, block, partitions, costs
):
    monkeypatch.setattr(module, "ROWS_PER_PARTITION", largest)
    monkeypatch.setattr(module, "ROWS_OF_A_BLOCK", block)
    monkeypatch.setattr(module, "partitions_for", lambda spark, rows: partitions)
    given = chosen_costs(costs, planned["topologies"])(planned["stream_nodes"], planned["stream_edges"])
    expected = plan_metrics(planned, given, CHOICES.task_manager, CHOICES.network)
    found = metrics_on_spark(spark, on_spark, costs, CHOICES.task_manager, CHOICES.network)
    for name, key in KEYS.items():
        rows, wanted = from_arrow(getattr(found, name).toArrow()), getattr(expected, name)
        assert rows.columns == wanted.columns
        assert rows.sort(key).to_dicts() == wanted.sort(key).to_dicts()
    for table, here in zip(KEYS, metrics_as_dataframes(spark, expected), strict=True):
        assert _types(here) == _types(getattr(found, table))
    for kept in found.kept:
        free(kept)
    assert len(expected.plans) > 12
    assert expected.plans["utilisation"].n_unique() > 5
