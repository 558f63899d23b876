"""Topologies that recursion or a quadratic step would not survive, against the reference planner; one run."""

import sys
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.planned_lines import PlanJson, differs, planned_lines
from tests.reference.planner import plan

SOURCE = {"id": 1, "kind": "source", "name": "s"}
Transformations = list[dict[str, Any]]


def chain() -> Transformations:
    """3,000 operators in one chain."""
    return [
        SOURCE,
        *({"id": i, "kind": "one_input", "name": "m", "inputs": [i - 1]} for i in range(2, 3_001)),
    ]


def virtual_chain() -> Transformations:
    """1,000 partitions between two operators."""
    partitions = [
        {"id": i, "kind": "partition", "inputs": [i - 1], "partitioner": "shuffle" if i < 1_001 else "hash"}
        for i in range(2, 1_002)
    ]
    return [SOURCE, *partitions, {"id": 1_002, "kind": "one_input", "name": "m", "inputs": [1_001]}]


def wide_union() -> Transformations:
    """A union of 2,000 inputs: every fifth source, then all others."""
    sources = [{**SOURCE, "id": i} for i in range(1, 2_001)]
    inputs = [*range(5, 2_001, 5), *(i for i in range(1, 2_001) if i % 5)]
    union = {"id": 2_001, "kind": "union", "inputs": inputs}
    return [*sources, union, {"id": 2_002, "kind": "sink", "name": "k", "inputs": [2_001]}]


def nested_unions() -> Transformations:
    """200 unions of the union before and one more source."""
    sources = [{**SOURCE, "id": i} for i in range(1, 202)]
    unions = [{"id": 202, "kind": "union", "inputs": [1, 2]}]
    unions += [{"id": 201 + i, "kind": "union", "inputs": [200 + i, i + 1]} for i in range(2, 201)]
    return [*sources, *unions, {"id": 402, "kind": "sink", "name": "k", "inputs": [401]}]


def uids() -> Transformations:
    """3,000 operators with uids, a tree of chains: every seventh starts a vertex."""
    return [
        {**SOURCE, "uid": "uid-1"},
        *(
            {"id": i, "kind": "one_input", "name": f"m{i}", "inputs": [i // 2], "uid": f"uid-{i}"}
            | ({} if i % 7 else {"chaining": "HEAD"})
            for i in range(2, 3_001)
        ),
    ]


SHAPES = (chain, virtual_chain, wide_union, nested_unions, uids)
NAMES = [shape.__name__ for shape in SHAPES]


@pytest.fixture(scope="module")
def topologies() -> dict[str, dict[str, Any]]:
    return {shape.__name__: {"name": shape.__name__, "transformations": shape()} for shape in SHAPES}


@pytest.fixture(scope="module")
def plans(spark: SparkSession, topologies: dict[str, dict[str, Any]]) -> dict[str, PlanJson]:
    return planned_lines(spark, topologies.values())


@pytest.mark.parametrize("name", NAMES)
def test_deep_topologies_are_planned_as_the_reference_plans_them(name, topologies, plans):
    expected = plan(topologies[name])
    assert "error" not in expected
    assert not differs(plans[name], expected)


def test_the_shapes_are_as_deep_as_they_say(topologies, plans):
    sizes = {name: len(topology["transformations"]) for name, topology in topologies.items()}
    assert max(sizes.values()) > 2 * sys.getrecursionlimit()
    edges = {name: len(planned["stream_graph"]["edges"]) for name, planned in plans.items()}
    assert edges == {
        "chain": 2_999,
        "virtual_chain": 1,
        "wide_union": 2_000,
        "nested_unions": 201,
        "uids": 2_999,
    }
    assert len(plans["chain"]["job_graph"]["vertices"]) == 1
