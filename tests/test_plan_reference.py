"""Plans of random topologies, some with selects of Flink 1.11, against the reference planner, in one run.

PENSTOCK_FUZZ_SEED adds topologies of another seed.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.plan_json.to_plan_lines import to_plan_lines
from tests.planned_lines import PlanJson, differs
from tests.reference.planner import plan
from tests.reference.random_topologies import MODES, random_topology

FUZZ_SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", "20260"))
FIXED, FUZZED = range(25), range(FUZZ_SEED * 1_000, FUZZ_SEED * 1_000 + 15)


@pytest.fixture(scope="module")
def topologies() -> dict[str, dict[str, Any]]:
    made = [
        with_selects(random_topology(seed, 2 + seed * 7 % 60, mode=mode), seed)
        for mode in MODES
        for seed in (*FIXED, *FUZZED)
    ]
    return {topology["name"]: topology for topology in made}


def with_selects(topology: dict[str, Any], seed: int) -> dict[str, Any]:
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
def tables(topologies: dict[str, dict[str, Any]]) -> dict[str, pl.DataFrame]:
    planned = plan_in_process(list(topologies.values()))
    return {name: from_arrow(table) for name, table in planned.tables.items()}


@pytest.fixture(scope="module")
def plans(tables: dict[str, pl.DataFrame]) -> dict[str, PlanJson]:
    return {name: json.loads(line) for name, line in to_plan_lines(tables).rows()}


@pytest.fixture(scope="module")
def expected(topologies: dict[str, dict[str, Any]]) -> dict[str, PlanJson]:
    return {name: plan(topology) for name, topology in topologies.items()}


@pytest.mark.slow
def test_plans_are_the_references(topologies, plans, expected):
    wrong = sorted(
        (topology for name, topology in topologies.items() if differs(plans[name], expected[name])),
        key=lambda topology: len(topology["transformations"]),
    )
    smallest = json.dumps(wrong[0], ensure_ascii=False) if wrong else ""
    assert not wrong, f"PENSTOCK_FUZZ_SEED={FUZZ_SEED}: {len(wrong)} differ; the smallest: {smallest}"


def test_selected_names_are_the_references(plans, tables, expected):
    def wanted() -> Iterator[tuple[str, int, int, tuple[str, ...]]]:
        for name, planned in expected.items():
            if "error" in plans[name]:
                continue
            out_indexes: dict[int, int] = {}
            for edge in planned["stream_graph"]["edges"]:
                out_index = out_indexes[edge["source"]] = out_indexes.get(edge["source"], -1) + 1
                if "selected_names" in edge:
                    yield name, edge["source"], out_index, tuple(edge["selected_names"])

    edges = tables["stream_edges"].filter(pl.col("selected_names").is_not_null())
    rows = edges.join(tables["topologies"].select("topology_id", "name"), "topology_id")
    found = {
        (row["name"], row["source"], row["out_index"], tuple(row["selected_names"]))
        for row in rows.to_dicts()
    }
    assert found == set(wanted()), f"PENSTOCK_FUZZ_SEED={FUZZ_SEED}"
    assert len(found) > 20


def test_the_topologies_are_various(expected):
    refused = [planned["error_stage"] for planned in expected.values() if "error" in planned]
    assert len(expected) == 160
    assert refused.count("stream_graph") > 5
    assert refused.count("job_graph") > 10
    assert len(refused) < 70
