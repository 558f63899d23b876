"""What a planner of one's own returns is checked: each rule is named, and only its topology is rejected."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

import penstock
from penstock.plans.custom_planners.find_violations import Invariant
from tests.plans.custom_planners.asked_planners import (
    BAD,
    GOOD,
    custom_planner,
    job,
    only_bad,
    planned,
    rejected,
)


@penstock.decides("parallelism")
def too_parallel(topologies: pl.DataFrame) -> pl.DataFrame:
    return only_bad(topologies).with_columns(id=2, parallelism=40_000)


@penstock.decides("partitioners")
def rehash(topologies: pl.DataFrame) -> pl.DataFrame:
    return only_bad(topologies).with_columns(target=4, in_index=0, partitioner=pl.lit("REBALANCE"))


@penstock.decides("partitioners")
def misspelt(topologies: pl.DataFrame) -> pl.DataFrame:
    return only_bad(topologies).with_columns(target=2, in_index=0, partitioner=pl.lit("SIDEWAYS"))


@penstock.decides("chaining")
def chain_a_shuffle(topologies: pl.DataFrame) -> pl.DataFrame:
    return only_bad(topologies).with_columns(target=4, in_index=0, chainable=True)


@penstock.decides("chaining")
def unknown_edge(topologies: pl.DataFrame) -> pl.DataFrame:
    return only_bad(topologies).with_columns(target=77, in_index=0, chainable=True)


@penstock.decides("chaining")
def undecided(topologies: pl.DataFrame) -> pl.DataFrame:
    return only_bad(topologies).with_columns(target=2, in_index=0, chainable=pl.lit(None, pl.Boolean))


@penstock.decides("chaining")
def twice(topologies: pl.DataFrame) -> pl.DataFrame:
    row = only_bad(topologies).with_columns(target=2, in_index=0, chainable=True)
    return pl.concat([row, row])


@penstock.decides("execution_slot_sharing_groups")
def one_task_left_out(topologies: pl.DataFrame, execution_vertices: pl.DataFrame) -> pl.DataFrame:
    tasks = execution_vertices.join(only_bad(topologies), on="topology_id")
    return tasks.head(-1).with_columns(execution_slot_sharing_group="subtask")


@penstock.decides("execution_slot_sharing_groups")
def all_in_one_slot(topologies: pl.DataFrame, execution_vertices: pl.DataFrame) -> pl.DataFrame:
    tasks = execution_vertices.join(only_bad(topologies), on="topology_id")
    return tasks.with_columns(execution_slot_sharing_group=0)


def table(name: str, **changed: Any) -> Callable[..., Any]:
    """A whole plan in which columns of a table of `bad` are changed."""

    def change(topologies: pl.DataFrame, **tables: pl.DataFrame) -> dict[str, pl.DataFrame]:
        is_bad = pl.col("topology_id").is_in(only_bad(topologies)["topology_id"].implode())
        rows = tables[name]
        values = {
            column: pl.when(is_bad).then(value).otherwise(column).cast(rows.schema[column])
            for column, value in changed.items()
        }
        return {name: rows.with_columns(**values)}

    scope: dict[str, Any] = {"change": change}
    exec(f"def of_{name}(topologies, {name}): return change(topologies, {name}={name})", scope)
    function: Callable[..., Any] = scope[f"of_{name}"]
    return penstock.decides("plan")(function)


BROKEN = [
    (too_parallel, Invariant.PARALLELISM_OUT_OF_RANGE, "operator 2 (map): found parallelism 40000"),
    (
        rehash,
        Invariant.RESULT_CHANGING_PARTITIONER,
        "edge 2 (map) to 4 (count): found REBALANCE instead of HASH",
    ),
    (misspelt, Invariant.VALUE_NOT_ALLOWED, "found SIDEWAYS"),
    (chain_a_shuffle, Invariant.NOT_CHAINABLE, "edge 2 (map) to 4 (count): found PARTITIONER_NOT_FORWARD"),
    (unknown_edge, Invariant.UNKNOWN_KEY, "stream_edges target 77 in_index 0"),
    (undecided, Invariant.VALUE_NOT_ALLOWED, "chainable: null"),
    (twice, Invariant.DECIDED_TWICE, "stream_edges target 2 in_index 0"),
    (one_task_left_out, Invariant.TASK_NOT_IN_ONE_SLOT, "subtask"),
    (all_in_one_slot, Invariant.SUBTASKS_SHARE_SLOT, "slot 0"),
    (table("chained_operators", vertex=pl.lit(1)), Invariant.CHAIN_NOT_CONNECTED, "operator 4 (count)"),
    (table("chained_operators", node=pl.lit(2)), Invariant.OPERATOR_NOT_IN_ONE_VERTEX, "operator 2 (map)"),
    (table("chained_operators", chain_index=pl.lit(1)), Invariant.NOT_ACYCLIC, "edge 1 to 2"),
    (table("job_vertices", topological_order=pl.lit(0)), Invariant.NOT_ACYCLIC, "edge 1 to 4"),
    (table("stream_nodes", parallelism=pl.col("id")), Invariant.FORWARD_UNEQUAL_PARALLELISM, "edge 1 to 2"),
    (table("job_vertices", vertex_id=pl.lit("ab")), Invariant.ID_NOT_UNIQUE, "job_vertices vertex_id ab"),
    (table("job_edges", data_set_id=pl.lit("ab")), Invariant.DANGLING_REFERENCE, "data set ab"),
    (
        table("job_edges", target_node=pl.lit(5)),
        Invariant.DANGLING_REFERENCE,
        "edge 2 to 4: found neither chained",
    ),
    (
        table("required_slots", slots=pl.lit(1)),
        Invariant.TASK_NOT_IN_ONE_SLOT,
        "found 1 slots required, 2 with tasks",
    ),
    (table("stream_nodes", parallelism=pl.lit(-5)), Invariant.PARALLELISM_OUT_OF_RANGE, "stream_nodes id 1"),
    (table("job_vertices", vertex=pl.lit(None)), Invariant.VALUE_NOT_ALLOWED, "job_vertices vertex null"),
    (
        table("execution_vertices", pipelined_region=pl.lit(None)),
        Invariant.VALUE_NOT_ALLOWED,
        "execution_vertices vertex 1 subtask 0: found pipelined_region: null",
    ),
    (
        table("execution_edges", subtask=pl.lit(0)),
        Invariant.ID_NOT_UNIQUE,
        "execution_edges target_vertex 4 input_index 0 subtask 0",
    ),
    (
        table("execution_vertices", subtask=pl.lit(0)),
        Invariant.ID_NOT_UNIQUE,
        "execution_vertices vertex 1 subtask 0",
    ),
    (
        table("execution_slot_sharing_groups", execution_slot_sharing_group=pl.col("vertex")),
        Invariant.SUBTASKS_SHARE_SLOT,
        "slot 1",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "rule", "said"), BROKEN, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_broken_rule_rejects_its_topology_only(function, rule, said, monkeypatch):
    plan = planned(custom_planner(function, monkeypatch), GOOD, BAD)
    ((name, (stage, error, message)),) = rejected(plan).items()
    assert (name, stage) == ("bad", "planner")
    assert rule in message
    assert said in message
    assert "planner penstock:tested" in message
    assert error in message
    assert plan.tables["topologies"]["name"].to_pylist() == ["good"]
    ids = set(plan.tables["topologies"]["topology_id"].to_pylist())
    for rows in (rows for name, rows in plan.tables.items() if name != "rejected"):
        assert set(rows["topology_id"].to_pylist()) <= ids


def test_forward_edges_between_unequal_parallelism_are_named(monkeypatch):
    @penstock.decides("parallelism")
    def first_only(topologies: pl.DataFrame) -> pl.DataFrame:
        return only_bad(topologies).with_columns(id=1, parallelism=7)

    forward = job("bad")
    forward["transformations"].insert(
        1, {"id": 2, "kind": "partition", "partitioner": "forward", "inputs": [1]}
    )
    forward["transformations"] = [
        {**row, "id": number, "inputs": [number - 1]} if number > 1 else row
        for number, row in enumerate(forward["transformations"], 1)
    ]
    plan = planned(custom_planner(first_only, monkeypatch), GOOD, forward)
    ((name, (stage, error, message)),) = rejected(plan).items()
    assert (name, stage, error) == ("bad", "planner", Invariant.FORWARD_UNEQUAL_PARALLELISM)
    assert "in-1" in message


def test_co_location_is_kept(monkeypatch):
    @penstock.decides("slot_sharing_groups")
    def apart(topologies: pl.DataFrame, job_vertices: pl.DataFrame) -> pl.DataFrame:
        vertices = job_vertices.join(only_bad(topologies), on="topology_id")
        return vertices.select("topology_id", "vertex", slot_sharing_group=pl.col("vertex").cast(pl.String))

    def located(name: str) -> dict[str, Any]:
        topology = job(name)
        for row in topology["transformations"]:
            if row["kind"] in ("source", "one_input"):
                row |= {"co_location_group": "c", "chaining": "HEAD"}
        return topology

    plan = planned(custom_planner(apart, monkeypatch), located("good"), located("bad"))
    ((name, (_, error, message)),) = rejected(plan).items()
    assert (name, error) == ("bad", Invariant.CO_LOCATION_BROKEN)
    assert "Cannot co-locate operators from different slot sharing groups" in message
