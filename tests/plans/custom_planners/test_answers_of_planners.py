"""What planners of one's own answer in odd ways ends as a rejection, or as an error that says it."""

import os
import time
import weakref
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import penstock
from penstock.engine.planning.find_custom_planners import find_custom_planners
from penstock.engine.planning.plan_by_custom_planners import FailedPolicyError, call_custom_planner
from penstock.plans.custom_planners.find_violations import Invariant
from penstock.plans.errors import ConfigurationError
from tests.plans.custom_planners.asked_planners import BAD, GOOD, KEYS, custom_planner, job, planned, rejected


def test_a_planner_that_raises_loses_what_it_raises_for(monkeypatch):
    @penstock.decides("chaining")
    def picky(topologies: pl.DataFrame) -> pl.DataFrame:
        if "bad" in topologies["name"].to_list():
            raise ValueError("I do not like it")
        return topologies.select("topology_id", target=2, in_index=0, chainable=False)

    plan = planned(custom_planner(picky, monkeypatch), *(job(f"good {number}") for number in range(9)), BAD)
    assert rejected(plan)["bad"][:2] == ("planner", Invariant.PLANNER_RAISED)
    assert "ValueError: I do not like it" in rejected(plan)["bad"][2]
    assert plan.planned == 9
    assert plan.tables["job_vertices"].num_rows == 9 * 3


def test_a_planner_that_hangs_ends_as_a_rejection(monkeypatch):
    @penstock.decides("chaining")
    def hangs(topologies: pl.DataFrame) -> pl.DataFrame:
        time.sleep(30)
        return topologies

    started = time.monotonic()
    plan = planned(custom_planner(hangs, monkeypatch), GOOD, BAD, seconds=0.2)
    assert time.monotonic() - started < 15
    assert {error for _, error, _ in rejected(plan).values()} == {Invariant.PLANNER_TIMED_OUT}
    assert plan.planned == 0


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "found NoneType (must be a table"),
        (pl.DataFrame({"topology_id": [1]}), "no column target (Int32)"),
        (
            pl.DataFrame({"topology_id": [1], "target": [1], "in_index": [0], "chainable": ["yes"]}),
            "column chainable of type String (must be Boolean)",
        ),
        (
            pl.DataFrame({"topology_id": [1], "target": [1], "in_index": [0], "chainable": [True]}),
            "topology_id must be a topology of this call, got 1",
        ),
    ],
)
def test_another_schema_ends_as_a_rejection(returned, said, monkeypatch):
    @penstock.decides("chaining")
    def wrong(topologies: pl.DataFrame) -> Any:
        return returned

    plan = planned(custom_planner(wrong, monkeypatch), GOOD)
    assert rejected(plan)["good"][1] == Invariant.PLANNER_SCHEMA
    assert said in rejected(plan)["good"][2]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (
            {"streets": pl.DataFrame(), "avenues": pl.DataFrame()},
            "found dict avenues, streets (must be a dict of",
        ),
        ([pl.DataFrame()], "found list  (must be a dict of"),
    ],
)
def test_tables_that_no_plan_has_end_as_a_rejection(returned, said, monkeypatch):
    @penstock.decides("plan")
    def unknown(topologies: pl.DataFrame) -> Any:
        return returned

    plan = planned(custom_planner(unknown, monkeypatch), GOOD)
    assert rejected(plan)["good"][1] == Invariant.PLANNER_SCHEMA
    assert said in rejected(plan)["good"][2]


def test_tables_come_as_arrow_where_annotated(monkeypatch):
    seen = []

    @penstock.decides("chaining")
    def arrow(stream_edges: pa.Table) -> pa.Table:
        seen.append(stream_edges)
        return stream_edges.select([*KEYS, "chainable"])

    assert planned(custom_planner(arrow, monkeypatch), GOOD).planned == 1
    assert isinstance(seen[0], pa.Table)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_such_module:f", "ModuleNotFoundError"),
        ("penstock:no_such_name", "AttributeError"),
        ("penstock:plan", "marked with a decision"),
    ],
)
def test_what_is_no_planner_is_said(name, said):
    with pytest.raises(ConfigurationError, match=said):
        find_custom_planners(name)


def test_a_parameter_that_is_no_table_is_said(monkeypatch):
    @penstock.decides("chaining")
    def strange(edges: pl.DataFrame) -> pl.DataFrame:
        return edges

    with pytest.raises(ConfigurationError, match=r"parameters must be tables .*, got edges"):
        custom_planner(strange, monkeypatch)
    with pytest.raises(ConfigurationError, match="must be parallelism"):
        penstock.decides("colour")  # type: ignore[arg-type]


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
        (lazy, Invariant.PLANNER_RAISED, "ColumnNotFoundError"),
        (without_text, Invariant.PLANNER_RAISED, "SilentError"),
        (same_columns, Invariant.PLANNER_SCHEMA, "DuplicateError"),
        (lambda returned: pl.DataFrame, Invariant.PLANNER_SCHEMA, "TypeError"),
    ],
)
def test_an_answer_that_cannot_be_read_ends_as_a_rejection(answer, rule, said, monkeypatch):
    @penstock.decides("chaining")
    def unreadable(topologies: pl.DataFrame) -> Any:
        return answer(topologies)

    plan = planned(custom_planner(unreadable, monkeypatch), GOOD)
    assert rejected(plan)["good"][1] == rule
    assert said in rejected(plan)["good"][2]


@pytest.mark.parametrize("columns", [[], ["topology_id", "id", "parallelism"]])
def test_an_answer_without_rows_is_flinks_plan(columns, monkeypatch):
    @penstock.decides("parallelism")
    def nothing(topologies: pl.DataFrame) -> pl.DataFrame:
        return pl.DataFrame({column: [] for column in columns})

    assert planned(custom_planner(nothing, monkeypatch), GOOD).planned == 1


def test_a_planner_may_change_the_tables_that_it_is_given(monkeypatch):
    @penstock.decides("parallelism")
    def changes(stream_nodes: pl.DataFrame) -> pl.DataFrame:
        answer = stream_nodes.select("topology_id", "id", parallelism=40_000)
        stream_nodes.columns = [f"column {number}" for number in range(stream_nodes.width)]
        return answer

    plan = planned(custom_planner(changes, monkeypatch), GOOD)
    assert rejected(plan)["good"][1] == Invariant.PARALLELISM_OUT_OF_RANGE


def test_halves_of_a_batch_may_answer_with_different_tables(monkeypatch):
    @penstock.decides("plan")
    def either(topologies: pl.DataFrame, stream_nodes: pl.DataFrame) -> dict[str, pl.DataFrame]:
        if len(topologies) > 1:
            raise ValueError("one at a time")
        return {"stream_nodes": stream_nodes} if topologies["name"][0] == "good" else {}

    assert planned(custom_planner(either, monkeypatch), GOOD, BAD).planned == 2


def test_what_a_planner_prints_goes_to_standard_error_and_its_folder_is_its_own(
    monkeypatch, capsys, tmp_path
):
    @penstock.decides("parallelism")
    def talks(stream_nodes: pl.DataFrame) -> pl.DataFrame:
        print("hello")
        os.chdir(tmp_path)
        return stream_nodes.select("topology_id", "id", "parallelism")

    before = os.getcwd()
    planned(custom_planner(talks, monkeypatch), GOOD)
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

    (asked,) = custom_planner(holds, monkeypatch)
    tables = {"topologies": pl.DataFrame({"topology_id": [1]})}
    with pytest.raises(FailedPolicyError, match="MemoryError"):
        call_custom_planner(asked, tables, 20, lambda returned: returned)
    assert held[0]() is None


def test_a_module_that_exits_is_said(monkeypatch, tmp_path):
    (tmp_path / "exits_at_once.py").write_text("import sys\nprint('hello')\nsys.exit(0)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match="SystemExit: 0"):
        find_custom_planners("exits_at_once:f")
