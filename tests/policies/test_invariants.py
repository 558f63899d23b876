"""What a planner of one's own returns is checked: each rule is named, and only its topology is rejected."""

import os
import time
import weakref
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import penstock
from engine.planning.ask_policy import FailedPolicyError, call_policy
from engine.planning.find_policies import Policy, find_policies
from engine.planning.plan_by_policies import Question, plan_by_policies
from engine.planning.plan_in_process import PlannedTables, read_in_process
from plans.errors import ConfigurationError
from plans.policies.rules import Rule

KEYS = ["topology_id", "target", "in_index"]


def job(name: str, **of_first: Any) -> dict[str, Any]:
    """source -> map -> (hash) -> count -> sink."""
    return {
        "name": name,
        "parallelism": 2,
        "transformations": [
            {"id": 1, "kind": "source", "name": "in"},
            {"id": 2, "kind": "one_input", "name": "map", "inputs": [1], **of_first},
            {"id": 3, "kind": "partition", "partitioner": "hash", "inputs": [2]},
            {"id": 4, "kind": "one_input", "name": "count", "inputs": [3]},
            {"id": 5, "kind": "sink", "name": "out", "inputs": [4]},
        ],
    }


GOOD, BAD = job("good"), job("bad")


def policy(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> list[Policy]:
    monkeypatch.setattr(penstock, "tested", function, raising=False)
    return find_policies("penstock:tested")


def planned(policies: list[Policy], *topologies: dict[str, Any], seconds: float = 20) -> PlannedTables:
    read = read_in_process([*topologies], lambda stage: None)
    return plan_by_policies(read.frames, read.inputs, policies, question=Question(seconds=seconds))


def rejected(plan: PlannedTables) -> dict[str, tuple[str, str, str]]:
    rows = plan.tables["rejected"].to_pylist()
    return {row["name"]: (row["error_stage"], row["error"], row["message"]) for row in rows}


def of_bad(topologies: pl.DataFrame) -> pl.DataFrame:
    return topologies.filter(pl.col("name") == "bad").select("topology_id")


@penstock.decides("parallelism")
def too_parallel(topologies: pl.DataFrame) -> pl.DataFrame:
    return of_bad(topologies).with_columns(id=2, parallelism=40_000)


@penstock.decides("partitioners")
def rehash(topologies: pl.DataFrame) -> pl.DataFrame:
    return of_bad(topologies).with_columns(target=4, in_index=0, partitioner=pl.lit("REBALANCE"))


@penstock.decides("partitioners")
def misspelt(topologies: pl.DataFrame) -> pl.DataFrame:
    return of_bad(topologies).with_columns(target=2, in_index=0, partitioner=pl.lit("SIDEWAYS"))


@penstock.decides("chaining")
def chain_a_shuffle(topologies: pl.DataFrame) -> pl.DataFrame:
    return of_bad(topologies).with_columns(target=4, in_index=0, chainable=True)


@penstock.decides("chaining")
def unknown_edge(topologies: pl.DataFrame) -> pl.DataFrame:
    return of_bad(topologies).with_columns(target=77, in_index=0, chainable=True)


@penstock.decides("chaining")
def undecided(topologies: pl.DataFrame) -> pl.DataFrame:
    return of_bad(topologies).with_columns(target=2, in_index=0, chainable=pl.lit(None, pl.Boolean))


@penstock.decides("chaining")
def twice(topologies: pl.DataFrame) -> pl.DataFrame:
    row = of_bad(topologies).with_columns(target=2, in_index=0, chainable=True)
    return pl.concat([row, row])


@penstock.decides("execution_slot_sharing_groups")
def one_task_left_out(topologies: pl.DataFrame, execution_vertices: pl.DataFrame) -> pl.DataFrame:
    tasks = execution_vertices.join(of_bad(topologies), on="topology_id")
    return tasks.head(-1).with_columns(execution_slot_sharing_group="subtask")


@penstock.decides("execution_slot_sharing_groups")
def all_in_one_slot(topologies: pl.DataFrame, execution_vertices: pl.DataFrame) -> pl.DataFrame:
    tasks = execution_vertices.join(of_bad(topologies), on="topology_id")
    return tasks.with_columns(execution_slot_sharing_group=0)


def table(name: str, **changed: Any) -> Callable[..., Any]:
    """A whole plan in which columns of a table of `bad` are changed."""

    def change(topologies: pl.DataFrame, **tables: pl.DataFrame) -> dict[str, pl.DataFrame]:
        is_bad = pl.col("topology_id").is_in(of_bad(topologies)["topology_id"].implode())
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
    (too_parallel, Rule.PARALLELISM_OUT_OF_RANGE, "operator 2 (map): found parallelism 40000"),
    (rehash, Rule.RESULT_CHANGING_PARTITIONER, "edge 2 (map) to 4 (count): found REBALANCE instead of HASH"),
    (misspelt, Rule.VALUE_NOT_ALLOWED, "found SIDEWAYS"),
    (chain_a_shuffle, Rule.NOT_CHAINABLE, "edge 2 (map) to 4 (count): found PARTITIONER_NOT_FORWARD"),
    (unknown_edge, Rule.UNKNOWN_KEY, "stream_edges target 77 in_index 0"),
    (undecided, Rule.VALUE_NOT_ALLOWED, "chainable: null"),
    (twice, Rule.DECIDED_TWICE, "stream_edges target 2 in_index 0"),
    (one_task_left_out, Rule.TASK_NOT_IN_ONE_SLOT, "subtask"),
    (all_in_one_slot, Rule.SUBTASKS_SHARE_SLOT, "slot 0"),
    (table("chained_operators", vertex=pl.lit(1)), Rule.CHAIN_NOT_CONNECTED, "operator 4 (count)"),
    (table("chained_operators", node=pl.lit(2)), Rule.OPERATOR_NOT_IN_ONE_VERTEX, "operator 2 (map)"),
    (table("chained_operators", chain_index=pl.lit(1)), Rule.NOT_ACYCLIC, "edge 1 to 2"),
    (table("job_vertices", topological_order=pl.lit(0)), Rule.NOT_ACYCLIC, "edge 1 to 4"),
    (table("stream_nodes", parallelism=pl.col("id")), Rule.FORWARD_UNEQUAL_PARALLELISM, "edge 1 to 2"),
    (table("job_vertices", vertex_id=pl.lit("ab")), Rule.ID_NOT_UNIQUE, "job_vertices vertex_id ab"),
    (table("job_edges", data_set_id=pl.lit("ab")), Rule.DANGLING_REFERENCE, "data set ab"),
    (
        table("job_edges", target_node=pl.lit(5)),
        Rule.DANGLING_REFERENCE,
        "edge 2 to 4: found neither chained",
    ),
    (
        table("required_slots", slots=pl.lit(1)),
        Rule.TASK_NOT_IN_ONE_SLOT,
        "found 1 slots required, 2 with tasks",
    ),
    (table("stream_nodes", parallelism=pl.lit(-5)), Rule.PARALLELISM_OUT_OF_RANGE, "stream_nodes id 1"),
    (table("job_vertices", vertex=pl.lit(None)), Rule.VALUE_NOT_ALLOWED, "job_vertices vertex null"),
    (
        table("execution_vertices", pipelined_region=pl.lit(None)),
        Rule.VALUE_NOT_ALLOWED,
        "execution_vertices vertex 1 subtask 0: found pipelined_region: null",
    ),
    (
        table("execution_edges", subtask=pl.lit(0)),
        Rule.ID_NOT_UNIQUE,
        "execution_edges target_vertex 4 input_index 0 subtask 0",
    ),
    (
        table("execution_vertices", subtask=pl.lit(0)),
        Rule.ID_NOT_UNIQUE,
        "execution_vertices vertex 1 subtask 0",
    ),
    (
        table("execution_slot_sharing_groups", execution_slot_sharing_group=pl.col("vertex")),
        Rule.SUBTASKS_SHARE_SLOT,
        "slot 1",
    ),
]


@pytest.mark.parametrize(
    ("function", "rule", "said"), BROKEN, ids=lambda value: getattr(value, "__name__", "")
)
def test_a_broken_rule_rejects_its_topology_only(function, rule, said, monkeypatch):
    plan = planned(policy(function, monkeypatch), GOOD, BAD)
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
        return of_bad(topologies).with_columns(id=1, parallelism=7)

    forward = job("bad")
    forward["transformations"].insert(
        1, {"id": 2, "kind": "partition", "partitioner": "forward", "inputs": [1]}
    )
    forward["transformations"] = [
        {**row, "id": number, "inputs": [number - 1]} if number > 1 else row
        for number, row in enumerate(forward["transformations"], 1)
    ]
    plan = planned(policy(first_only, monkeypatch), GOOD, forward)
    ((name, (stage, error, message)),) = rejected(plan).items()
    assert (name, stage, error) == ("bad", "planner", Rule.FORWARD_UNEQUAL_PARALLELISM)
    assert "in-1" in message


def test_co_location_is_kept(monkeypatch):
    @penstock.decides("slot_sharing_groups")
    def apart(topologies: pl.DataFrame, job_vertices: pl.DataFrame) -> pl.DataFrame:
        vertices = job_vertices.join(of_bad(topologies), on="topology_id")
        return vertices.select("topology_id", "vertex", slot_sharing_group=pl.col("vertex").cast(pl.String))

    def located(name: str) -> dict[str, Any]:
        topology = job(name)
        for row in topology["transformations"]:
            if row["kind"] in ("source", "one_input"):
                row |= {"co_location_group": "c", "chaining": "HEAD"}
        return topology

    plan = planned(policy(apart, monkeypatch), located("good"), located("bad"))
    ((name, (_, error, message)),) = rejected(plan).items()
    assert (name, error) == ("bad", Rule.CO_LOCATION_BROKEN)
    assert "Cannot co-locate operators from different slot sharing groups" in message


def test_a_planner_that_raises_loses_what_it_raises_for(monkeypatch):
    @penstock.decides("chaining")
    def picky(topologies: pl.DataFrame) -> pl.DataFrame:
        if "bad" in topologies["name"].to_list():
            raise ValueError("I do not like it")
        return topologies.select("topology_id", target=2, in_index=0, chainable=False)

    plan = planned(policy(picky, monkeypatch), *(job(f"good {number}") for number in range(9)), BAD)
    assert rejected(plan)["bad"][:2] == ("planner", Rule.PLANNER_RAISED)
    assert "ValueError: I do not like it" in rejected(plan)["bad"][2]
    assert plan.planned == 9
    assert plan.tables["job_vertices"].num_rows == 9 * 3


def test_a_planner_that_hangs_ends_as_a_rejection(monkeypatch):
    @penstock.decides("chaining")
    def hangs(topologies: pl.DataFrame) -> pl.DataFrame:
        time.sleep(30)
        return topologies

    started = time.monotonic()
    plan = planned(policy(hangs, monkeypatch), GOOD, BAD, seconds=0.2)
    assert time.monotonic() - started < 15
    assert {error for _, error, _ in rejected(plan).values()} == {Rule.PLANNER_TIMED_OUT}
    assert plan.planned == 0


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "found NoneType"),
        (pl.DataFrame({"topology_id": [1]}), "target: found no such column"),
        (
            pl.DataFrame({"topology_id": [1], "target": [1], "in_index": [0], "chainable": ["yes"]}),
            "chainable: found String, allowed Boolean",
        ),
        (
            pl.DataFrame({"topology_id": [1], "target": [1], "in_index": [0], "chainable": [True]}),
            "topology_id: found 1, allowed those that were given",
        ),
    ],
)
def test_another_schema_ends_as_a_rejection(returned, said, monkeypatch):
    @penstock.decides("chaining")
    def wrong(topologies: pl.DataFrame) -> Any:
        return returned

    plan = planned(policy(wrong, monkeypatch), GOOD)
    assert rejected(plan)["good"][1] == Rule.PLANNER_SCHEMA
    assert said in rejected(plan)["good"][2]


def test_tables_come_as_arrow_where_annotated(monkeypatch):
    seen = []

    @penstock.decides("chaining")
    def arrow(stream_edges: pa.Table) -> pa.Table:
        seen.append(stream_edges)
        return stream_edges.select([*KEYS, "chainable"])

    assert planned(policy(arrow, monkeypatch), GOOD).planned == 1
    assert isinstance(seen[0], pa.Table)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:f", "ModuleNotFoundError"),
        ("penstock:no_such_name", "AttributeError"),
        ("penstock:plan", "without a decision"),
    ],
)
def test_what_is_no_planner_is_said(name, said):
    with pytest.raises(ConfigurationError, match=said):
        find_policies(name)


def test_a_parameter_that_is_no_table_is_said(monkeypatch):
    @penstock.decides("chaining")
    def strange(edges: pl.DataFrame) -> pl.DataFrame:
        return edges

    with pytest.raises(ConfigurationError, match="parameter edges: found no such table"):
        policy(strange, monkeypatch)
    with pytest.raises(ConfigurationError, match="allowed parallelism"):
        penstock.decides("colour")


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def lazy(returned: pl.DataFrame) -> Any:
    return returned.lazy().select("no_such_column")


def without_text(returned: pl.DataFrame) -> Any:
    raise SilentError


def same_columns(returned: pl.DataFrame) -> Any:
    column = returned["topology_id"].to_arrow()
    return pa.Table.from_arrays([column, column], names=["id", "id"])


@pytest.mark.parametrize(
    ("answer", "rule", "said"),
    [
        (lazy, Rule.PLANNER_RAISED, "ColumnNotFoundError"),
        (without_text, Rule.PLANNER_RAISED, "SilentError"),
        (same_columns, Rule.PLANNER_SCHEMA, "DuplicateError"),
        (lambda returned: pl.DataFrame, Rule.PLANNER_SCHEMA, "TypeError"),
    ],
)
def test_an_answer_that_cannot_be_read_ends_as_a_rejection(answer, rule, said, monkeypatch):
    @penstock.decides("chaining")
    def unreadable(topologies: pl.DataFrame) -> Any:
        return answer(topologies)

    plan = planned(policy(unreadable, monkeypatch), GOOD)
    assert rejected(plan)["good"][1] == rule
    assert said in rejected(plan)["good"][2]


@pytest.mark.parametrize("columns", [[], ["topology_id", "id", "parallelism"]])
def test_an_answer_without_rows_is_flinks_plan(columns, monkeypatch):
    @penstock.decides("parallelism")
    def nothing(topologies: pl.DataFrame) -> pl.DataFrame:
        return pl.DataFrame({column: [] for column in columns})

    assert planned(policy(nothing, monkeypatch), GOOD).planned == 1


def test_a_planner_may_change_the_tables_that_it_is_given(monkeypatch):
    @penstock.decides("parallelism")
    def changes(stream_nodes: pl.DataFrame) -> pl.DataFrame:
        answer = stream_nodes.select("topology_id", "id", parallelism=40_000)
        stream_nodes.columns = [f"column {number}" for number in range(stream_nodes.width)]
        return answer

    plan = planned(policy(changes, monkeypatch), GOOD)
    assert rejected(plan)["good"][1] == Rule.PARALLELISM_OUT_OF_RANGE


def test_halves_of_a_batch_may_answer_with_different_tables(monkeypatch):
    @penstock.decides("plan")
    def either(topologies: pl.DataFrame, stream_nodes: pl.DataFrame) -> dict[str, pl.DataFrame]:
        if len(topologies) > 1:
            raise ValueError("one at a time")
        return {"stream_nodes": stream_nodes} if topologies["name"][0] == "good" else {}

    assert planned(policy(either, monkeypatch), GOOD, BAD).planned == 2


def test_what_a_planner_prints_goes_to_standard_error_and_its_folder_is_its_own(
    monkeypatch, capsys, tmp_path
):
    @penstock.decides("parallelism")
    def talks(stream_nodes: pl.DataFrame) -> pl.DataFrame:
        print("hello")
        os.chdir(tmp_path)
        return stream_nodes.select("topology_id", "id", "parallelism")

    before = os.getcwd()
    planned(policy(talks, monkeypatch), GOOD)
    assert capsys.readouterr() == ("", "hello\n")
    assert os.getcwd() == before


def test_what_a_planner_held_when_it_raised_is_let_go(monkeypatch):
    class Held:
        pass

    held = []

    @penstock.decides("parallelism")
    def holds(topologies: pl.DataFrame) -> pl.DataFrame:
        large = Held()
        held.append(weakref.ref(large))
        raise MemoryError

    (asked,) = policy(holds, monkeypatch)
    tables = {"topologies": pl.DataFrame({"topology_id": [1]})}
    with pytest.raises(FailedPolicyError, match="MemoryError"):
        call_policy(asked, tables, 20, lambda returned: returned)
    assert held[0]() is None


def test_a_module_that_exits_is_said(monkeypatch, tmp_path):
    (tmp_path / "exits_at_once.py").write_text("import sys\nprint('hello')\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match="SystemExit: 0"):
        find_policies("exits_at_once:f")
