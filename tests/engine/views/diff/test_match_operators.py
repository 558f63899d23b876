"""Which operators `penstock diff` takes as the same, and what it warns of when their state is restored.

statements.jsonl.gz: three statements of a captured SQL script, before and after a DISTINCT in the first one.
"""

import gzip
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.engine.views.diff.savepoint_verdicts import TopologyDiff

Topology = dict[str, Any]


@pytest.fixture(scope="module")
def statements() -> tuple[list[Topology], list[Topology]]:
    with gzip.open(Path(__file__).parent / "statements.jsonl.gz", "rt", encoding="utf-8") as file:
        pairs = [json.loads(line) for line in file]
    return [pair["old"] for pair in pairs], [pair["new"] for pair in pairs]


def compared(old: list[Topology], new: list[Topology], **options: Any) -> dict[str, TopologyDiff]:
    return {one.name: one for one in penstock.diff(old, new, **options).topologies}


def changed(topologies: list[Topology], number: int, **values: Any) -> list[Topology]:
    """The topologies; in node `number` of the first, the text of each value's key replaced."""
    copies = deepcopy(topologies)
    copies[0]["stream_graph"]["nodes"][number] |= values
    return copies


def test_operators_of_sql_are_paired_only_if_all_that_is_known_is_equal(statements):
    found = compared(*statements)["item-totals"]
    assert [row["name"] for row in found.operators["added"]] == ["GroupAggregate[5]", "GroupAggregate[7]"]
    assert [row["name"] for row in found.operators["removed"]] == ["GroupAggregate[5]"]
    assert [(row["operator"], row["becomes"], row["suggestion"]) for row in found.lost] == [
        ("GroupAggregate[5]", None, None),
        ("Sink: item_totals[6]", {"operator": "Sink: item_totals[8]", "node": 8}, None),
    ]
    assert all("EXECUTE PLAN" in row["because"] for row in found.lost)


def test_statements_that_only_got_other_numbers_are_equal(statements):
    assert list(compared(*statements)) == ["item-totals"]
    old, new = statements
    slower = deepcopy(new)
    slower[1]["stream_graph"]["nodes"][0]["buffer_timeout"] = 7
    found = compared(old, slower)
    assert (list(found), found["revenue"].changes_plan) == (["item-totals", "revenue"], False)


@pytest.mark.parametrize(
    "values",
    [
        {"description": "[5]:GroupAggregate(groupBy=[item], select=[item, AVG(price) AS EXPR$1])"},
        {"output_type": "ROW<`item` STRING, `EXPR$1` BIGINT>"},
        {"operator_class": "org.apache.flink.table.runtime.operators.window.tvf.Another"},
    ],
)
def test_another_aggregate_that_has_the_id_of_the_old_one_is_a_warning(values, statements):
    old = statements[0]
    found = compared(old, changed(old, 3, **values))["item-totals"]
    assert [(row["operator"], row["by"]["operator"]) for row in found.taken] == [("GroupAggregate[5]",) * 2]
    assert found.verdict == "restores-with-warnings"


def test_names_that_flink_counts_in_a_session_are_the_same(statements):
    def numbered(number: int) -> list[Topology]:
        table = f"*anonymous_datastream_source${number}*"
        description = f"[1]:TableSourceScan(table=[[{table}]], fields=[item, price])"
        return changed(statements[0][:1], 0, name=f"Source: {table}[1]", description=description)

    assert compared(numbered(1), numbered(38)) == {}


def maps(*operators: Topology) -> Topology:
    made = [
        {"kind": "source", "name": "In", "uid": "in"},
        *operators,
        {"kind": "sink", "name": "Out", "uid": "out"},
    ]
    return {
        "name": "t",
        "parallelism": 2,
        "transformations": [
            {"id": number, "kind": "one_input", **({"inputs": [number - 1]} if number > 1 else {}), **one}
            for number, one in enumerate(made, 1)
        ],
    }


HASH = {"kind": "partition", "partitioner": "hash"}


def test_operators_of_one_name_are_told_apart_by_what_is_around_them():
    old = maps({"name": "Map"}, {"name": "Filter"}, {"name": "Map"})
    new = maps({"name": "Fresh"}, {"name": "Map"}, {"name": "Filter"}, {"name": "Map"})
    found = compared([old], [new], stateful=["*"])["t"]
    assert [row["name"] for row in found.operators["added"]] == ["Fresh"]
    assert found.operators["removed"] == []
    assert [row["node"] for row in found.operators["changed_ids"]] == [3, 4, 5]
    assert [row["by"]["operator"] for row in found.taken] == ["Fresh", "Map", "Filter"]


def test_no_advice_where_several_operators_could_be_meant():
    fresh = {"name": "Fresh", "uid": "fresh"}
    old, new = maps({"name": "Map"}), maps(fresh, {"name": "Map"}, {"name": "Map"})
    (lost,) = compared([old], [new], stateful=["Map"])["t"].lost
    assert (lost["suggestion"], "several" in lost["because"]) == (None, True)
    (lost,) = compared([old], [maps(fresh, {"name": "Map"})], stateful=["Map"])["t"].lost
    assert lost["suggestion"] == {"uid_hash": lost["operator_id"]}


@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 3)])
def test_no_advice_where_any_of_several_alike_operators_was_added_or_removed(before, after):
    counts = [HASH, {"name": "KeyedProcess"}]
    found = compared([maps(*counts * before)], [maps(*counts * after)], stateful=["KeyedProcess"])["t"]
    assert found.lost
    assert [row["suggestion"] for row in found.lost] == [None] * len(found.lost)


@pytest.mark.parametrize(
    ("before", "after", "stateful", "warning", "verdict"),
    [
        ((HASH,), (), (), "no-longer-keyed", "restores-with-warnings"),
        (
            (HASH,),
            ({"kind": "partition", "partitioner": "rebalance"},),
            (),
            "no-longer-keyed",
            "restores-with-warnings",
        ),
        ((), (HASH,), ("Count",), "newly-keyed", "restores-with-warnings"),
        ((), (HASH,), (), "newly-keyed", "restores"),
    ],
)
def test_an_operator_whose_keys_come_or_go_is_a_warning(before, after, stateful, warning, verdict):
    count = {"name": "Count", "uid": "count"}
    old, new = maps(*before, count), maps(*after, count)
    difference = penstock.diff([old], [new], stateful=stateful)
    (found,) = difference.topologies
    assert [row["warning"] for row in found.warnings] == [warning]
    assert found.verdict == verdict
    assert found.as_json()["strict"] == "ok"
    difference.require("restores-with-warnings")


def test_state_that_an_operator_of_another_class_gets_is_a_warning(statements):
    old = changed(statements[0][:1], 3, uid="count", description="Count")
    new = changed(
        old, 3, operator_class="org.apache.flink.streaming.runtime.operators.windowing.WindowOperator"
    )
    assert [row["warning"] for row in compared(old, new)["item-totals"].warnings] == ["other-class"]


def test_no_uid_hash_is_advised_to_an_operator_of_other_keys():
    old = maps(HASH, {"name": "Count"})
    new = maps({"name": "Before", "uid": "before"}, {"name": "Count"}, {"name": "After"})
    (lost,) = compared([old], [new])["t"].lost
    assert lost["suggestion"] is None


def test_without_a_savepoint_operators_without_state_are_named_with_a_suggestion_that_keeps_them():
    old = maps({"name": "Convert"}, {"name": "Writer", "uid": "writer"})
    new = maps({"name": "Added", "uid": "added"}, {"name": "Convert"}, {"name": "Writer", "uid": "writer"})
    savepoint, last_state = (
        penstock.diff([old], [new], from_=source) for source in ("savepoint", "last-state")
    )
    assert [one.verdict for one in savepoint.topologies] == ["restores"]
    (found,) = last_state.topologies
    (lost,) = found.lost
    assert (found.verdict, lost["operator"], lost["has_state"]) == ("refused", "Convert", False)
    assert found.as_json()["last_state"]["error"] == "IllegalStateException"
    with pytest.raises(penstock.errors.WorseVerdictError, match="every operator"):
        last_state.require("restores")
    new["transformations"][lost["becomes"]["node"] - 1] |= lost["suggestion"]
    assert penstock.diff([old], [new], from_="last-state").topologies[0].verdict == "restores"


def test_flink_also_refuses_another_max_parallelism_of_an_operator_without_state():
    """A savepoint lists operators without state, and Flink compares the max parallelism of all."""
    old, new = (
        maps({"name": "Map", "chaining": "NEVER", "max_parallelism": limit, "uid": "map"})
        for limit in (64, 32)
    )
    (found,) = penstock.diff([old], [new]).topologies
    assert found.verdict == "refused"
    assert found.restored is not None
    assert "Max parallelism mismatch" in str(found.restored.strict)
    (row,) = found.mismatched
    assert (row["operator"], row["has_state"], row["suggestion"]) == ("Map", False, {"max_parallelism": 64})
