"""Explanations of all golden topologies agree with their plans, and the values shown with the verdicts."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import mmh3
import pytest

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.store.plan_tables import PlanTables
from penstock.engine.views.diff.savepoint_verdicts import Pair, savepoint_verdicts
from penstock.engine.views.explain_plan import (
    ExplainedPlan,
    explain_edge,
    explain_operator,
    explain_slots,
)
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from penstock.plans.tables.column_types import TOPOLOGY

GOLDEN = sorted(
    path for path in (Path(__file__).parents[3] / "golden").glob("*.jsonl.gz") if "large" not in path.name
)

MET = {
    "CHAINING_DISABLED": lambda found: found["chaining"] == "on",
    "SEVERAL_INPUTS": lambda found: found["input edges"] == 1 or len(found) > 1,
    "UNION_INPUT": lambda found: found["edges into the input"] == 1,
    "DIFFERENT_SLOT_SHARING_GROUP": lambda found: found["producer"] == found["reader"],
    "YIELDING_BEHIND_LEGACY_SOURCE": lambda found: not (found["reader yields"] and found["SourceFunction"]),
    "UPSTREAM_NEVER_CHAINS": lambda found: found["strategy"] != "NEVER",
    "DOWNSTREAM_NEVER_CHAINS": lambda found: found["strategy"] != "NEVER",
    "DOWNSTREAM_IS_HEAD": lambda found: found["strategy"] != "HEAD",
    "UPSTREAM_IS_NOT_A_SOURCE": lambda found: (
        found["strategy"] != "HEAD_WITH_SOURCES" or found["producer is a source"]
    ),
    "DIFFERENT_PARALLELISM": lambda found: found["producer"] == found["reader"],
    "DIFFERENT_MAX_PARALLELISM": lambda found: found["may differ"] or found["producer"] == found["reader"],
    "PARTITIONER_NOT_FORWARD": lambda found: found["partitioner"] == "FORWARD",
    "BATCH_EXCHANGE": lambda found: (
        found["exchange mode"] != "BATCH"
        or found["partitioner class"] not in ("ForwardPartitioner", "ForwardForUnspecifiedPartitioner")
    ),
}
"""Each condition, of the values that its explanation shows."""


@cache
def explained_plans(path: Path) -> list[ExplainedPlan]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return explained([json.loads(line)["topology"] for line in lines])


def explained(given: list[dict[str, Any]]) -> list[ExplainedPlan]:
    planned = plan_in_process(given)
    tables = {name: from_arrow(table) for name, table in planned.tables.items()}
    parts: dict[str, dict[Any, Any]] = {
        name: frame.partition_by(TOPOLOGY, as_dict=True)
        for name, frame in tables.items()
        if TOPOLOGY in frame.columns
    }

    def plan(name: str, key: int) -> PlanTables:
        return PlanTables(
            "golden",
            tuple(parts),
            lambda table, _: parts[table].get((key,), tables[table].clear()).lazy(),
            {},
            None,
            topology=name,
        )

    topologies = tables["topologies"].select("name", TOPOLOGY)
    return [ExplainedPlan(plan(name, key)) for name, key in topologies.iter_rows()]


@pytest.mark.slow
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name.split(".")[0])
def test_an_edge_is_chained_if_and_only_if_all_conditions_are_met(path):
    edges = 0
    for plan in explained_plans(path):
        for edge, why in plan.edges:
            edges += 1
            explained = explain_edge(plan, edge, why)
            where = plan.plan.topology, explained
            met = {one["reason"]: one["met"] for one in explained["conditions"]}
            assert explained["chained"] == all(met.values()), where
            of_values = {
                one["reason"]: bool(MET[one["reason"]](one["found"])) for one in explained["conditions"]
            }
            assert of_values == met, where
            assert not any(one["change"] and one["met"] for one in explained["conditions"]), where
            if edge["source"] in plan.operators:  # some source leads to it
                assert explained["chained"] == (explained["result"] is None), where
            if "emits nothing before the end" in str(explained["result"]):
                assert explained["result"]["type"] == "BLOCKING", where
                assert any(node["no_output_until_end_of_input"] for node in plan.nodes.values()), where
    assert edges > 0


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name.split(".")[0])
def test_what_is_said_of_ids_groups_and_slots_gives_them(path):
    for plan in explained_plans(path):
        for node in plan.nodes.values():
            explained = explain_operator(plan, node)
            where = plan.plan.topology, explained
            if explained["operator_id"] is not None:
                assert explained["operator_id"] in ids_as_explained(plan, node), where
            if "agree" in explained["slot_sharing_group_because"]:
                assert explained["slot_sharing_group"] == "default", where
        for group in explain_slots(plan):
            of_group = [
                one["parallelism"]
                for one in plan.vertices.values()
                if one["slot_sharing_group"] == group["slot_sharing_group"]
            ]
            assert group["slots"] == max(of_group) or -1 in of_group, group


def ids_as_explained(plan: ExplainedPlan, node: dict[str, Any]) -> Iterator[str]:
    """The id that a uid gives, or those that each number in the walk gives."""
    if node["uid"] is not None:
        yield mmh3.mmh3_x64_128_digest(node["uid"].encode(), 0).hex()
        return
    times = 1 + plan.chained_outputs[node["id"]]
    mixed = [bytes.fromhex(plan.operators[edge["source"]]["operator_id"]) for edge in plan.inputs[node["id"]]]
    for number in range(len(plan.nodes)):
        digest = mmh3.mmh3_x64_128_digest(number.to_bytes(4, "little") * times, 0)
        for other in mixed:
            digest = bytes(one * 37 % 256 ^ two for one, two in zip(digest, other, strict=True))
        yield digest.hex()


@pytest.mark.parametrize(("groups", "shown"), [(5, "'g5')"), (6, "'g5', …)")])
def test_at_most_five_disagreeing_groups_are_named(groups, shown):
    numbers = range(1, groups + 1)
    rows = [{"id": n, "kind": "source", "name": "in", "slot_sharing_group": f"g{n}"} for n in numbers]
    union = {"id": groups + 1, "kind": "union", "inputs": list(numbers)}
    sink = {"id": groups + 2, "kind": "sink", "name": "out", "inputs": [groups + 1]}
    (plan,) = explained([{"name": "job", "transformations": [*rows, union, sink]}])
    assert shown in explain_operator(plan, plan.nodes[groups + 2])["slot_sharing_group_because"]


@pytest.mark.parametrize(
    ("own", "mode", "said"),
    [
        ({}, "STREAMING", "the default of kind one_input"),
        ({"chaining": "HEAD"}, "STREAMING", "the operator"),
        ({}, "BATCH", "Flink: it is keyed, in a BATCH job"),
    ],
)
def test_who_has_set_a_chaining_strategy(own, mode, said):
    rows = [
        {"id": 1, "kind": "source", "name": "s"},
        {"id": 2, "kind": "partition", "partitioner": "hash", "inputs": [1]},
        {"id": 3, "kind": "one_input", "name": "m", "inputs": [2], **own},
    ]
    (plan,) = explained(
        [{"name": "job", "config": {"execution.runtime-mode": mode}, "transformations": rows}]
    )
    ((edge, why),) = plan.edges
    assert said in str(explain_edge(plan, edge, why)["conditions"])


def test_bits_are_the_places_of_reasons():
    assert [reason.bit for reason in NotChainableReason] == [1 << i for i in range(len(NotChainableReason))]
    assert [NotChainableReason[reason.value] for reason in NotChainableReason] == list(NotChainableReason)


def test_another_planner_may_keep_operators_apart():
    plan = next(one for one in explained_plans(GOLDEN[0]) if any(edge["chainable"] for edge, _ in one.edges))
    edge, why = next((edge, why) for edge, why in plan.edges if edge["chainable"])
    assert all(one["reason"] != "DECIDED_BY_PLANNER" for one in explain_edge(plan, edge, why)["conditions"])
    apart = {**edge, "chainable": False, "not_chainable_reasons": ["DECIDED_BY_PLANNER"]}
    (unmet,) = [one for one in explain_edge(plan, apart, why)["conditions"] if not one["met"]]
    assert (unmet["reason"], "--planner" in unmet["method"]) == ("DECIDED_BY_PLANNER", True)


# Advice: followed, it comes true, nothing is refused, and all state is restored.


def chain(*rows: dict[str, Any], **settings: Any) -> dict[str, Any]:
    made = [{"kind": "source", "name": "in"}, *rows]
    numbered = [
        {"id": n, **({"inputs": [n - 1]} if n > 1 else {}), "name": f"o{n}", "kind": "one_input", **row}
        for n, row in enumerate(made, 1)
    ]
    return {"name": "job", "parallelism": 4, "transformations": numbered, **settings}


SINK = {"kind": "sink", "name": "out"}
HASH = {"kind": "partition", "partitioner": "hash"}
GIVEN_ADVICE = {
    "CHAINING_DISABLED": chain({}, SINK, config={"pipeline.operator-chaining.enabled": "false"}),
    "DIFFERENT_SLOT_SHARING_GROUP": chain({}, {"slot_sharing_group": "g"}, {"slot_sharing_group": "g"}, SINK),
    "UPSTREAM_NEVER_CHAINS": chain({"chaining": "NEVER"}, {}, SINK),
    "DOWNSTREAM_NEVER_CHAINS": chain({}, {"chaining": "NEVER"}, SINK),
    "DOWNSTREAM_IS_HEAD": chain({}, {"chaining": "HEAD"}, SINK),
    "DIFFERENT_PARALLELISM": chain({}, {"parallelism": 2}, {"parallelism": 2}, HASH, {}, SINK),
    "BATCH_EXCHANGE": chain(
        {"kind": "partition", "partitioner": "forward", "exchange_mode": "BATCH", "name": ""},
        {},
        config={"execution.runtime-mode": "BATCH"},
    ),
}
WITHHELD = {
    "keyed": chain(HASH, {"name": "count"}, SINK),
    "keyed batch": chain(HASH, {}, SINK, config={"execution.runtime-mode": "BATCH"}),
    "keyed batch, head": chain(HASH, {"chaining": "HEAD"}, SINK, config={"execution.runtime-mode": "BATCH"}),
    "memory": chain(
        {"managed_memory": {"OPERATOR": 2**31 - 8}},
        *({"slot_sharing_group": "g", "managed_memory": {"OPERATOR": 8}}, {"slot_sharing_group": "g"}, SINK),
    ),
    **{
        name: chain({"kind": "partition", "partitioner": name}, {"parallelism": 4}, SINK)
        for name in ("broadcast", "global", "shuffle", "rebalance", "rescale")
    },
    "alone": chain({}, {"parallelism": 1}, {}, SINK),
    "sink": chain({}, {**SINK, "parallelism": 2}),
    "keyed reader's chain": chain({}, {"parallelism": 2, "slot_scope": ["STATE_BACKEND"]}, HASH, {}, SINK),
    "forward after it": chain(
        {}, {"parallelism": 2}, {"parallelism": 2, "chaining": "HEAD", "uid": "u"}, HASH, {}
    ),
    "max parallelism": chain({}, {"max_parallelism": 3, "parallelism": 2}, HASH, {}),
    "max parallelism differs": chain(
        {"max_parallelism": 64},
        SINK,
        config={"pipeline.operator-chaining.chain-operators-with-different-max-parallelism": "false"},
    ),
    "co-location": chain(
        {}, {"slot_sharing_group": "g", "co_location_group": "c"}, {"slot_sharing_group": "g"}, SINK
    ),
    "union": {
        "name": "job",
        "transformations": [
            {"id": 1, "kind": "source", "name": "a"},
            {"id": 2, "kind": "source", "name": "b"},
            {"id": 3, "kind": "union", "inputs": [1, 2]},
            {"id": 4, "kind": "sink", "name": "out", "inputs": [3]},
        ],
    },
}


def advice(plan: ExplainedPlan) -> Iterator[tuple[dict[str, Any], str]]:
    """Each edge, explained, with a reason against which there is advice."""
    for edge, why in plan.edges:
        explained_edge = explain_edge(plan, edge, why)
        for condition in explained_edge["conditions"]:
            if condition["change"] is not None:
                yield explained_edge, condition["reason"]


def followed(plan: ExplainedPlan, given: dict[str, Any], edge: dict[str, Any], reason: str) -> dict[str, Any]:
    """The topology with the uid hashes and the change that are advised."""
    copy = json.loads(json.dumps(given))
    rows = {row["id"]: row for row in copy["transformations"]}
    for node, operator in plan.operators.items():
        if plan.nodes[node]["uid"] is None and node in rows:
            rows[node]["uid_hash"] = operator["operator_id"]
    source, target = edge["source"]["node"], edge["target"]["node"]
    producer = plan.nodes[source]
    if reason == "CHAINING_DISABLED":
        copy["chaining"] = True
        copy.setdefault("config", {})["pipeline.operator-chaining.enabled"] = "true"
    elif reason == "DIFFERENT_SLOT_SHARING_GROUP":
        rows[target]["slot_sharing_group"] = producer["slot_sharing_group"]
    elif reason == "UPSTREAM_NEVER_CHAINS":
        rows[source]["chaining"] = "ALWAYS"
    elif reason in ("DOWNSTREAM_NEVER_CHAINS", "DOWNSTREAM_IS_HEAD"):
        rows[target]["chaining"] = "ALWAYS"
    elif reason in ("DIFFERENT_PARALLELISM", "PARTITIONER_NOT_FORWARD"):
        vertex = plan.operators[target]["vertex"]
        for node, operator in plan.operators.items():
            if operator["vertex"] == vertex:
                rows[node]["parallelism"] = producer["parallelism"]
    elif reason == "BATCH_EXCHANGE":
        for number in rows[target]["inputs"]:
            rows[number]["exchange_mode"] = "UNDEFINED"
    return dict(copy)


def follow_all(given: list[dict[str, Any]]) -> Counter[str]:
    """How often each kind of advice was followed; asserts that each comes true and keeps all state."""
    given = [
        {**topology, "name": f"{n}"} for n, topology in enumerate(given) if "transformations" in topology
    ]
    by_name = {topology["name"]: topology for topology in given}
    asked: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = []
    for plan in explained(given):
        topology = by_name[plan.plan.topology]
        physical = {row["id"] for row in topology["transformations"]}
        for edge, reason in advice(plan):
            if {edge["source"]["node"], edge["target"]["node"]} <= physical:
                name = f"{plan.plan.topology} {len(asked)}"
                asked.append(
                    (topology, {**followed(plan, topology, edge, reason), "name": name}, edge, reason)
                )
    after = {plan.plan.topology: plan for plan in explained([new for _, new, _, _ in asked])}
    pairs = [Pair(new["name"], old, new, None) for old, new, _, _ in asked]
    for (old, new, edge, reason), restored in zip(asked, savepoint_verdicts(pairs), strict=True):
        where = reason, edge, old, new
        assert new["name"] in after, (where, restored)
        plan = after[new["name"]]
        (now,) = [
            explain_edge(plan, one, why)
            for one, why in plan.edges
            if (one["target"], one["in_index"]) == (edge["target"]["node"], edge["in_index"])
        ]
        assert {one["reason"]: one["met"] for one in now["conditions"]}[reason], where
        same_restores = next(iter(savepoint_verdicts([Pair("same", old, old, None)])))
        assert restored.verdict == same_restores.verdict, (where, restored)
    return Counter(reason for *_, reason in asked)


def test_each_kind_of_advice_comes_true_and_keeps_all_state():
    for reason, topology in GIVEN_ADVICE.items():
        assert follow_all([topology])[reason] > 0, reason


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "batch"])
def test_advice_for_golden_topologies_comes_true_and_keeps_all_state(name):
    path = next(path for path in GOLDEN if path.name.split(".")[0] == name)
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        given = [json.loads(line)["topology"] for line in lines]
    assert follow_all(given).total() > 30


@pytest.mark.parametrize("name", WITHHELD)
def test_no_advice_is_given_that_changes_results_or_loses_state(name):
    (plan,) = explained([WITHHELD[name]])
    assert any(edge["not_chainable_reasons"] for edge, _ in plan.edges)
    # That the author's HEAD can go is right; that the parallelism can change, it would not be.
    allowed = {"DOWNSTREAM_IS_HEAD"} if name == "forward after it" else set()
    assert {reason for _, reason in advice(plan)} == allowed


def test_of_sql_nothing_is_advised():
    for plan in explained_plans(next(path for path in GOLDEN if path.name.startswith("captured"))):
        if any((node["description"] or "").startswith("[") for node in plan.nodes.values()):
            assert list(advice(plan)) == [], plan.plan.topology
