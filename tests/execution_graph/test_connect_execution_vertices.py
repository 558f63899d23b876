"""Execution edges, intermediate results and their partitions against the reference planner, and expanded."""

from collections import Counter
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row

from plans.execution_graph.joins.connect_execution_vertices import execution_edges
from plans.execution_graph.joins.create_intermediate_results import (
    intermediate_result_partitions,
    intermediate_results,
)
from plans.execution_graph.joins.expand_execution_edges import expand_execution_edges
from plans.joins.spark_schemas import spark_schema
from tests.passes.frames import assert_rows, extended, make_frame
from tests.reference.execution_graph import consumed_partitions, consumed_subpartitions

CONNECTED = extended(spark_schema("job_edges"), (), "result_partition_type STRING, output_index INT")
PAIRS = list(product(range(1, 41), range(1, 41), ("POINTWISE", "ALL_TO_ALL")))
WIDE = 10_000


def _edge(producers, consumers, distribution):
    """One job edge in a topology that is named after its shape; vertex 1 produces, vertex 2 consumes."""
    topology = producers * 1_000_000 + consumers * 10 + (distribution == "POINTWISE")
    edge = {"topology_id": topology, "source_vertex": 1, "target_vertex": 2, "distribution": distribution}
    vertices = [
        {"topology_id": topology, "vertex": vertex, "parallelism": parallelism}
        for vertex, parallelism in ((1, producers), (2, consumers))
    ]
    return topology, edge, vertices


def _tables(spark, shapes):
    edges = [_edge(*shape) for shape in shapes]
    vertices = [vertex for _, _, of_edge in edges for vertex in of_edge]
    return (
        make_frame(spark, CONNECTED, [edge for _, edge, _ in edges]),
        make_frame(spark, "execution_job_vertices", vertices),
    )


@pytest.fixture(scope="module")
def expected():
    """Topology to (partition ranges, subpartitions), by consuming subtask."""
    found = {}
    for producers, consumers, distribution in PAIRS:
        data_set: Any = SimpleNamespace(
            pointwise=distribution == "POINTWISE", producer=SimpleNamespace(id="producer")
        )
        graph: Any = SimpleNamespace(parallelism={"producer": producers, "consumer": consumers})
        edge: Any = SimpleNamespace(data_set=data_set, target=SimpleNamespace(id="consumer"))
        found[_edge(producers, consumers, distribution)[0]] = (
            consumed_partitions(data_set, consumers, graph.parallelism),
            consumed_subpartitions(edge, graph),
        )
    return found


@pytest.fixture(scope="module")
def edges(spark):
    rows = execution_edges(*_tables(spark, PAIRS)).collect()
    found: dict[int, list[Row]] = {}
    for row in sorted(rows, key=lambda r: (r["topology_id"], r["subtask"])):
        found.setdefault(row["topology_id"], []).append(row)
    return found


def test_every_pair_of_parallelisms_reads_the_ranges_of_the_reference(edges, expected):
    assert edges.keys() == expected.keys()
    for topology, rows in edges.items():
        ranges, subpartitions = expected[topology]
        assert [row["subtask"] for row in rows] == list(range(len(ranges)))
        assert [(row["first_partition"], row["last_partition"]) for row in rows] == ranges
        assert [row["first_subpartition"] for row in rows] == subpartitions
        assert all(row["first_subpartition"] == row["last_subpartition"] for row in rows)


def test_partitions_have_a_subpartition_for_each_task_that_reads_them(spark, edges):
    tables = _tables(spark, PAIRS)
    partitions = {
        (row["topology_id"], row["partition"]): (row["first_consumer"], row["subpartitions"])
        for row in intermediate_result_partitions(*tables).collect()
    }
    readers: dict[tuple[int, int], list[int]] = {}
    for topology, rows in edges.items():
        for row in rows:
            for partition in range(row["first_partition"], row["last_partition"] + 1):
                readers.setdefault((topology, partition), []).append(row["subtask"])
    assert partitions == {key: (min(tasks), len(tasks)) for key, tasks in readers.items()}
    most: Counter[int] = Counter()
    for (topology, _), (_, count) in partitions.items():
        most[topology] = max(most[topology], count)
    results = intermediate_results(*tables).collect()
    assert {row["topology_id"]: row["most_subpartitions"] for row in results} == most
    assert all(row["partitions"] == row["topology_id"] // 1_000_000 for row in results)


def test_expanded_edges_are_all_pairs_of_partition_and_reader(spark):
    shapes = [(3, 7, "POINTWISE"), (7, 3, "POINTWISE"), (2, 3, "ALL_TO_ALL")]
    expanded = expand_execution_edges(execution_edges(*_tables(spark, shapes)))
    narrow = _edge(7, 3, "POINTWISE")[0]
    assert expanded.count() == 7 + 7 + 6
    assert_rows(
        expanded.filter(f"topology_id = {narrow}"),
        "subtask partition first_subpartition",
        [(0, 0, 0), (0, 1, 0), (1, 2, 0), (1, 3, 0), (2, 4, 0), (2, 5, 0), (2, 6, 0)],
    )


def test_a_wide_edge_is_a_row_a_task_and_not_a_row_an_edge(spark):
    """Also beyond 32 bits: subtask times parallelism."""
    widest = 32_768
    rows = execution_edges(*_tables(spark, [(WIDE, WIDE, "ALL_TO_ALL"), (widest, widest - 1, "POINTWISE")]))
    counts = {row["topology_id"]: row["count"] for row in rows.groupBy("topology_id").count().collect()}
    assert sorted(counts.values()) == [WIDE, widest - 1]
    last = rows.filter(f"subtask = {widest - 2}").select("first_partition", "last_partition").collect()
    assert [tuple(row) for row in last] == [(widest - 2, widest - 1)]
