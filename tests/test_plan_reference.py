"""Plans of random topologies on Spark against the reference planner, all in one planning run.

PENSTOCK_FUZZ_SEED adds topologies of another seed.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from penstock.plans.joins.run_passes import Planned
from tests.planned_lines import PlanJson, differs, planned_lines
from tests.reference.planner import plan
from tests.reference.random_topologies import MODES, random_topology

FUZZ_SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", "20260"))
FIXED, FUZZED = range(25), range(FUZZ_SEED * 1_000, FUZZ_SEED * 1_000 + 15)


@pytest.fixture(scope="module")
def topologies() -> dict[str, dict[str, Any]]:
    made = [
        _with_selects(random_topology(seed, 2 + seed * 7 % 60, mode=mode), seed)
        for mode in MODES
        for seed in (*FIXED, *FUZZED)
    ]
    return {topology["name"]: topology for topology in made}


def _with_selects(topology: dict[str, Any], seed: int) -> dict[str, Any]:
    """Every fifth topology with Flink 1.11's selects for side outputs."""
    if seed % 5:
        return topology
    return topology | {
        "transformations": [
            {"id": t["id"], "kind": "select", "inputs": t["inputs"], "names": [t["tag"], f"n{t['id']}"]}
            if t["kind"] == "side_output"
            else t
            for t in topology["transformations"]
        ]
    }


@pytest.fixture(scope="module")
def selects() -> list[Row]:
    """Filled by `plans`: the stream edges with selected names."""
    return []


@pytest.fixture(scope="module")
def plans(
    spark: SparkSession, topologies: dict[str, dict[str, Any]], selects: list[Row]
) -> dict[str, PlanJson]:
    def collect_selects(planned: Planned) -> None:
        names = planned.tables["topologies"].select("topology_id", "name")
        edges = planned.tables["stream_edges"].filter(F.col("selected_names").isNotNull())
        columns = ("name", "source", "out_index", "selected_names")
        selects.extend(edges.join(names, "topology_id").select(*columns).collect())

    return planned_lines(spark, topologies.values(), collect_selects)


@pytest.fixture(scope="module")
def expected(topologies: dict[str, dict[str, Any]]) -> dict[str, PlanJson]:
    return {name: plan(topology) for name, topology in topologies.items()}


def test_plans_are_the_references(topologies, plans, expected):
    wrong = sorted(
        (topology for name, topology in topologies.items() if differs(plans[name], expected[name])),
        key=lambda topology: len(topology["transformations"]),
    )
    smallest = json.dumps(wrong[0], ensure_ascii=False) if wrong else ""
    assert not wrong, f"PENSTOCK_FUZZ_SEED={FUZZ_SEED}: {len(wrong)} differ; the smallest: {smallest}"


def test_selected_names_are_the_references(plans, selects, expected):
    def wanted() -> Iterator[tuple[str, int, int, tuple[str, ...]]]:
        for name, planned in expected.items():
            if "error" in plans[name]:
                continue
            out_indexes: dict[int, int] = {}
            for edge in planned["stream_graph"]["edges"]:
                out_index = out_indexes[edge["source"]] = out_indexes.get(edge["source"], -1) + 1
                if "selected_names" in edge:
                    yield name, edge["source"], out_index, tuple(edge["selected_names"])

    found = {(row["name"], row["source"], row["out_index"], tuple(row["selected_names"])) for row in selects}
    assert found == set(wanted()), f"PENSTOCK_FUZZ_SEED={FUZZ_SEED}"
    assert len(found) > 20


def test_the_topologies_are_various(expected):
    refused = [planned["error_stage"] for planned in expected.values() if "error" in planned]
    assert len(expected) == 160
    assert refused.count("stream_graph") > 5
    assert refused.count("job_graph") > 10
    assert len(refused) < 70
