"""The walks over arrays: operator ids, depth-first and topological order, topologies across batch borders."""

from random import Random

import mmh3
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.plans.frames import compiled
from penstock.plans.frames.arrays import positions, smallest_in_component, topologies_of
from penstock.plans.frames.spark_walks import whole_topologies
from penstock.plans.job_graph.generate_operator_ids import generate_operator_ids
from penstock.plans.job_graph.java_hashes import java_string_hashes
from penstock.plans.job_graph.number_slot_sharing_groups import order_and_regions
from penstock.plans.job_graph.order_depth_first import (
    FIRST_BRANCH,
    LATER_BRANCH,
    NO_BRANCH,
    ONLY_BRANCH,
    order_depth_first,
)
from penstock.plans.job_graph.stream_graph_arrays import GraphEdges, stream_graph_arrays
from penstock.plans.job_graph.uid_hashes import uid_hashes
from penstock.plans.stream_graph.choose_partitioners import NO_GROUP, inherited_groups


@pytest.fixture(params=["interpreted", "compiled"], autouse=True)
def _both_ways(request, monkeypatch):
    for limit in ("WORTH_COMPILING", "WORTH_RUNNING"):
        monkeypatch.setattr(compiled, limit, 0 if request.param == "compiled" else 10**9)


CHAINED, OPEN, CHAINED_SOURCE = "chained", "open", "chained source"


def arrays(*topologies, uids=None, no_output=()):
    """Topologies of edges (source, target, how), numbered from 0; a node without an input is a source."""
    nodes, edges = [], []
    for topology, of_topology in enumerate(topologies):
        targets = {t for _, t, _ in of_topology}
        place = {
            n: len(nodes) + at for at, n in enumerate(sorted({n for s, t, _ in of_topology for n in (s, t)}))
        }
        nodes += [(topology, (uids or {}).get(n), n in no_output, n not in targets) for n in place]
        out_index, in_index = {}, {}
        for s, t, how in sorted(of_topology, key=lambda e: e[1]):
            out_index[s], in_index[t] = out_index.get(s, -1) + 1, in_index.get(t, -1) + 1
            edges.append(
                (place[s], place[t], out_index[s], in_index[t], how == CHAINED, how == CHAINED_SOURCE)
            )
    of_topologies, of_uids, no_outputs, are_sources = zip(*nodes, strict=True)
    return stream_graph_arrays(
        np.array(of_topologies),
        uid_hashes(pa.array(of_uids, pa.string())),
        np.array(no_outputs),
        np.array(are_sources),
        GraphEdges(*map(np.array, zip(*edges, strict=True))),
    )


def murmur(number, copies=1):
    return mmh3.hash_bytes(number.to_bytes(4, "little") * copies, 0, True)


def mixed(value, *inputs):
    for other in inputs:
        value = bytes((a * 37) % 256 ^ b for a, b in zip(value, other, strict=True))
    return value


def ids_of(graph):
    ids, colliding = generate_operator_ids(graph)
    return [row.astype(">i8").tobytes() for row in ids], colliding.tolist()


def test_ids_are_mixed_with_those_of_inputs_and_count_chainable_outputs():
    graph = arrays([(1, 3, CHAINED), (1, 4, OPEN), (2, 4, OPEN), (3, 4, OPEN)])
    one, two = murmur(0, copies=2), murmur(1)
    three = mixed(murmur(2), one)
    four = mixed(murmur(3), one, two, three)
    assert ids_of(graph) == ([one, two, three, four], [])


def test_the_walk_is_breadth_first_and_starts_at_each_topologys_sources():
    edges = [(1, 2, OPEN), (1, 3, OPEN), (2, 4, OPEN), (3, 5, OPEN)]
    one = murmur(0)
    two, three = mixed(murmur(1), one), mixed(murmur(2), one)
    expected = [one, two, three, mixed(murmur(3), two), mixed(murmur(4), three)]
    assert ids_of(arrays(edges, edges))[0] == expected * 2


def test_a_uid_is_hashed_alone_and_waits_for_no_input():
    """5 has a uid and comes before 4, whose other input 3 is not there yet."""
    edges = [(1, 2, OPEN), (1, 4, OPEN), (2, 3, OPEN), (3, 4, OPEN), (1, 5, OPEN)]
    graph = arrays(edges, uids={5: "é😀"})
    one = murmur(0)
    two = mixed(murmur(1), one)
    three = mixed(murmur(3), two)
    four = mixed(murmur(4), one, three)
    five = mmh3.hash_bytes("é😀".encode(), 0, True)
    assert ids_of(graph)[0] == [one, two, three, four, five]


def test_a_uid_twice_is_a_collision_of_its_topology_only():
    edges = [(1, 2, OPEN), (2, 3, OPEN)]
    ids, colliding = ids_of(arrays([(7, 8, OPEN)], edges, uids={1: "u", 3: "u", 2: "v"}))
    assert colliding == [4]
    assert ids[0] == murmur(0)


def test_chained_names_are_walked_depth_first_and_closed():
    """1 -> (2 -> 3, 4 -> (5, 6)): chained outputs first, the open edge to 7 last."""
    edges = [
        (1, 2, CHAINED),
        (2, 3, CHAINED),
        (1, 4, CHAINED),
        (4, 5, CHAINED),
        (4, 6, CHAINED),
        (2, 7, OPEN),
    ]
    order = order_depth_first(arrays(edges))
    by_preorder = np.argsort(order.preorder)
    assert [int(i) + 1 for i in by_preorder] == [1, 2, 3, 7, 4, 5, 6]
    assert [int(i) + 1 for i in np.argsort(order.postorder)] == [3, 7, 2, 5, 6, 4, 1]
    assert order.branch.tolist() == [
        NO_BRANCH, FIRST_BRANCH, ONLY_BRANCH, LATER_BRANCH, FIRST_BRANCH, LATER_BRANCH, NO_BRANCH
    ]  # fmt: skip
    assert order.closings.tolist() == [0, 0, 0, 0, 0, 2, 0]
    assert order.head.tolist() == [0, 0, 0, 0, 0, 0, 6]


def test_walks_enter_heads_that_sources_are_chained_into_in_the_order_of_ids():
    """1 and 2 run inside 4; 3 is an entry of its own and is walked first."""
    order = order_depth_first(arrays([(1, 4, CHAINED_SOURCE), (2, 4, CHAINED_SOURCE), (3, 5, OPEN)]))
    assert order.preorder.tolist() == [-1, -1, 0, 2, 1]
    assert order.postorder.tolist() == [-1, -1, 1, 2, 0]


def test_no_output_before_the_end_spreads_over_its_chain():
    edges = [(1, 2, CHAINED), (2, 3, CHAINED), (3, 4, OPEN)]
    assert order_depth_first(arrays(edges, no_output={2})).no_output.tolist() == [True, True, True, False]


def test_topologies_of_one_table_do_not_know_of_each_other():
    first = [(1, 2, OPEN), (1, 3, CHAINED)]
    second = [(1, 3, OPEN), (2, 3, OPEN), (3, 4, CHAINED)]
    alone = [order_depth_first(arrays(edges)) for edges in (first, second)]
    both = order_depth_first(arrays(first, second))
    assert both.branch.tolist() == [*alone[0].branch, *alone[1].branch]
    assert [rank - 3 for rank in both.preorder[3:]] == alone[1].preorder.tolist()


@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=("Cs",)))), max_size=8))
@settings(deadline=None, derandomize=True)
def test_java_hashes_are_horners_rule_over_utf_16(texts):
    def java_hash(text):
        units = text.encode("utf-16-be")
        value = 0
        for i in range(0, len(units), 2):
            value = value * 31 + int.from_bytes(units[i : i + 2], "big")
        return (value + 2**31) % 2**32 - 2**31

    hashes = java_string_hashes(pa.array(texts, pa.string()))
    assert hashes.tolist() == [java_hash(text or "") for text in texts]


def test_java_hashes_are_javas():
    known = {"": 0, "Aa": 2112, "BB": 2112, "polygenelubricants": -(2**31), "😀": 1772899, None: 0}
    assert java_string_hashes(pa.array(list(known), pa.string())).tolist() == list(known.values())
    ascii_only = java_string_hashes(pa.array(["x" * 5_000], pa.string()))
    assert ascii_only.tolist() == java_string_hashes(pa.array(["x" * 5_000, "é"], pa.string())).tolist()[:1]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), max_size=12), st.lists(st.integers(0, 4)))
@settings(deadline=None, derandomize=True)
def test_topologies_are_whole_however_batches_are_cut(sizes, cuts):
    topologies = [t for t, size in sorted(dict(sizes).items()) for _ in range(size)]
    table = pa.table({"topology_id": pa.array(topologies, pa.int64()), "row": range(len(topologies))})
    batches, start = [], 0
    for cut in [*cuts, len(topologies)]:
        part = table.slice(start, cut).combine_chunks()
        batches += part.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        start += cut
    wholes = list(whole_topologies(iter(batches)))
    assert [row for whole in wholes for row in whole.column("row").to_pylist()] == list(
        range(len(topologies))
    )
    seen = [set(whole.column("topology_id").to_pylist()) for whole in wholes]
    assert all(whole for whole in seen)
    assert sum(len(whole) for whole in seen) == len(set(topologies))


@pytest.mark.parametrize("rows_at_a_time", [1, 3, 2**18])
@pytest.mark.parametrize("largest", [7, 2**31 - 1], ids=["by cells", "by search"])
def test_positions_find_pairs_in_any_order_and_raise_for_one_that_is_missing(
    rows_at_a_time, largest, monkeypatch
):
    monkeypatch.setattr("penstock.plans.frames.arrays._ROWS_AT_A_TIME", rows_at_a_time)
    of_nodes = np.array([-5, 9, -5, 9, 9]), np.array([2, 1, 1, 7, largest], np.int32)
    assert positions(*of_nodes)(*of_nodes)[[0, 1, 2, 4]].tolist() == [0, 1, 2, 4]
    find = positions(of_nodes[0][:4], of_nodes[1][:4])
    assert find(np.array([9, -5, 9, -5]), np.array([7, 1, 1, 2])).tolist() == [3, 2, 1, 0]
    assert find(np.array([], np.int64), np.array([], np.int64)).tolist() == []
    for topology, node in ((9, 2), (-5, 7), (10, 1), (-6, 1)):
        with pytest.raises(ValueError, match="an edge's node is missing"):
            find(np.array([9, topology]), np.array([7, node]))


@pytest.mark.slow
@given(st.data())
@settings(deadline=None, derandomize=True)
def test_components_have_their_smallest_rank(data):
    count = data.draw(st.integers(0, 15))
    ranks = data.draw(st.permutations(range(count)))
    element = st.integers(0, count - 1)
    pairs = data.draw(st.lists(st.tuples(element, element), max_size=25)) if count else []
    smallest = list(ranks)
    for _ in range(count):
        for a, b in pairs:
            smallest[a] = smallest[b] = min(smallest[a], smallest[b])
    ones, others = np.array(pairs, np.int64).reshape(-1, 2).T
    assert smallest_in_component(np.array(ranks, np.int64), ones, others).tolist() == smallest


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


def test_vertices_are_sorted_as_a_direct_recursive_reading_sorts_them():
    rng = Random(7)
    bounds, edges, expected = [0], [], []
    for _ in range(200):
        first, size = bounds[-1], rng.randint(1, 12)
        vertices = [*range(first, first + size)]
        levels = dict(zip(vertices, rng.sample(range(size), size), strict=True))
        consumers = {vertex: [] for vertex in vertices}
        pipelined = []
        for _ in range(rng.randint(0, 2 * size) if size > 1 else 0):
            source, target = sorted(rng.sample(vertices, 2), key=levels.__getitem__)
            edges.append((source, len(consumers[source]), target, rng.random() < 0.5))
            pipelined += [(source, target)] if edges[-1][3] else []
            consumers[source].append(target)
        order = flinks_order(vertices, consumers)
        regions = flinks_regions(order, pipelined)
        expected += [(order.index(vertex), regions[vertex]) for vertex in vertices]
        bounds.append(first + size)
    sources, _, targets, is_pipelined = map(np.array, zip(*sorted(edges), strict=True))
    found = order_and_regions(np.array(bounds), sources, targets, is_pipelined)
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected


def test_the_topologies_of_rows():
    for topologies in ([], [4], [4, 4, 4], [4, 4, 9]):
        column = pa.chunked_array(
            [pa.array(topologies[:1], pa.int64()), pa.array(topologies[1:], pa.int64())]
        )
        assert topologies_of(pa.table({"topology_id": column})).tolist() == topologies


def test_groups_are_inherited_where_all_inputs_agree():
    """1 of group 1, 2 of group 2, 3 of none; 4 reads 1, 5 reads 1 and 2, 6 reads 3, 7 reads 4."""
    own = np.array([NO_GROUP, 1, 2, NO_GROUP, NO_GROUP, NO_GROUP, NO_GROUP, NO_GROUP], np.int32)
    sources, targets = np.array([1, 1, 2, 3, 4]), np.array([4, 5, 5, 6, 7])
    assert inherited_groups(own, sources, targets).tolist()[1:] == [1, 2, 0, 1, 0, 0, 1]
