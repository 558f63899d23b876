"""Optional keys of stream graphs: what they change, what is refused, and that export keeps them."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.errors import LostTopologiesError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.job_graph.order_depth_first import order_depth_first
from penstock.plans.job_graph.stream_graph_arrays import GraphEdges, stream_graph_arrays
from penstock.plans.job_graph.uid_hashes import UidHashes
from penstock.plans.layers import PlanOptions
from penstock.plans.plan_json.to_plan_lines import (
    to_execution_plan_lines,
    to_flink_plan_lines,
    to_plan_lines,
)
from penstock.plans.plan_json.to_topology_lines import to_topology_lines
from penstock.plans.topology.validate_topology import validate_topology
from penstock.plans.vocabulary import Layer
from tests.planned_lines import differs
from tests.plans.topology.builders import stream_graph
from tests.plans.topology.changed_graphs import (
    BASE,
    BY_FIELDS,
    COMPARED,
    DYNAMIC,
    FIRST_EDGE,
    changed,
    forked_graph,
)
from tests.reference.planner import plan

HERE = Path(__file__).parent
DATA_SET = "00112233445566778899aabbccddeeff"


def tables_of(*topologies: dict[str, Any], until: Layer = Layer.SLOTS) -> dict[str, Any]:
    planned = plan_in_process(list(topologies), PlanOptions(until))
    assert planned.tables["rejected"].to_pylist() == []
    return {name: from_arrow(table) for name, table in planned.tables.items()}


def data_sets(topology: dict[str, Any]) -> list[tuple[str, str, int]]:
    rows = tables_of(topology)["intermediate_data_sets"].sort("output_index")
    return list(rows.select("data_set_id", "result_partition_type", "consumers").iter_rows())


def cached(*places: int, **settings: Any) -> dict[str, Any]:
    """Two edges by key, of which those at `places` write the cached data set."""
    graph = forked_graph("KeyGroupStreamPartitioner", **settings)
    for place in places:
        graph["stream_graph"]["edges"][place]["persistent_data_set"] = DATA_SET
    return graph


@pytest.mark.parametrize("invokable", ["OneInputStreamTask", "MultipleInputStreamTask", "MyOwnSourceTask"])
def test_walks_start_from_the_sources_of_the_graph_whatever_runs_there(invokable):
    graph = stream_graph()
    graph["stream_graph"]["nodes"][0] |= {"source": False, "invokable": invokable}
    vertices = tables_of(graph)["job_vertices"]
    assert vertices["name"].to_list() == ["n1 -> n2"]
    assert vertices["invokable"].to_list() == [invokable]


def test_operators_that_no_walk_reaches_are_no_plan():
    nothing, none = np.zeros(0, np.int64), np.zeros(0, bool)
    unnamed = UidHashes(np.zeros(2, bool), np.zeros((0, 2), np.uint64))
    edges = GraphEdges(nothing, nothing, nothing, nothing, none, none)
    graph = stream_graph_arrays(np.array([1, 2]), unnamed, np.zeros(2, bool), np.array([True, False]), edges)
    with pytest.raises(LostTopologiesError, match="1 of 2 topologies"):
        order_depth_first(graph)


def test_equal_partitioners_share_a_data_set():
    equal = changed(COMPARED, "edge", "equal_partitioner", FIRST_EDGE)
    assert [consumers for _, _, consumers in data_sets(COMPARED)] == [1, 1]
    assert [consumers for _, _, consumers in data_sets(equal)] == [2]


def test_a_batch_job_of_pyflink_that_shares_data_sets_is_planned_as_flink_does():
    """Three reduces of one keyed stream; what Flink 2.3.0 made of PyFlink's StreamGraph."""
    line = json.loads((HERE / "shared_by_equal_partitioners.json").read_text(encoding="utf-8"))
    layers = ("job_graph", "execution_graph", "slots")
    (found,) = to_plan_lines(tables_of(line["topology"]))["line"]
    expected = {key: line["expected"][key] for key in ("name", *layers)}
    for one in (json.loads(found), plan(line["topology"])):
        assert not differs({key: one[key] for key in expected}, expected)


def test_what_a_cache_keeps_has_its_id_and_is_persistent():
    (own, kept) = data_sets(cached(1))
    assert kept == (DATA_SET, "BLOCKING_PERSISTENT", 1)
    assert own[1:] == ("BLOCKING", 1)


def test_readers_of_one_cache_share_it_if_their_partitioners_are_equal():
    together = changed(cached(0, 1, partitioners_compared=True), "edge", "equal_partitioner", FIRST_EDGE)
    assert data_sets(together) == [(DATA_SET, "BLOCKING_PERSISTENT", 2)]
    one = changed(cached(1, partitioners_compared=True), "edge", "equal_partitioner", FIRST_EDGE)
    assert [kind for _, kind, _ in data_sets(one)] == ["BLOCKING", "BLOCKING_PERSISTENT"]


def sharing_by_accident(partitioner: str, **of_second: Any) -> dict[str, Any]:
    """Two edges by REBALANCE and by `partitioner`, whose ids have one Java hash, as Aa and BB have."""
    text = json.dumps(forked_graph("RebalancePartitioner", global_exchange_mode="ALL_EDGES_PIPELINED"))
    for number, partitioners in ((2, "Aa"), (3, "BB")):
        text = text.replace(f"n1-1_n{number}-{number}_0_FORWARD_0", f"1_2_0_{partitioners}_0")
    graph: dict[str, Any] = json.loads(text)
    second = {"partitioner": partitioner.upper(), "partitioner_class": f"{partitioner}Partitioner"}
    graph["stream_graph"]["edges"][1] |= second | of_second
    return graph


@pytest.mark.parametrize(
    ("partitioner", "of_second", "differs_in"),
    [
        ("Broadcast", {"broadcast": True}, "broadcast type"),
        ("Rescale", {"pointwise": True}, "distribution pattern"),
    ],
)
def test_edges_that_share_a_data_set_by_accident_have_to_be_alike(partitioner, of_second, differs_in):
    graph = sharing_by_accident(partitioner, **of_second)
    (rejected,) = plan_in_process([graph]).tables["rejected"].to_pylist()
    assert rejected["message"] == plan(graph)["message"] == f"Incompatible {differs_in}."


def forward_group() -> dict[str, Any]:
    """1 -> 2 ~> 3 by FORWARD in a dynamic graph, where 3 has no parallelism of its own."""
    graph: dict[str, Any] = deepcopy(DYNAMIC)
    nodes, edges = graph["stream_graph"]["nodes"], graph["stream_graph"]["edges"]
    edges[1] |= {"partitioner": "FORWARD", "partitioner_class": "ForwardPartitioner", "pointwise": True}
    for node in nodes[:2]:
        node |= {"parallelism": 1, "parallelism_configured": True, "max_parallelism": 1}
    nodes[2] |= {"chaining": "NEVER", "parallelism": 1}
    return graph


def test_a_forward_group_has_the_parallelism_of_any_of_its_vertices():
    vertices = tables_of(forward_group())["job_vertices"]
    assert sorted(vertices.select("name", "parallelism", "max_parallelism").iter_rows()) == [
        ("n1 -> n2", 1, 1),
        ("n3", 1, 1),
    ]


@pytest.mark.parametrize(
    "graph",
    [
        cached(1),
        cached(0, 1),
        changed(COMPARED, "edge", "equal_partitioner", FIRST_EDGE),
        sharing_by_accident("Rebalance"),
        forward_group(),
    ],
)
def test_the_reference_planner_agrees(graph):
    (line,) = to_plan_lines(tables_of(graph))["line"]
    assert not differs(json.loads(line), plan(graph))


def test_a_streaming_job_keeps_no_data_set():
    graph = cached(1, global_exchange_mode="ALL_EDGES_PIPELINED")
    assert [kind for _, kind, _ in data_sets(graph)] == ["PIPELINED_BOUNDED"] * 2


DESCRIBED = stream_graph()
DESCRIBED["stream_graph"]["nodes"][0] |= {
    "description": "Reads <lines>",
    "keyed": False,
    "operator_class": "org.example.Reader",
    "function_class": "org.example.Read$$Lambda",
    "output_type": "Row(line: String)",
}
DESCRIBED["stream_graph"] |= {
    "slot_sharing_group_resources": {
        "default": {"cpu_cores": 1.5, "task_heap_memory_bytes": 1, "external_resources": {"gpu": 2}}
    }
}
DESCRIBED["config"] = {"penstock.capture.command": "flink run job.jar", "penstock.capture.job-number": "1"}


@pytest.mark.parametrize(
    "graph",
    [
        DESCRIBED,
        cached(0, 1),
        changed(COMPARED, "edge", "equal_partitioner", FIRST_EDGE),
    ],
)
def test_export_keeps_what_is_known(graph):
    tables = tables_of(graph)
    (line,) = to_topology_lines(tables)["line"]
    known, given = json.loads(line)["stream_graph"], graph["stream_graph"]
    for part, key in (("nodes", "id"), ("edges", "edge_id")):
        found = {one[key]: one for one in known[part]}
        derived = ("inter_inputs_keys_correlated", "intra_input_key_correlated", "chainable")
        for one in given[part]:
            assert {k: v for k, v in found[one[key]].items() if k not in derived} == {
                k: v for k, v in one.items() if k not in derived
            }
    assert {k: v for k, v in known.items() if k not in ("nodes", "edges")} == {
        k: v for k, v in given.items() if k not in ("nodes", "edges")
    }


def test_views_show_descriptions():
    tables = tables_of(DESCRIBED)
    (flink_plan,) = to_flink_plan_lines(tables)["line"]
    (vertex,) = json.loads(flink_plan)["flink_plan"]["nodes"]
    assert vertex["description"] == "Reads &lt;lines&gt;<br/>+- n2<br/>"
    (execution_plan,) = to_execution_plan_lines(tables)["line"]
    shown = [
        (node["type"], node["contents"]) for node in json.loads(execution_plan)["execution_plan"]["nodes"]
    ]
    assert shown == [("n1", "Reads <lines>"), ("n2", "n2")]


def test_how_a_topology_was_captured_is_no_part_of_its_fingerprint():
    other = {**DESCRIBED, "config": {"penstock.capture.command": "another"}}
    prints = [tables_of(one)["topologies"]["fingerprint"].to_list() for one in (DESCRIBED, other)]
    assert prints[0] == prints[1]


@pytest.mark.parametrize(
    ("graph", "error", "found"),
    [
        (changed(COMPARED, "edge", "equal_partitioner", "other"), "EdgeListMismatch", "which no edge has"),
        (changed(COMPARED, "edge", "equal_partitioner", FIRST_EDGE, 0), "EdgeListMismatch", "not before it"),
        (
            changed(forked_graph("RebalancePartitioner"), "edge", "equal_partitioner", FIRST_EDGE),
            "KeyNotAllowed",
            "without partitioners_compared",
        ),
        (changed(cached(), "edge", "persistent_data_set", "0F" * 16), "OutOfRange", "persistent_data_set"),
        (changed(cached(), "edge", "persistent_data_set", None), "WrongType", "persistent_data_set"),
        (changed(cached(), "node", "keyed", "yes"), "WrongType", "keyed"),
        (changed(cached(), "node", "operator_class", ""), "OutOfRange", "operator_class"),
        (changed(cached(), "node", "output_type", ""), "OutOfRange", "output_type"),
        (changed(cached(), "node", "output_type", 7), "WrongType", "output_type"),
        (changed(cached(), "node", "consumes_data_set", DATA_SET), "KeyNotAllowed", "with input edges"),
        (changed(BASE, "edge", "partitioner", "OTHER"), "UnknownValue", "partitioner 'OTHER'"),
        (changed(BY_FIELDS, "edge", "partitioner", "OTHER"), "UnknownValue", "partitioner 'OTHER'"),
        (changed(BASE, "edge", "partitioner_class", "Own", 0), "UnknownValue", "partitioner_class 'Own'"),
        (
            changed(cached(), "setting", "slot_sharing_group_resources", {"a": {"cpu_cores": 1}}),
            "MissingKey",
            "no task_heap_memory_bytes",
        ),
        (changed(cached(), "node", "describtion", "x"), "UnknownKey", "key 'describtion'"),
    ],
)
def test_wrong_values_are_refused(graph, error, found):
    (one,) = validate_topology(graph)
    assert (str(one.error), found in one.found) == (error, True), one
