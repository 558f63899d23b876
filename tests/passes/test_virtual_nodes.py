"""expand_virtual_nodes and resolve_virtual_nodes."""

import pytest
from pyspark.sql import DataFrame

from plans.stream_graph.joins import expand_virtual_nodes
from plans.stream_graph.joins.resolve_virtual_nodes import resolve_virtual_nodes
from tests.passes.frames import Make, assert_rows, fixed_point

LABELS = "partition partitioner exchange_mode output_tag selected_names"
DEEP, NESTED, LABELLED = 1, 2, 3
EXPANSIONS = (
    "topology_id BIGINT, node INT, path ARRAY<INT>, input INT, open BOOLEAN, partition INT, "
    "partitioner STRING, exchange_mode STRING, output_tag STRING, selected_names ARRAY<STRING>"
)


@pytest.fixture(scope="module")
def expanded(make: Make) -> tuple[DataFrame, int]:
    deep = [{"id": 1, "kind": "source"}] + [
        {
            "id": i,
            "kind": "partition",
            "inputs": [i - 1],
            "partitioner": "hash" if i == 41 else "shuffle",
            "exchange_mode": "PIPELINED" if i == 2 else "BATCH",
        }
        for i in range(2, 42)
    ]
    nested = [
        *({"id": i, "kind": "source"} for i in (1, 2, 3)),
        {"id": 4, "kind": "union", "inputs": [1, 2]},
        {"id": 5, "kind": "union", "inputs": [4, 3]},
        {"id": 6, "kind": "partition", "inputs": [5], "partitioner": "rescale"},
        {"id": 7, "kind": "union", "inputs": [6, 1, 4]},
    ]
    labelled = [
        {"id": 1, "kind": "source"},
        {"id": 2, "kind": "side_output", "inputs": [1], "tag": "far"},
        {"id": 3, "kind": "select", "inputs": [2], "names": ["far"]},
        {"id": 4, "kind": "partition", "inputs": [3], "partitioner": "global", "exchange_mode": "BATCH"},
        {"id": 5, "kind": "select", "inputs": [4], "names": ["near", "too"]},
        {"id": 6, "kind": "side_output", "inputs": [5], "tag": "near"},
        {"id": 7, "kind": "partition", "inputs": [6], "partitioner": "forward"},
    ]
    topologies = {DEEP: deep, NESTED: nested, LABELLED: labelled}
    rows = [row | {"topology_id": key} for key, topology in topologies.items() for row in topology]
    return fixed_point(expand_virtual_nodes.start(make("transformations", rows)), expand_virtual_nodes.step)


def test_a_chain_of_40_is_expanded_by_doubling(expanded):
    rows, rounds = expanded
    assert rounds <= 6
    deep = rows.filter(f"topology_id = {DEEP}")
    assert deep.filter("input = 1 AND path = array()").count() == deep.count() == 40
    assert_rows(deep.filter("node = 41"), f"input {LABELS}", [(1, 41, "hash", "PIPELINED", None, None)])


def test_nested_unions_keep_every_input_in_order(expanded):
    nested = expanded[0].filter(f"topology_id = {NESTED}")
    four = [(4, [0], 1, None), (4, [1], 2, None)]
    five = [(5, [0, 0], 1, None), (5, [0, 1], 2, None), (5, [1], 3, None)]
    six = [(6, path, source, 6) for _, path, source, _ in five]
    seven = [
        *((7, [0, *path], source, 6) for _, path, source, _ in five),
        (7, [1], 1, None),
        *((7, [2, *path], source, None) for _, path, source, _ in four),
    ]
    assert_rows(nested, "node path input partition", [*four, *five, *six, *seven])


def test_labels_nearest_to_the_consumer_win_but_the_farthest_exchange_mode(expanded):
    """Flink 1.11's select among them: one further downstream overrides an earlier one."""
    labelled = expanded[0].filter(f"topology_id = {LABELLED}")
    far, near = ["far"], ["near", "too"]
    assert_rows(
        labelled,
        f"node {LABELS}",
        [
            (2, None, None, None, "far", None),
            (3, None, None, None, "far", far),
            (4, 4, "global", "BATCH", "far", far),
            (5, 4, "global", "BATCH", "far", near),
            (6, 4, "global", "BATCH", "near", near),
            (7, 7, "forward", "BATCH", "near", near),
        ],
    )


@pytest.fixture(scope="module")
def resolved(make: Make) -> DataFrame:
    """1 and 2 into a two-input operator through union(1, 2, 1) and beside it, 1 keyed into a map."""
    transformations = make(
        "transformations",
        [
            {"id": 1, "kind": "source"},
            {"id": 2, "kind": "source"},
            {"id": 3, "kind": "union", "inputs": [1, 2, 1]},
            {"id": 4, "kind": "two_input", "inputs": [3, 2]},
            {"id": 5, "kind": "partition", "inputs": [1], "partitioner": "hash"},
            {"id": 6, "kind": "one_input", "inputs": [5]},
            {"id": 7, "kind": "side_output", "inputs": [5], "tag": "late"},
            {"id": 8, "kind": "one_input", "inputs": [7]},
            {"id": 9, "kind": "sink", "inputs": [4]},
        ],
    )
    hashed = {"input": 1, "partition": 5, "partitioner": "hash", "exchange_mode": "UNDEFINED", "path": []}
    expansions = make(
        EXPANSIONS,
        [
            {"node": 3, "path": [0], "input": 1},
            {"node": 3, "path": [2], "input": 1},
            {"node": 3, "path": [1], "input": 2},
            {"node": 5, **hashed},
            {"node": 7, **hashed, "output_tag": "late"},
        ],
        open=False,
    )
    return resolve_virtual_nodes(transformations, expansions).localCheckpoint()


def test_edges_are_ordered_as_flink_adds_them(resolved):
    assert_rows(
        resolved,
        "target in_index source type_number out_index unique_id",
        [
            (4, 0, 1, 1, 0, 0),
            (4, 1, 2, 1, 0, 0),
            (4, 2, 1, 1, 1, 1),
            (4, 3, 2, 2, 1, 1),
            (6, 0, 1, 0, 2, 0),
            (8, 0, 1, 0, 3, 0),
            (9, 0, 4, 0, 0, 0),
        ],
    )


def test_edges_have_the_degrees_of_their_ends(resolved):
    assert_rows(
        resolved,
        "target in_index in_degree input_degree out_degree",
        [
            *((4, i, 4, 3, out) for i, out in ((0, 4), (1, 2), (2, 4))),
            (4, 3, 4, 1, 2),
            (6, 0, 1, 1, 4),
            (8, 0, 1, 1, 4),
            (9, 0, 1, 1, 1),
        ],
    )


def test_only_a_one_input_operator_right_behind_hash_is_keyed(resolved):
    assert_rows(resolved.filter("keyed"), "target partitioner output_tag", [(6, "hash", None)])
    assert_rows(
        resolved.filter("target = 8"), f"{LABELS} keyed", [(5, "hash", "UNDEFINED", "late", None, False)]
    )


def test_a_sink_gives_no_edge(make):
    rows = [
        {"id": 1, "kind": "source"},
        {"id": 2, "kind": "sink", "inputs": [1]},
        {"id": 3, "kind": "two_input", "inputs": [2, 1]},
    ]
    edges = resolve_virtual_nodes(make("transformations", rows), make(EXPANSIONS, []))
    assert_rows(edges, "target in_index source type_number in_degree", [(2, 0, 1, 0, 1), (3, 0, 1, 2, 1)])
