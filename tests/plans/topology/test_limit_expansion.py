"""Topologies too large once they are expanded are refused by name; the rest of a fleet is planned.

Edges of unions of unions double with each; tasks are counted with their inputs. test_hostile_lines.py has the
same fleet for all planners.
"""

from typing import Any

import polars as pl
import pytest

import penstock
from penstock.plans.frames import compiled
from penstock.plans.stream_graph import resolve_virtual_nodes as limit_expansion
from penstock.plans.stream_graph.resolve_virtual_nodes import MOST_EDGES, beyond_limit, most_edges

Transformations = list[dict[str, Any]]
SOURCE = {"id": 1, "kind": "source", "name": "s"}


def read_by_sink(rows: Transformations) -> Transformations:
    return [*rows, {"id": len(rows) + 1, "kind": "sink", "name": "k", "inputs": [len(rows)]}]


def doubling(depth: int) -> Transformations:
    """2 to the power of `depth` edges: each union names the one before it twice."""
    return read_by_sink(
        [SOURCE, *({"id": i, "kind": "union", "inputs": [i - 1] * 2} for i in range(2, depth + 2))]
    )


def diamonds(depth: int) -> Transformations:
    """The same number, though no union names an input twice."""
    rows = [SOURCE]
    for _ in range(depth):
        last = len(rows)
        rows += [
            {"id": last + side, "kind": "partition", "inputs": [last], "partitioner": "rebalance"}
            for side in (1, 2)
        ]
        rows.append({"id": last + 3, "kind": "union", "inputs": [last + 1, last + 2]})
    return read_by_sink(rows)


def many_readers(edges_each: int, readers: int) -> Transformations:
    """One union with that many ways up, read by many operators."""
    rows = doubling(edges_each)[:-1]
    union = len(rows)
    rows += [
        {"id": union + i, "kind": "one_input", "name": "m", "inputs": [union]} for i in range(1, readers + 1)
    ]
    return rows


def wide(depth: int) -> Transformations:
    """A vertex of 32,768 tasks, each with 2 to the power of `depth` inputs."""
    rows = doubling(depth)
    return [{**row, "parallelism": 32_768} if row["kind"] != "union" else row for row in rows]


FLEET = {
    "first": doubling(1),
    "wide": wide(11),
    "doubling 63": doubling(63),
    "doubling 27": doubling(27),
    "diamonds 31": diamonds(31),
    "many readers": many_readers(12, 2_000),
    "last": diamonds(3),
}
TOO_MANY_EDGES = {"doubling 63", "doubling 27", "diamonds 31", "many readers"}
REFUSED = {*TOO_MANY_EDGES, "wide"}


def topologies() -> list[dict[str, Any]]:
    return [{"name": name, "transformations": rows} for name, rows in FLEET.items()]


def test_the_rest_of_a_fleet_is_planned():
    plan = penstock.plan(topologies())
    assert {row["name"] for row in rows_of(plan, "topologies")} == FLEET.keys() - REFUSED
    refused = {row["name"]: row for row in rows_of(plan, "rejected")}
    assert refused.keys() == REFUSED
    assert {(name, row["error_stage"], row["error"]) for name, row in refused.items()} == {
        ("wide", "execution_graph", "TooManyTasks"),
        *((name, "input", "TooManyEdges") for name in TOO_MANY_EDGES),
    }
    assert refused["wide"]["message"] == (
        "vertex Sink: k: found 67,174,400 tasks and inputs of tasks in the topology, most of them in this "
        "vertex: parallelism 32,768, inputs of each task 2,048; allowed: at most 67,108,864 tasks and inputs "
        "of tasks in a topology, or 4,096 for each vertex; "
        "hint: lower the parallelism, or plan with --until job_graph, which has no tasks"
    )
    assert refused["doubling 63"]["message"] == (
        "transformation 23: found unions of unions that expand to 8,388,606 edges up to here; "
        "allowed: at most 4,194,304 edges in a topology of this size; "
        "hint: let a union name each of its inputs once, or put an operator between the unions"
    )


def rows_of(plan: Any, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = plan.tables[table].to_pylist()
    return rows


def frame(*of_topologies: Transformations) -> pl.DataFrame:
    rows = [
        {"topology_id": number, "id": row["id"], "kind": row["kind"], "inputs": row.get("inputs", [])}
        for number, transformations in enumerate(of_topologies)
        for row in transformations
    ]
    return pl.DataFrame(
        rows, {"topology_id": pl.Int64, "id": pl.Int32, "kind": pl.String, "inputs": pl.List(pl.Int32)}
    )


@pytest.mark.parametrize("least", [0, 10**9], ids=["compiled", "as it is"])
def test_ways_are_counted_as_they_are(least, monkeypatch):
    """Against ways that are walked one by one."""
    monkeypatch.setattr(compiled, "WORTH_COMPILING", least)
    monkeypatch.setattr(compiled, "WORTH_RUNNING", least)
    monkeypatch.setattr(limit_expansion, "MOST_EDGES", 0)
    monkeypatch.setattr(limit_expansion, "EDGES_OF_A_TRANSFORMATION", 0)
    few = [doubling(5), many_readers(4, 3), diamonds(4), [SOURCE, {"id": 2, "kind": "union", "inputs": [1]}]]
    expected = []
    for number, rows in enumerate(few):
        ways = 0
        for row in rows:
            ways += len(walked(rows, row))
            if ways:
                expected.append((number, row["id"], ways, 0))
                break
    assert beyond_limit(frame(*few)).rows() == expected


def walked(rows: Transformations, row: dict[str, Any]) -> list[int]:
    """The physical transformation at the end of each way up."""
    found = []
    for named in row.get("inputs", ()):
        above = rows[named - 1]
        if above["kind"] in ("union", "partition"):
            found += walked(rows, above)
        elif above["kind"] != "sink":
            found.append(named)
    return found


def test_a_large_topology_may_have_more():
    assert most_edges(10) == MOST_EDGES
    assert most_edges(1_000_000) > MOST_EDGES
