"""set_dynamic_parallelism, sort_vertices_topologically, numbered groups and managed memory."""

from decimal import ROUND_DOWN, Decimal
from random import Random

import pytest

from plans.job_graph.joins.number_slot_sharing_groups import (
    co_location_groups,
    number_co_location_groups,
    number_slot_sharing_groups,
    slot_sharing_groups,
)
from plans.job_graph.joins.set_dynamic_parallelism import find_forward_groups, set_dynamic_parallelism
from plans.job_graph.joins.set_managed_memory_fractions import set_managed_memory_fractions
from plans.job_graph.joins.sort_vertices_topologically import sort_vertices_topologically
from plans.joins.spark_schemas import spark_schema
from tests.passes.frames import CHAIN_VERTICES, OPERATORS, Make, assert_rows, extended

VERTICES = extended(CHAIN_VERTICES, (), "too_small_max BOOLEAN")
NAMED = extended(
    spark_schema("job_vertices"), (), "slot_sharing_group_name STRING, co_location_group_name STRING"
)
CONNECTED = extended(spark_schema("job_edges"), (), "result_partition_type STRING, output_index INT")
SORTED = "topology_id BIGINT, vertex INT, creation_order INT, topological_order INT, pipelined_region INT"


def test_forward_groups_are_components_of_dynamic_graphs(make):
    edges = [(1, 5, 3), (1, 3, 9), (1, 4, 7), (2, 1, 2)]
    typed = "topology_id BIGINT, source_vertex INT, target INT, forward BOOLEAN"
    groups = find_forward_groups(
        make(
            CHAIN_VERTICES,
            [{"topology_id": t, "vertex": v} for t, size in ((1, 9), (2, 2)) for v in range(1, size + 1)],
        ),
        make(
            typed,
            [
                *({"topology_id": t, "source_vertex": s, "target": v, "forward": True} for t, s, v in edges),
                {"source_vertex": 1, "target": 2, "forward": False},
            ],
        ),
        make("job_settings", [{"topology_id": 1, "dynamic": True}, {"topology_id": 2, "dynamic": False}]),
    )
    of_vertex = {1: 1, 2: 2, 3: 3, 4: 4, 5: 3, 6: 6, 7: 4, 8: 8, 9: 3}
    assert_rows(groups, "topology_id vertex forward_group", [(1, v, g) for v, g in of_vertex.items()])


def test_parallelism_that_nobody_configured_is_decided_later_or_by_the_forward_group(make):
    """Topology 1 is dynamic; 2 is, without automatic parallelism; 3 is not."""
    vertices = [
        {"vertex": 1, "parallelism": 4},
        {"vertex": 2, "parallelism": 4, "parallelism_configured": True},
        {"vertex": 3, "parallelism": 4, "max_parallelism": 64},
        {"vertex": 4, "parallelism": 8, "parallelism_configured": True, "max_parallelism": 16},
        {"vertex": 5, "parallelism": 4, "max_parallelism": 64},
        {"vertex": 6, "parallelism": 4, "max_parallelism": 32},
        {"vertex": 7, "parallelism": 8, "parallelism_configured": True},
        {"vertex": 8, "parallelism": 4, "max_parallelism": 7},
        {"topology_id": 2, "vertex": 1, "parallelism": 4},
        {"topology_id": 3, "vertex": 1, "parallelism": 4},
    ]
    groups = {1: 1, 2: 2, 3: 3, 4: 3, 5: 5, 6: 5, 7: 7, 8: 7}
    on, off = {"dynamic": True, "auto_parallelism_enabled": True}, {"dynamic": True}
    settings = [{"topology_id": 1, **on}, {"topology_id": 2, **off}, {"topology_id": 3}]
    decided = set_dynamic_parallelism(
        make(CHAIN_VERTICES, vertices, max_parallelism=-1),
        make(
            "topology_id BIGINT, vertex INT, forward_group INT",
            [
                *({"vertex": v, "forward_group": g} for v, g in groups.items()),
                {"topology_id": 2, "vertex": 1, "forward_group": 1},
            ],
        ),
        make("job_settings", settings),
    )
    assert_rows(
        decided,
        "topology_id vertex parallelism max_parallelism parallelism_configured too_small_max",
        [
            (1, 1, -1, -1, False, False),
            (1, 2, 4, -1, True, False),
            (1, 3, 8, 16, True, False),
            (1, 4, 8, 16, True, False),
            (1, 5, -1, 32, False, False),
            (1, 6, -1, 32, False, False),
            (1, 7, 8, 7, True, True),
            (1, 8, 8, 7, True, True),
            (2, 1, 4, -1, False, False),
            (3, 1, 4, -1, False, False),
        ],
    )


def flinks_order(vertices, consumers):
    """JobGraph.getVerticesSortedTopologicallyFromSources, read directly: recursive, and quadratic."""
    remaining = dict.fromkeys(vertices)
    order = [v for v in vertices if all(v not in targets for targets in consumers.values())]
    for vertex in order:
        del remaining[vertex]

    def add(vertex):
        for consumer in consumers[vertex]:
            if consumer not in remaining:
                continue
            if any(consumer in consumers[producer] for producer in remaining):
                continue
            order.append(consumer)
            del remaining[consumer]
            add(consumer)

    position = 0
    while remaining:
        add(order[position])
        position += 1
    return order


def flinks_regions(order, pipelined):
    region = {vertex: rank for rank, vertex in enumerate(order)}
    for _ in order:
        for a, b in pipelined:
            region[a] = region[b] = min(region[a], region[b])
    return region


def test_vertices_are_sorted_as_a_direct_recursive_reading_sorts_them(make):
    rng = Random(7)
    vertices, edges, expected = [], [], []
    for topology in range(200):
        size = rng.randint(1, 12)
        created = rng.sample(range(1, size + 1), size)
        vertices += [
            {"topology_id": topology, "vertex": v, "postorder": 10 * i} for i, v in enumerate(created)
        ]
        consumers = {v: [] for v in created}
        pipelined = []
        for _ in range(rng.randint(0, 2 * size) if size > 1 else 0):
            source, target = sorted(rng.sample(range(1, size + 1), 2))
            partition_type = rng.choice(("PIPELINED_BOUNDED", "PIPELINED", "BLOCKING", "HYBRID_FULL"))
            if partition_type.startswith("PIPELINED"):
                pipelined.append((source, target))
            edges.append(
                {"topology_id": topology, "source_vertex": source, "target_vertex": target}
                | {"output_index": len(consumers[source]) // 2, "consumer_index": len(consumers[source]) % 2}
                | {"result_partition_type": partition_type}
            )
            consumers[source].append(target)
        order = flinks_order(created, consumers)
        regions = flinks_regions(order, pipelined)
        expected += [(topology, v, created.index(v), order.index(v), regions[v]) for v in created]
    rng.shuffle(edges)
    found = sort_vertices_topologically(make(VERTICES, vertices), make(CONNECTED, edges))
    columns = "topology_id vertex creation_order topological_order pipelined_region"
    assert_rows(found, columns, expected)


@pytest.fixture(scope="module")
def named(make: Make):
    """Topology 1: one default group. 2: one a region. 3: vertex names with their index."""
    groups = {10: "b", 11: "default", 12: "b", 13: "default", 14: "a", 15: "default"}
    regions = {10: 0, 11: 1, 12: 2, 13: 1, 14: 4, 15: 5}
    co_located = {10: "right", 12: "left", 14: "left"}
    vertices = [
        {"topology_id": t, "vertex": v, "name": f"n{v}", "slot_sharing_group_name": group}
        | {"co_location_group_name": co_located.get(v), "parallelism": v}
        for t in (1, 2, 3)
        for v, group in groups.items()
    ]
    in_order = [
        {"topology_id": t, "vertex": v, "creation_order": 15 - v, "topological_order": v - 10}
        | {"pipelined_region": regions[v]}
        for t in (1, 2, 3)
        for v in groups
    ]
    settings = [
        {"topology_id": 1, "all_vertices_in_same_slot_sharing_group": True},
        {"topology_id": 2},
        {"topology_id": 3, "all_vertices_in_same_slot_sharing_group": True}
        | {"vertex_name_include_index_prefix": True},
    ]
    grouped = number_slot_sharing_groups(
        make(VERTICES, vertices), make(SORTED, in_order), make("job_settings", settings)
    )
    return number_co_location_groups(grouped).localCheckpoint()


def test_groups_are_numbered_by_the_first_vertex_created(named):
    assert_rows(
        named.filter("topology_id = 1"),
        "vertex slot_sharing_group co_location_group",
        [(15, 0, None), (14, 1, 0), (13, 0, None), (12, 2, 0), (11, 0, None), (10, 2, 1)],
    )


def test_the_default_group_is_split_by_region_where_the_job_says_so(named):
    assert_rows(
        named.filter("topology_id = 2"),
        "vertex slot_sharing_group",
        [(15, 0), (14, 1), (13, 2), (12, 3), (11, 2), (10, 3)],
    )


def test_names_have_the_index_where_the_job_says_so(named):
    assert_rows(
        named.filter("topology_id = 3 AND vertex < 12"), "name", [("[vertex-0]n10",), ("[vertex-1]n11",)]
    )
    assert_rows(named.filter("topology_id = 1 AND vertex < 12"), "name", [("n10",), ("n11",)])


def test_groups_know_their_size_and_largest_parallelism(named):
    one = named.filter("topology_id = 1")
    assert_rows(
        slot_sharing_groups(one),
        "slot_sharing_group name vertices max_vertex_parallelism",
        [(0, "default", 3, 15), (1, "a", 1, 14), (2, "b", 2, 12)],
    )
    assert_rows(
        co_location_groups(one),
        "co_location_group name slot_sharing_group vertices",
        [(0, "left", 1, 2), (1, "right", 2, 1)],
    )


def fractions(make, operators, groups):
    """(topology, node) to fractions; `groups`: (topology, vertex) to slot sharing group."""
    vertices = [{"topology_id": t, "vertex": v, "slot_sharing_group": g} for (t, v), g in groups.items()]
    chained = set_managed_memory_fractions(
        make(OPERATORS, operators, chain_index=1, postorder=0), make(NAMED, vertices)
    )
    columns = ("topology_id", "node", "managed_memory_fraction")
    return {(t, n): f for t, n, f in chained.select(*columns).collect()}


def test_fractions_are_rounded_down_to_16_decimals(make):
    rng = Random(3)
    weights = [[rng.choice((1, 3, 7, 128, rng.randint(1, 2**31 - 1))) for _ in range(3)] for _ in range(150)]
    weights += [[1, 2, 0], [2**31 - 1] * 3, [1, 2**31 - 1, 1]]
    operators = [
        {"topology_id": t, "vertex": n, "node": n, "managed_memory": {"OPERATOR": w}}
        for t, ws in enumerate(weights)
        for n, w in enumerate(ws)
    ]
    found = fractions(make, operators, {(t, n): 0 for t in range(len(weights)) for n in range(3)})

    def rounded_down(weight, total):
        return float((Decimal(weight) / Decimal(total)).quantize(Decimal(10) ** -16, ROUND_DOWN))

    def as_java_int(total):
        return (total + 2**31) % 2**32 - 2**31

    expected = {
        (t, n): {"OPERATOR": rounded_down(w, as_java_int(sum(ws)))}
        for t, ws in enumerate(weights)
        for n, w in enumerate(ws)
    }
    assert found == expected


def test_every_operator_of_a_group_has_a_fraction_for_each_use_case_of_the_group(make):
    """Vertices 1 and 2 share a group; 3 has one of its own, without any use of memory."""
    operators = [
        {"vertex": 1, "node": 1, "managed_memory": {"OPERATOR": 1}},
        {"vertex": 1, "node": 2, "managed_memory": {"OPERATOR": 3}, "slot_scope": ["PYTHON"]},
        {"vertex": 2, "node": 3, "slot_scope": ["STATE_BACKEND"]},
        {"vertex": 2, "node": 4},
        {"vertex": 3, "node": 5},
    ]
    none = {"OPERATOR": 0.0, "STATE_BACKEND": 0.0, "PYTHON": 0.0}
    assert fractions(make, operators, {(1, 1): 0, (1, 2): 0, (1, 3): 1}) == {
        (1, 1): none | {"OPERATOR": 0.25},
        (1, 2): none | {"OPERATOR": 0.75, "PYTHON": 1.0},
        (1, 3): none | {"STATE_BACKEND": 1.0},
        (1, 4): none,
        (1, 5): {},
    }


def test_operators_are_ordered_by_creation_and_chained_sources_have_no_place(make):
    rows = [
        {"node": 1, "chain_index": 0, "postorder": -1},
        {"node": 2, "chain_index": 1, "postorder": 9, "uid_hash": "ABCDEF" + "0" * 26},
        {"node": 3, "chain_index": 2, "postorder": 4},
        {"node": 4, "chain_index": 3, "postorder": 3, "id_lower": 255, "id_upper": -2},
    ]
    operators = set_managed_memory_fractions(
        make(OPERATORS, rows, vertex=2), make(NAMED, [{"vertex": 2, "slot_sharing_group": 0}])
    )
    zeros = "0" * 32
    assert_rows(
        operators,
        "node chain_index operator_order operator_id user_defined_operator_id",
        [
            (1, 0, None, zeros, None),
            (2, 1, 2, zeros, "abcdef" + "0" * 26),
            (3, 2, 1, zeros, None),
            (4, 3, 0, "00000000000000fffffffffffffffffe", None),
        ],
    )
