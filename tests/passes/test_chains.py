"""find_chain_heads, assign_operators_to_vertices and create_vertices."""

import pytest

from plans.job_graph.joins.assign_operators_to_vertices import assign_operators_to_vertices
from plans.job_graph.joins.create_vertices import create_vertices
from plans.job_graph.joins.find_chain_heads import find_chain_heads
from plans.job_graph.order_depth_first import FIRST_BRANCH, LATER_BRANCH, NO_BRANCH, ONLY_BRANCH
from tests.passes.frames import MARKED_EDGES, OPERATORS, Make, assert_rows

LONG, LEGACY, FLIP27, SPLIT = 1, 2, 3, 4


@pytest.fixture(scope="module")
def chains(make: Make):
    def edge(topology, source, target, reasons=0, **keys):
        ends = {"source_legacy_source": False, "target_yielding": False, "chained_source": False}
        return {"topology_id": topology, "source": source, "target": target, "reasons": reasons} | ends | keys

    yields = {"target_yielding": True}
    rows = [
        *(edge(LONG, i, i + 1, reasons=int(i == 20)) for i in range(1, 51)),
        edge(LEGACY, 1, 2, source_legacy_source=True),
        edge(LEGACY, 2, 3, **yields),
        edge(LEGACY, 3, 4),
        edge(LEGACY, 4, 5, **yields),
        edge(LEGACY, 2, 6),
        edge(LEGACY, 6, 7, **yields),
        edge(FLIP27, 1, 2),
        edge(FLIP27, 2, 3, **yields),
        edge(SPLIT, 1, 3, chained_source=True),
        edge(SPLIT, 2, 3, reasons=4),
        edge(SPLIT, 3, 4),
        edge(SPLIT, 3, 5),
        edge(SPLIT, 5, 6),
    ]
    return find_chain_heads(make(MARKED_EDGES, rows))


def test_a_chain_of_50_that_is_broken_once_points_at_two_heads(chains):
    first = [(i, 1, i - 1) for i in range(2, 21)]
    second = [(i, 21, i - 21) for i in range(22, 52)]
    assert_rows(chains.filter(f"topology_id = {LONG}"), "node head distance", first + second)


def test_a_chain_behind_a_legacy_source_is_cut_at_its_first_yielding_operator(chains):
    assert_rows(
        chains.filter(f"topology_id = {LEGACY}"),
        "node head distance head_is_legacy_source",
        [(2, 1, 1, True), (6, 1, 2, True), (4, 3, 1, False), (5, 3, 2, False)],
    )


def test_other_chains_are_not_cut_and_chained_sources_point_nowhere(chains):
    others = chains.filter(f"topology_id IN ({FLIP27}, {SPLIT})")
    assert_rows(
        others,
        "topology_id node head distance",
        [(FLIP27, 2, 1, 1), (FLIP27, 3, 1, 2), (SPLIT, 4, 3, 1), (SPLIT, 5, 3, 1), (SPLIT, 6, 3, 2)],
    )


def test_operators_know_their_vertex_and_chain_index(make):
    """1 runs inside the head 2, 3 and 4 are chained to it; 5 is alone."""
    walked = (
        "topology_id BIGINT, node INT, out_index INT, id_lower BIGINT, id_upper BIGINT, preorder INT, "
        "postorder INT, branch INT, closings INT, colliding_uid STRING"
    )
    heads = "topology_id BIGINT, node INT, head INT, distance INT"
    operators = assign_operators_to_vertices(
        make("stream_nodes", [{"id": i, "name": f"n{i}"} for i in range(1, 6)]),
        make("stream_edges", [{"source": 1, "target": 2, "in_index": 7, "chained_source": True}]),
        make(heads, [{"node": 3, "head": 2, "distance": 1}, {"node": 4, "head": 2, "distance": 2}]),
        make(
            walked,
            [
                *({"node": i, "preorder": i - 2, "postorder": i - 2, "id_lower": i} for i in range(1, 6)),
                {"node": 2, "out_index": 0, "id_lower": 99},
                {"colliding_uid": "u"},
            ],
        ),
    )
    assert_rows(
        operators,
        "node name vertex chain_index chained_source_index id_lower",
        [
            (1, "n1", 2, 0, 7, 1),
            *((i, f"n{i}", 2, i - 1, None, i) for i in (2, 3, 4)),
            (5, "n5", 5, 1, None, 5),
        ],
    )


def test_a_vertex_has_the_name_and_the_flags_of_its_chain(make):
    """2 -> (3 -> 4, 5), with the sources 1 and 0 chained into 2; 6 alone."""
    chain = {"vertex": 2}
    vertices = create_vertices(
        make(
            OPERATORS,
            [
                {
                    **chain,
                    "node": 2,
                    "name": "Join",
                    "chain_index": 1,
                    "branch": NO_BRANCH,
                    "invokable": "Task",
                }
                | {"id_lower": 1, "id_upper": -1, "postorder": 8, "parallelism": 3, "max_parallelism": 9}
                | {"slot_sharing_group": "a", "co_location_group": "c"},
                {**chain, "node": 4, "name": "4", "chain_index": 3, "branch": ONLY_BRANCH, "preorder": 4},
                {**chain, "node": 3, "name": "3", "chain_index": 2, "branch": FIRST_BRANCH, "preorder": 3},
                {**chain, "node": 5, "name": "5", "chain_index": 2, "branch": LATER_BRANCH, "preorder": 5}
                | {"closings": 1, "parallelism_configured": True, "output_format": True},
                {**chain, "node": 1, "name": "Source: b", "chain_index": 0, "chained_source_index": 1},
                {**chain, "node": 0, "name": "Source: a", "chain_index": 0, "chained_source_index": 0}
                | {"input_format": True, "supports_concurrent_execution_attempts": False},
                {"vertex": 6, "node": 6, "name": "Alone", "chain_index": 1, "branch": NO_BRANCH},
            ],
            closings=0,
            supports_concurrent_execution_attempts=True,
        )
    ).localCheckpoint()
    name = "Join [Source: a, Source: b] -> (3 -> 4, 5)"
    assert_rows(
        vertices,
        "vertex vertex_id name parallelism_configured format_vertex supports_concurrent_execution_attempts",
        [
            (2, "0000000000000001ffffffffffffffff", name, True, True, False),
            (6, "0" * 32, "Alone", False, False, True),
        ],
    )
    assert_rows(
        vertices.filter("vertex = 2"),
        "parallelism max_parallelism invokable slot_sharing_group_name co_location_group_name postorder",
        [(3, 9, "Task", "a", "c", 8)],
    )


def test_resources_are_summed_over_a_chain_unless_one_operator_has_none(make):
    def operator(vertex, chain_index, resources):
        source = {"chained_source_index": 0} if chain_index == 0 else {"branch": min(chain_index - 1, 1)}
        node = {"vertex": vertex, "node": vertex + chain_index - 1, "chain_index": chain_index, "preorder": 1}
        return {**node, **source, "name": "x", "min_resources": resources, "preferred_resources": resources}

    a, b = (0.5, 1, 10, 100), (1.25, 2, 20, 200)
    chains = {
        10: [a],
        20: [None],
        30: [a, b, b],
        40: [a, None, b],
        50: [None, a],
    }
    rows = [operator(v, i, r) for v, chain in chains.items() for i, r in enumerate(chain, 1)]
    vertices = create_vertices(
        make(OPERATORS, [*rows, operator(60, 0, None), operator(60, 1, b)], closings=0)
    )
    summed = {10: a, 20: None, 30: (3.0, 5, 50, 500), 40: None, 50: None, 60: b}
    assert_rows(vertices, "vertex min_resources preferred_resources", [(v, r, r) for v, r in summed.items()])
