"""Execution edges and result partitions for edges of any shape, against the reference."""

from collections import Counter
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.plans.execution_graph.create_intermediate_results import expand_execution_edges
from tests.passes.frames import OF_DATA_SETS, derive_in_process, make_polars
from tests.reference.execution_graph import consumed_partitions, consumed_subpartitions

PAIRS = list(product(range(1, 25), range(1, 25), ("POINTWISE", "ALL_TO_ALL")))
WIDE, WIDEST = 10_000, 32_768
ALL = [*PAIRS, (WIDE, WIDE, "ALL_TO_ALL"), (WIDEST, WIDEST - 1, "POINTWISE")]
Rows = list[dict[str, Any]]


def number(producers, consumers, distribution):
    """The topology of an edge of this shape."""
    return producers * 1_000_000 + consumers * 10 + (distribution == "POINTWISE")


def given(make):
    """A topology for each shape, with one job edge: vertex 1 produces, vertex 2 consumes."""
    edges = [
        {"topology_id": number(*shape), "source_vertex": 1, "target_vertex": 2, "distribution": shape[2]}
        for shape in ALL
    ]
    vertices = [
        {"topology_id": number(*shape), "vertex": vertex, "parallelism": parallelism}
        for shape in ALL
        for vertex, parallelism in ((1, shape[0]), (2, shape[1]))
    ]
    return {
        "job_vertices": make(
            "job_vertices", [row | {"topological_order": row["vertex"] - 1} for row in vertices]
        ),
        "execution_job_vertices": make("execution_job_vertices", vertices),
        "connected_edges": make(OF_DATA_SETS, edges),
    }


@pytest.fixture(scope="module")
def derive() -> Callable[[str], Rows]:
    """Table to its rows."""
    tables = given(make_polars)
    return lambda produces: derive_in_process(produces, tables)


@pytest.fixture(scope="module")
def edges(derive) -> dict[int, Rows]:
    """Topology to its execution edges, by subtask."""
    found: dict[int, Rows] = {}
    for row in sorted(derive("execution_edges"), key=lambda row: (row["topology_id"], row["subtask"])):
        found.setdefault(row["topology_id"], []).append(row)
    return found


def test_every_pair_of_parallelisms_reads_the_ranges_of_the_reference(edges):
    assert edges.keys() == {number(*shape) for shape in ALL}
    for producers, consumers, distribution in PAIRS:
        data_set: Any = SimpleNamespace(
            pointwise=distribution == "POINTWISE", producer=SimpleNamespace(id="producer")
        )
        graph: Any = SimpleNamespace(parallelism={"producer": producers, "consumer": consumers})
        edge: Any = SimpleNamespace(data_set=data_set, target=SimpleNamespace(id="consumer"))
        ranges = consumed_partitions(data_set, consumers, graph.parallelism)
        rows = edges[number(producers, consumers, distribution)]
        assert [row["subtask"] for row in rows] == list(range(len(ranges)))
        assert [(row["first_partition"], row["last_partition"]) for row in rows] == ranges
        assert [row["first_subpartition"] for row in rows] == consumed_subpartitions(edge, graph)
        assert all(row["first_subpartition"] == row["last_subpartition"] for row in rows)


def test_a_wide_edge_has_one_row_per_task_and_not_one_per_pair_of_tasks(edges):
    """Also beyond 32 bits: subtask times parallelism."""
    assert len(edges[number(WIDE, WIDE, "ALL_TO_ALL")]) == WIDE
    pointwise = edges[number(WIDEST, WIDEST - 1, "POINTWISE")]
    assert len(pointwise) == WIDEST - 1
    assert (pointwise[-1]["first_partition"], pointwise[-1]["last_partition"]) == (WIDEST - 2, WIDEST - 1)


def test_partitions_have_a_subpartition_for_each_task_that_reads_them(derive, edges):
    in_pairs = {number(*shape) for shape in PAIRS}
    partitions = {
        (row["topology_id"], row["partition"]): (row["first_consumer"], row["subpartitions"])
        for row in derive("intermediate_result_partitions")
        if row["topology_id"] in in_pairs
    }
    readers: dict[tuple[int, int], list[int]] = {}
    for topology in in_pairs:
        for row in edges[topology]:
            for partition in range(row["first_partition"], row["last_partition"] + 1):
                readers.setdefault((topology, partition), []).append(row["subtask"])
    assert partitions == {key: (min(tasks), len(tasks)) for key, tasks in readers.items()}
    most: Counter[int] = Counter()
    for (topology, _), (_, count) in partitions.items():
        most[topology] = max(most[topology], count)
    results = [row for row in derive("intermediate_results") if row["topology_id"] in in_pairs]
    assert {row["topology_id"]: row["most_subpartitions"] for row in results} == most
    assert all(row["partitions"] == row["topology_id"] // 1_000_000 for row in results)


EXPANDED = [(0, 0, 0), (0, 1, 0), (1, 2, 0), (1, 3, 0), (2, 4, 0), (2, 5, 0), (2, 6, 0)]
COLUMNS = ("subtask", "partition", "first_subpartition")
RANGES = [
    {"subtask": subtask, "first_partition": first, "last_partition": last}
    for subtask, (first, last) in enumerate(((0, 1), (2, 3), (4, 6)))
]


def test_expanded_edges_are_all_pairs_of_partition_and_reader():
    expanded = expand_execution_edges(make_polars("execution_edges", RANGES))
    assert expanded.select(COLUMNS).rows() == EXPANDED
