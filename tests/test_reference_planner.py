"""The reference planner against plans made by the real Flink 2.3.0 (tests/golden), and on its own."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from tests.reference.canonical_plan import canonical_plan
from tests.reference.hashes import data_set_id, java_string_hash, uid_hash
from tests.reference.planner import plan
from tests.reference.random_topologies import MODES, random_topology, topologies

GOLDEN = Path(__file__).parent / "golden"
FILES = sorted(path.name for path in GOLDEN.glob("*.jsonl.gz") if path.name != "settings.jsonl.gz")
"""The reference planner reads no settings that are wrong."""


def golden_lines(file: str) -> Iterator[dict[str, Any]]:
    with gzip.open(GOLDEN / file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def chain(kind: str, length: int, **options: Any) -> dict[str, Any]:
    """A source, `length` transformations of one kind in a row, a sink."""
    last = length + 2
    middle = [{"id": i, "kind": kind, "inputs": [i - 1], **options} for i in range(2, last)]
    ends = ({"id": 1, "kind": "source", "name": "s"}, {"id": last, "kind": "sink", "inputs": [last - 1]})
    return {
        "name": "chain",
        "parallelism": 2,
        "transformations": [ends[0], *middle, {**ends[1], "name": "k"}],
    }


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES)
def test_plans_are_flinks(file: str) -> None:
    differing = []
    for line in golden_lines(file):
        expected = line["expected"]
        if canonical_plan(plan(line["topology"]), expected) != canonical_plan(expected):
            differing.append(expected["name"])
    assert differing == []


def test_golden_data_is_a_good_share() -> None:
    assert len(FILES) == 11
    expected = [line["expected"] for file in FILES for line in golden_lines(file)]
    assert len(expected) > 600
    assert len(Counter(e["message"][:40] for e in expected if "error" in e)) > 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("one_input", {"name": "m"}),
        ("async", {"name": "a"}),
        ("one_input", {"name": "n", "chaining": "NEVER"}),
        ("partition", {"partitioner": "rebalance"}),
        ("side_output", {"tag": "t"}),
    ],
)
def test_long_chains_need_no_recursion(kind: str, options: dict[str, Any]) -> None:
    planned = plan(chain(kind, 20_000, **options))
    operators = [o for v in planned["job_graph"]["vertices"] for o in v["operators"]]
    assert len(operators) == len(planned["stream_graph"]["nodes"])


def test_select_nearest_to_the_consumer_wins_and_changes_no_edge_id() -> None:
    def topology(kind: str, *options: dict[str, Any]) -> dict[str, Any]:
        return {
            "name": "select",
            "transformations": [
                {"id": 1, "kind": "source", "name": "s"},
                {"id": 2, "kind": kind, "inputs": [1], **options[0]},
                {"id": 3, "kind": kind, "inputs": [2], **options[1]},
                {"id": 4, "kind": "sink", "name": "k", "inputs": [3]},
            ],
        }

    selected = plan(topology("select", {"names": ["far"]}, {"names": ["near", "too"]}))
    (edge,) = selected["stream_graph"]["edges"]
    assert edge["selected_names"] == ["near", "too"]
    unioned = plan(topology("union", {}, {}))
    assert canonical_plan(selected) == canonical_plan(unioned)


def test_hashes_are_javas_and_guavas() -> None:
    assert java_string_hash("") == 0
    assert java_string_hash("hello world") == 1794106052
    assert java_string_hash("polygenelubricants") == -(2**31)
    assert java_string_hash("😀") == 0xD83D * 31 + 0xDE00
    assert uid_hash("").hex() == "0" * 32
    assert uid_hash("\ud800") == uid_hash("?")
    vertex = bytes.fromhex("000000000000000100000000000000ff")
    assert data_set_id(vertex, "\x01").hex() == "00000000000001000000000000000002"
    assert data_set_id(vertex, "polygenelubricants").hex() == "ffffffff800000ffffffffff80000001"


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_random_topologies_are_deterministic_and_various(mode: str) -> None:
    made = [random_topology(seed, 30, mode=mode) for seed in range(150)]
    assert made == [random_topology(seed, 30, mode=mode) for seed in range(150)]
    transformations = [t for topology in made for t in topology["transformations"]]
    kinds = {t["kind"] for t in transformations}
    always = {"source", "one_input", "async", "two_input", "multi_input", "sink"}
    assert always | {"union", "partition", "side_output"} == kinds - {"legacy_source"}
    assert ("legacy_source" in kinds) == (mode in ("streaming", "mixed"))
    assert len({t["partitioner"] for t in transformations if "partitioner" in t}) == 8
    assert all(i < t["id"] for t in transformations for i in t.get("inputs", ()))
    refused = sum("error" in plan(topology) for topology in made)
    assert 0 < refused < 75


@given(topologies())
@settings(max_examples=200, deadline=None, derandomize=True)
def test_every_plan_holds_together(topology: dict[str, Any]) -> None:
    planned = plan(topology)
    if "error" in planned:
        assert planned["error_stage"] in ("stream_graph", "job_graph", "execution_graph")
        return
    vertices = {v["id"]: v for v in planned["job_graph"]["vertices"]}
    nodes = [o["node"] for v in vertices.values() for o in v["operators"]]
    assert sorted(nodes) == [n["id"] for n in planned["stream_graph"]["nodes"]]
    place = {v: i for i, v in enumerate(planned["job_graph"]["topological_order"])}
    assert place.keys() == vertices.keys()
    assert all(place[i["source"]] < place[v] for v in vertices for i in vertices[v]["inputs"])
    consumers = sum(o["consumers"] for v in vertices.values() for o in v["outputs"])
    assert consumers == sum(len(v["inputs"]) for v in vertices.values())
    tasks = {
        f"{v['id']}_{i}" for v in planned["execution_graph"]["vertices"] for i in range(v["parallelism"])
    }
    assert Counter(" ".join(planned["slots"]).split()) == Counter(tasks)
