"""Runs with broken input, lost topologies, nothing to plan, an early layer, and what a run leaves behind."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.engine.planning import plan_on_spark as on_spark
from penstock.engine.planning.plan_in_workers import plan_in_workers
from penstock.engine.planning.plan_on_spark import plan_on_spark
from penstock.engine.planning.plan_result import PlanResult, require_nothing_lost
from penstock.engine.planning.planners import Planner
from penstock.plans.errors import LostTopologiesError
from penstock.plans.layers import PlanOptions
from penstock.plans.tables import TABLES
from penstock.plans.vocabulary import Layer

PLANNERS = (Planner.JOINS, Planner.COLUMNAR)
FLEET, BROKEN = 1_000, 100
FILES = ("a.jsonl", "b.jsonl", "c.jsonl.gz")
REFUSED = ("UnsupportedOperationException", "IllegalArgumentException")


def sound(name: Any, **keys: Any) -> dict[str, Any]:
    """source -> map -> sink."""
    return {
        "name": name,
        "transformations": [
            {"id": 1, "kind": "source", "name": "s"},
            {"id": 2, "kind": "one_input", "name": "m", "inputs": [1]},
            {"id": 3, "kind": "sink", "name": "k", "inputs": [2]},
        ],
        **keys,
    }


def _with(position: int, name: str, **keys: Any) -> dict[str, Any]:
    topology = sound(name)
    topology["transformations"][position] |= keys
    return topology


def _forward_changes(name: str) -> dict[str, Any]:
    topology = _with(1, name, kind="partition", partitioner="forward")
    del topology["transformations"][1]["name"]
    topology["transformations"][2]["parallelism"] = 7
    return topology


def _same_uids(name: str) -> dict[str, Any]:
    topology = _with(0, name, uid="u")
    topology["transformations"][1]["uid"] = "u"
    return topology


BREAKAGES: dict[str, Any] = {
    "NotJson": lambda name: '{"name": "' + name,
    "NotAnObject": lambda name: json.dumps([name]),
    "UnknownKey": lambda name: sound(name, paralelism=3),
    "UnknownKind": lambda name: _with(1, name, kind="one_imput"),
    "DanglingInput": lambda name: _with(2, name, inputs=[9]),
    "ForwardInput": lambda name: _with(1, name, inputs=[3]),
    "WrongType": lambda name: _with(1, name, parallelism="2"),
    "DuplicateTopologyName": lambda name: sound("t0"),
    "UnsupportedOperationException": _forward_changes,
    "IllegalArgumentException": _same_uids,
}
"""Error to a topology that has it; Flink refuses the last two."""


@pytest.fixture(scope="module")
def broken_at() -> dict[tuple[str, int], str]:
    """File and line of every broken topology to its error: every tenth line, all kinds in turn."""
    kinds = list(BREAKAGES)
    return {
        (FILES[i % len(FILES)], i // len(FILES) + 1): kinds[i // 10 % len(kinds)]
        for i in range(5, FLEET, FLEET // BROKEN)
    }


@pytest.fixture(scope="module", params=PLANNERS)
def fleet(
    spark: SparkSession,
    broken_at: dict[tuple[str, int], str],
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[PlanResult]:
    folder = tmp_path_factory.mktemp("fleet")
    lines: dict[str, list[str]] = {file: [] for file in FILES}
    for i in range(FLEET):
        file = FILES[i % len(FILES)]
        error = broken_at.get((file, len(lines[file]) + 1))
        topology = sound(f"t{i}") if error is None else BREAKAGES[error](f"t{i}")
        lines[file].append(topology if isinstance(topology, str) else json.dumps(topology))
    for file, content in lines.items():
        text = "\n".join(content).encode()
        (folder / file).write_bytes(gzip.compress(text) if file.endswith(".gz") else text)
    until = Layer.JOB_GRAPH if request.param is Planner.JOINS else Layer.SLOTS
    planned = plan_on_spark(str(folder), PlanOptions(until), spark=spark, planner=request.param)
    yield planned
    planned.release()


def test_900_are_planned_and_100_rejected_at_their_lines(fleet, broken_at):
    assert (fleet.inputs, fleet.planned, fleet.rejected) == (FLEET, FLEET - BROKEN, BROKEN)
    found = {
        (Path(row["source_file"]).name, row["source_line"]): row["error"]
        for row in fleet.tables["rejected"].collect()
    }
    assert found == broken_at
    assert set(Counter(found.values()).values()) == {BROKEN // len(BREAKAGES)}


def test_a_rejection_says_what_where_and_what_to_do(fleet):
    for row in fleet.tables["rejected"].collect():
        assert row["message"]
        assert (row["error_stage"] == "input") == (row["error"] not in REFUSED)
        for error in row["errors"]:
            assert error["location"]
            assert error["found"]
            assert error["hint"] or error["allowed"]
        if row["error"] != "NotJson" and row["error"] != "NotAnObject":
            assert row["name"].startswith("t")


def test_rejected_topologies_are_in_no_other_table(fleet):
    rejected = fleet.tables["rejected"].filter("error <> 'DuplicateTopologyName'").select("topology_id")
    others = [name for name in fleet.tables if name != "rejected"]
    assert others == [name for name in TABLES if name in others]
    left = {
        name: fleet.tables[name].join(rejected, "topology_id", "left_semi").count()
        for name in ("topologies", "transformations", "stream_edges", "job_vertices", "slot_sharing_groups")
    }
    assert set(left.values()) == {0}
    assert fleet.tables["job_vertices"].select("topology_id").distinct().count() == FLEET - BROKEN


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((3, 2, 0, 2), "the input has 3 topologies, but 2 are planned and 0 rejected"),
        ((3, 3, 0, 2), "only 2 different"),
    ],
)
def test_counts_that_do_not_agree_are_lost_topologies(counts, said):
    require_nothing_lost(3, 2, 1, 2)
    with pytest.raises(LostTopologiesError, match=said):
        require_nothing_lost(*counts)


def test_a_lost_topology_is_never_passed_over(spark, monkeypatch):
    def lose_one(read: Any, *others: Any) -> PlanResult:
        return plan_in_workers(read._replace(lines=read.lines.where("ordinal = 0")), *others)

    monkeypatch.setattr(on_spark, "plan_in_workers", lose_one)
    with pytest.raises(
        LostTopologiesError, match="the input has 2 topologies, but 1 are planned and 0 rejected"
    ):
        plan_on_spark(
            [sound("a"), sound("b")], PlanOptions(Layer.TOPOLOGY), spark=spark, planner=Planner.JOINS
        )


@pytest.mark.parametrize(
    ("planner", "wrong"),
    [(Planner.JOINS, [sound("a", typo=1)]), (Planner.COLUMNAR, [])],
)
def test_no_topologies_have_empty_plans(spark, planner, wrong):
    planned = plan_on_spark(wrong, spark=spark, planner=planner)
    assert (planned.inputs, planned.planned, planned.rejected) == (len(wrong), 0, len(wrong))
    assert set(planned.tables) == set(TABLES) - {"executions", "runs"}, "runs make these, not plans"
    for name, rows in planned.tables.items():
        assert rows.columns == TABLES[name].names
        assert rows.count() == (len(wrong) if name == "rejected" else 0)
    planned.release()


def test_until_stops_behind_its_layer_and_release_gives_all_storage_back(spark):

    def stored() -> set[int]:
        return set(spark.sparkContext._jsc.getPersistentRDDs())

    before = stored()
    topologies = [sound("a"), sound("b", typo=1)]
    planned = plan_on_spark(
        topologies, PlanOptions(Layer.STREAM_GRAPH), spark=spark, planner=Planner.COLUMNAR
    )
    expected = ["topologies", "transformations", "rejected", "job_settings", "stream_nodes", "stream_edges"]
    assert sorted(planned.tables) == sorted(expected)
    assert [planned.tables[name].count() for name in expected] == [1, 3, 1, 1, 3, 2]
    assert not any("vert" in name or "walk" in name for name in planned.seconds)
    assert stored() - before
    planned.release()
    assert not stored() - before
