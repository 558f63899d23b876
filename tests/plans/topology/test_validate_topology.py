"""One test a kind of error, through the pure function, and that both speeds of validation agree."""

import copy
import gzip
import json
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.errors import TopologyError
from penstock.plans.layers import PlanOptions
from penstock.plans.topology.json_documents import duplicate_keys
from penstock.plans.topology.operator_rules import DETAILS as DETAIL_RULES
from penstock.plans.topology.parse_lines import refuse_uid_hashes
from penstock.plans.topology.validate_topology import parse_topology, validate_topology
from penstock.plans.topology.validate_transformations import (
    find_cycle,
    transformations_hold,
    validate_transformations,
)
from penstock.plans.vocabulary import Layer
from tests.plans.topology.builders import (
    golden_files,
    simple,
    stream_edge,
    stream_graph,
    stream_node,
    transformation,
)


def errors_of(topology: dict[str, Any]) -> list[tuple[str, str]]:
    return [(str(e.error), e.location) for e in validate_topology(topology)]


def with_map(**keys: Any) -> dict[str, Any]:
    """`simple` with keys on the map; None takes a key away."""
    topology = simple()
    entry = topology["transformations"][1]
    entry.update(keys)
    topology["transformations"][1] = {k: v for k, v in entry.items() if v is not None}
    return topology


def with_third(**keys: Any) -> dict[str, Any]:
    topology = simple()
    topology["transformations"][2] = {"id": 3, **keys}
    return topology


def test_right_topologies_have_no_errors():
    assert validate_topology(simple()) == []
    assert validate_topology(stream_graph()) == []
    every_key = with_map(
        parallelism=2, max_parallelism=32768, uid="u", uid_hash="0123456789abcdefABCDEF0123456789",
        slot_sharing_group="g", co_location_group="c", buffer_timeout=-1, chaining="HEAD",
        managed_memory={"OPERATOR": 3}, slot_scope=["PYTHON", "STATE_BACKEND"],
        min_resources={"cpu_cores": 1, "task_heap_memory_bytes": 5},
        preferred_resources={"cpu_cores": 1.5, "task_heap_memory_bytes": 5, "managed_memory_bytes": 1},
    )  # fmt: skip
    assert validate_topology(every_key) == []


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (simple(paralelism=2), ("UnknownKey", "topology")),
        (with_map(uidd="x"), ("UnknownKey", "transformation 2")),
        (with_map(inputs=[7]), ("DanglingInput", "transformation 2")),
        (with_map(inputs=[3]), ("ForwardInput", "transformation 2")),
        (with_map(inputs=[2]), ("Cycle", "transformation 2")),
        (with_map(id=1), ("DuplicateId", "transformation 1 at position 2")),
        (with_map(id=5), ("IdOutOfOrder", "transformation 5")),
        (with_map(kind="one_inputs"), ("UnknownKind", "transformation 2")),
        (with_map(chaining="SOMETIMES"), ("UnknownValue", "transformation 2")),
        (with_map(managed_memory={"PYTHON": 1}), ("UnknownValue", "transformation 2")),
        (with_map(managed_memory={"OPERATOR": 0}), ("OutOfRange", "transformation 2")),
        (with_map(slot_scope=["OPERATOR"]), ("UnknownValue", "transformation 2")),
        (with_map(parallelism=True), ("WrongType", "transformation 2")),
        (with_map(parallelism="4"), ("WrongType", "transformation 2")),
        (with_map(parallelism=4.0), ("WrongType", "transformation 2")),
        (with_map(uid=7), ("WrongType", "transformation 2")),
        (with_map(inputs="1"), ("WrongType", "transformation 2")),
        (with_map(inputs=[True]), ("WrongType", "transformation 2")),
        (with_map(parallelism=0), ("OutOfRange", "transformation 2")),
        (with_map(parallelism=2**31), ("OutOfRange", "transformation 2")),
        (with_map(max_parallelism=32769), ("OutOfRange", "transformation 2")),
        (with_map(buffer_timeout=-2), ("OutOfRange", "transformation 2")),
        (with_map(uid_hash="0123456789abcdef0123456789abcde"), ("OutOfRange", "transformation 2")),
        (with_map(uid_hash="g" * 32), ("OutOfRange", "transformation 2")),
        (with_map(inputs=[1, 1]), ("WrongNumberOfInputs", "transformation 2")),
        (with_map(inputs=None), ("MissingKey", "transformation 2")),
        (with_map(kind=None), ("MissingKey", "transformation 2")),
        (with_map(tag="late"), ("KeyNotAllowed", "transformation 2")),
        (with_map(partitioner="hash"), ("KeyNotAllowed", "transformation 2")),
        (
            with_map(min_resources={"cpu_cores": 1, "task_heap_memory_bytes": 0}),
            ("MissingKey", "transformation 2"),
        ),
        (
            with_map(
                min_resources={"cpu_cores": 2, "task_heap_memory_bytes": 0},
                preferred_resources={"cpu_cores": 1, "task_heap_memory_bytes": 0},
            ),
            ("OutOfRange", "transformation 2"),
        ),
        (with_third(kind="source", inputs=[1]), ("WrongNumberOfInputs", "transformation 3")),
        (with_third(kind="two_input", inputs=[1]), ("WrongNumberOfInputs", "transformation 3")),
        (with_third(kind="union", inputs=[]), ("WrongNumberOfInputs", "transformation 3")),
        (with_third(kind="union", inputs=[1], uid="u"), ("KeyNotAllowed", "transformation 3")),
        (with_third(kind="partition", inputs=[1]), ("MissingKey", "transformation 3")),
        (with_third(kind="partition", inputs=[1], partitioner="HASH"), ("UnknownValue", "transformation 3")),
        (
            with_third(kind="partition", inputs=[1], partitioner="hash", exchange_mode="batch"),
            ("UnknownValue", "transformation 3"),
        ),
        (with_third(kind="side_output", inputs=[1]), ("MissingKey", "transformation 3")),
        (with_third(kind="side_output", inputs=[1], tag=""), ("OutOfRange", "transformation 3")),
        (with_third(kind="select", inputs=[1]), ("MissingKey", "transformation 3")),
        (with_third(kind="select", inputs=[1], names=[1]), ("WrongType", "transformation 3")),
        ({"name": "x", "transformations": []}, ("EmptyTopology", "topology")),
        ({"name": "x", "transformations": [1]}, ("NotAnObject", "transformation at position 1")),
        ({"name": "x", "transformations": {}}, ("WrongType", "topology")),
        ({"name": "x"}, ("MissingKey", "topology")),
        ({"transformations": simple()["transformations"]}, ("MissingKey", "topology")),
        (simple(name=3), ("WrongType", "topology")),
        (simple(name=""), ("OutOfRange", "topology")),
        (simple(parallelism=0), ("OutOfRange", "topology")),
        (simple(max_parallelism=0), ("OutOfRange", "topology")),
        (simple(chaining="false"), ("WrongType", "topology")),
        (simple(config={"a": 1}), ("WrongType", "topology")),
        (simple(config=[]), ("WrongType", "topology")),
        (
            simple(parallelism=0, config={"execution.runtime-mode": "FOO"}),
            ("InvalidOptionValue", "config execution.runtime-mode"),
        ),
        (stream_graph(transformations=simple()["transformations"]), ("KeyNotAllowed", "topology")),
        (stream_graph(chaining=True), ("KeyNotAllowed", "topology")),
    ],
)
def test_each_error_is_named_and_located(topology: dict[str, Any], expected: tuple[str, str]):
    assert expected in errors_of(topology)


def graph_with(**keys: Any) -> dict[str, Any]:
    topology = stream_graph()
    topology["stream_graph"].update(keys)
    topology["stream_graph"] = {k: v for k, v in topology["stream_graph"].items() if v is not None}
    return topology


def cyclic_graph() -> dict[str, Any]:
    edges = [stream_edge(1, 2), stream_edge(2, 3), stream_edge(3, 2)]
    nodes = [
        stream_node(
            i,
            in_edges=[e["edge_id"] for e in edges if e["target"] == i],
            out_edges=[e["edge_id"] for e in edges if e["source"] == i],
        )
        for i in (1, 2, 3)
    ]
    return graph_with(nodes=nodes, edges=edges)


EDGE = stream_edge(1, 2)["edge_id"]


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (graph_with(job_type=None), ("MissingKey", "stream_graph")),
        (graph_with(job_typ="BATCH"), ("UnknownKey", "stream_graph")),
        (graph_with(job_type="MIXED"), ("UnknownValue", "stream_graph")),
        (graph_with(dynamic=0), ("WrongType", "stream_graph")),
        (graph_with(nodes=[]), ("EmptyTopology", "stream_graph")),
        (graph_with(edges=[stream_edge(1, 9)]), ("DanglingEdge", f"edge {stream_edge(1, 9)['edge_id']!r}")),
        (graph_with(sources=[9]), ("DanglingEdge", "stream_graph, sources")),
        (graph_with(sinks=[9]), ("DanglingEdge", "stream_graph, sinks")),
        (graph_with(sources=[1, 2]), ("DanglingEdge", "node 2")),
        (graph_with(edges=[]), ("EdgeListMismatch", "node 1")),
        (graph_with(nodes=[stream_node(1), stream_node(2, in_edges=[EDGE])]), ("EdgeListMismatch", "node 1")),
        (graph_with(edges=[stream_edge(1, 2), stream_edge(1, 2)]), ("DuplicateEdge", f"edge {EDGE!r}")),
        (graph_with(nodes=[stream_node(1), stream_node(1)]), ("DuplicateId", "node 1")),
        (graph_with(nodes=[stream_node(1, chaining="X"), stream_node(2)]), ("UnknownValue", "node 1")),
        (graph_with(nodes=[stream_node(1, colour="red"), stream_node(2)]), ("UnknownKey", "node 1")),
        (graph_with(nodes=[stream_node(1, parallelism=0), stream_node(2)]), ("OutOfRange", "node 1")),
        (
            graph_with(nodes=[stream_node(1, input_requirements={"x": "SORTED"}), stream_node(2)]),
            ("OutOfRange", "node 1"),
        ),
        (graph_with(edges=[stream_edge(1, 2, exchange_mode="X")]), ("UnknownValue", f"edge {EDGE!r}")),
        (graph_with(edges=[stream_edge(1, 2, edge_id="no-number")]), ("OutOfRange", "edge 'no-number'")),
        (graph_with(edges=["x"]), ("NotAnObject", "edge at position 1")),
        (cyclic_graph(), ("Cycle", "node 2")),
        (graph_with(checkpointing=True), ("MissingKey", "stream_graph")),
    ],
)
def test_each_error_of_a_stream_graph_is_named_and_located(
    topology: dict[str, Any], expected: tuple[str, str]
):
    assert expected in errors_of(topology)


DATA_SET = "0123456789abcdef" * 2
DETAILS = {"keyed": [True], "node_id": 9, "description": "d", "operator_factory": "F", "output_type": "Long"}


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (with_map(keyed=[True, False]), ("OutOfRange", "transformation 2")),
        (with_map(keyed=[1]), ("WrongType", "transformation 2")),
        (with_map(node_id=1), ("DuplicateId", "transformation 2")),
        (with_map(node_id=0), ("OutOfRange", "transformation 2")),
        (with_map(slot_resources={"cpu_cores": 1}), ("MissingKey", "transformation 2, slot_resources")),
        (with_map(bounded=True), ("KeyNotAllowed", "transformation 2")),
        (with_third(kind="cache", inputs=[2]), ("MissingKey", "transformation 3")),
        (with_third(kind="cache", inputs=[2], data_set="x"), ("OutOfRange", "transformation 3")),
        (
            with_third(kind="cache_read", inputs=[2], data_set=DATA_SET),
            ("WrongNumberOfInputs", "transformation 3"),
        ),
        (with_third(kind="sink", inputs=[2], writer={}, keyed=[True]), ("KeyNotAllowed", "transformation 3")),
        (
            with_third(kind="sink", inputs=[2], writer={"node_id": 3}),
            ("UnknownKey", "transformation 3, writer"),
        ),
    ],
)
def test_keys_that_few_transformations_have(topology: dict[str, Any], expected: tuple[str, str]):
    """In files and in tables, where they are JSON in one column."""
    assert expected in errors_of(topology)
    assert errors_of(with_map(**DETAILS)) == []
    given = plan_in_process([with_map(**DETAILS)], PlanOptions(Layer.TOPOLOGY)).tables
    wrong = {
        key: value for row in topology["transformations"] for key, value in row.items() if key in DETAIL_RULES
    }
    rows = given["transformations"].to_pylist()
    rows[1]["details"] = json.dumps(wrong)
    transformations = pa.Table.from_pylist(rows, given["transformations"].schema)
    planned = plan_in_process((given["topologies"], transformations)).tables
    of_table = [row["error"] for row in planned["rejected"].to_pylist()]
    of_file = [kind for kind, _ in errors_of(with_map(**wrong))]
    assert of_table == of_file[:1]


def test_all_errors_are_reported_together():
    topology = with_map(parallelism=0, uidd="x", inputs=[9])
    topology["transformations"][2]["chaining"] = "NEVERR"
    topology["surplus"] = 1
    found = [kind for kind, _ in errors_of(topology)]
    assert sorted(found) == ["DanglingInput", "OutOfRange", "UnknownKey", "UnknownKey", "UnknownValue"]


def test_hints_suggest_what_was_meant():
    (error,) = validate_topology(with_map(slot_sharing_grup="g"))
    assert error.hint == "did you mean slot_sharing_group?"
    (error,) = validate_topology(with_map(chaining="never"))
    assert error.hint == "did you mean NEVER?"
    (error,) = validate_topology(simple(config={"execution.checkpointing.unaligned": True}))
    assert error.hint == 'write "true"'
    (error,) = validate_topology(with_third(kind="sink", inputs=[2], tag="t"))
    assert error.hint == "tag belongs on side_output"


def test_mutual_forward_inputs_are_a_cycle():
    topology = simple()
    topology["transformations"][1]["inputs"] = [3]
    assert errors_of(topology) == [("ForwardInput", "transformation 2"), ("Cycle", "transformation 2")]


@pytest.mark.parametrize("line", [b"{", b"", b'{"name": "\xff"}', b"{} {}", b"\x1f\x8b\x08"])
def test_a_line_that_is_not_json(line: bytes):
    found = parse_topology(line)
    assert isinstance(found, TopologyError)
    assert found.error == "NotJson"


@pytest.mark.parametrize("line", [b"[]", b"1", b'"x"', b"null"])
def test_a_line_that_is_no_object(line: bytes):
    found = parse_topology(line)
    assert isinstance(found, TopologyError)
    assert found.error == "NotAnObject"


def test_flink_refuses_the_first_wrong_uid_hash():
    topology = with_map(uid_hash="g" * 32)
    topology["transformations"][0]["uid_hash"] = "0a" * 16
    refusal = refuse_uid_hashes(topology, validate_topology(topology))
    assert refusal is not None
    assert str(refusal).endswith("Found: " + "g" * 32)
    assert refuse_uid_hashes(with_map(uid_hash="0a" * 16), []) is None


@pytest.mark.slow
def test_find_cycle_needs_no_recursion():
    n = 200_000
    chain = {i: [i - 1] for i in range(1, n)} | {0: []}
    assert find_cycle(chain) == []
    assert len(find_cycle(chain | {0: [n - 1]})) == n


def test_golden_topologies_are_right():
    files = golden_files()
    assert files
    for path in files:
        with gzip.open(path) as lines:
            for line in map(json.loads, lines):
                refused_first = line["expected"].get("message", "").startswith("Node hash must be")
                assert refused_first or validate_topology(line["topology"]) == []


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, 2, 3, -1, 2.5, "", "hash", "late", "NEVER", [], [1], [2, 1], [3], {}, "x"]
)
KEYS = st.sampled_from(
    ["id", "kind", "inputs", "name", "parallelism", "uid_hash", "chaining", "partitioner", "tag", "names",
     "zzz",
     "managed_memory", "slot_scope", "min_resources", "preferred_resources", "exchange_mode"]
)  # fmt: skip
KINDS = st.sampled_from(
    ["source", "sink", "one_input", "two_input", "union", "partition", "side_output", "select"]
)


@given(st.lists(st.tuples(st.integers(0, 2), KEYS, VALUES), max_size=2), KINDS)
@settings(max_examples=400, deadline=None)
def test_the_quick_test_and_the_explanation_agree(changes: list[tuple[int, str, Any]], kind: str):
    transformations = copy.deepcopy(simple()["transformations"])
    transformations[1]["kind"] = kind
    for position, key, value in changes:
        transformations[position][key] = value
    assert transformations_hold(transformations) == (validate_transformations(transformations) == [])


def test_the_empty_and_the_odd_are_refused():
    assert not transformations_hold([])
    assert not transformations_hold([transformation(1, "source"), "x"])


def test_keys_with_an_escaped_colon_are_looked_at():
    """Colons are counted in the text and in what was parsed, and there the repeated key is gone."""
    text = rb'{"name":"a","x\u003a":1,"x\u003a":2}'
    assert len(duplicate_keys(text, orjson.loads(text))) == 1
