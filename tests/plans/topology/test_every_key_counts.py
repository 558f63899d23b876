"""Every key that topologies may have changes some plan, or it is listed here why it cannot."""

from typing import Any

import pytest

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.layers import LAYER_TABLES
from penstock.plans.topology.operator_rules import EDGE_RULES, NODE_RULES, SETTING_RULES, TRANSFORMATION_RULES
from penstock.plans.vocabulary import Layer
from tests.plans.topology.changed_graphs import (
    BASE,
    BATCH,
    GRAPHS,
    RESOURCES,
    Topology,
    changed,
)

LATER_LAYERS = (Layer.JOB_GRAPH, Layer.EXECUTION_GRAPH, Layer.SLOTS)

WITHOUT_EFFECT = {
    "setting sinks": "StreamingJobGraphGenerator never asks StreamGraph.getSinkIDs",
    "setting vertex_description_mode": "shapes the operators' pretty name, which is no part of the tables",
    "node buffer_timeout": "StreamEdge has a copy, and the JobGraph asks StreamEdge.getBufferTimeout",
    "node coordinated": "coordinators are serialized into the JobVertex and decide nothing about the plan",
    "node operator_factory": "only whether there is one counts, and then there is a chaining strategy",
    "node input_requirements": "goes into the StreamConfig of the task, where the operator reads it",
    "edge inter_inputs_keys_correlated": "StreamEdge.configureKeyCorrelation derives it from the "
    "partitioner; only adaptive optimizers at run time set it otherwise",
    "edge intra_input_key_correlated": "as inter_inputs_keys_correlated",
    "edge unaligned_checkpoints": "goes into the task's StreamConfig (NonChainedOutput)",
    "edge chainable": "StreamingJobGraphGenerator.isChainable works it out anew",
    "setting slot_sharing_group_resources": "the profile that is asked of a slot, beside the plan",
    "node description": "JobVertex.getOperatorPrettyName, which is no part of the tables",
    "node keyed": "the state backend's share of memory is declared at slot_scope",
    "node operator_class": "read by people",
    "node function_class": "read by people",
    "node output_type": "becomes a serializer in the task's StreamConfig",
    "node consumes_data_set": "JobVertex.addIntermediateDataSetIdToConsume; the task looks it up",
}
"""Key to why it has no effect on the JobGraph or what is made of it, from Flink 2.3.0's source."""

OTHER_VALUES: dict[str, Any] = {
    "node name": "other",
    "node parallelism": 3,
    "node slot_sharing_group": "other",
    "node uid": "uid",
    "node uid_hash": "a" * 32,
    "node chaining": "NEVER",
    "node coordinated": True,
    "node operator_factory": "OtherFactory",
    "node no_output_until_end_of_input": True,
    "node output_only_after_end_of_stream": True,
    "node supports_concurrent_execution_attempts": False,
    "node managed_memory": {"OPERATOR": 1},
    "node slot_scope": ["PYTHON"],
    "node input_requirements": {"0": "SORTED"},
    "edge type_number": 1,
    "edge pointwise": True,
    "edge broadcast": True,
    "edge exchange_mode": "HYBRID_FULL",
    "setting slot_sharing_group_resources": {"default": RESOURCES},
    "node description": "other",
    "node keyed": True,
    "node operator_class": "org.apache.flink.streaming.api.operators.StreamMap",
    "node function_class": "Tokenizer",
    "node output_type": "Long",
    "edge unaligned_checkpoints": True,
    "edge inter_inputs_keys_correlated": True,
    "edge intra_input_key_correlated": False,
    "edge chainable": False,
}
"""Another value, of the middle node and of the edge out of it."""

RULES = {"setting": SETTING_RULES, "node": NODE_RULES, "edge": EDGE_RULES}
KEYS = [f"{part} {key}" for part, rules in RULES.items() for key in rules]


def written(**keys: Any) -> Topology:
    """Source, partition, keyed operator with these keys, side output, sink."""
    transformations = [
        {"id": 1, "kind": "source", "name": "s"},
        {"id": 2, "kind": "partition", "partitioner": "hash", "inputs": [1]},
        {"id": 3, "kind": "one_input", "name": "m", "inputs": [2], **keys},
        {"id": 4, "kind": "side_output", "tag": "late", "inputs": [3]},
        {"id": 5, "kind": "select", "names": ["a"], "inputs": [4]},
        {"id": 6, "kind": "one_input", "name": "k", "inputs": [5]},
    ]
    return {"name": "job", "parallelism": 2, "transformations": transformations}


def with_key(place: int, key: str, value: Any) -> Topology:
    topology = written()
    topology["transformations"][place][key] = value
    return topology


OF_TRANSFORMATIONS: dict[str, Topology] = {
    "id": with_key(2, "id", 7),
    "kind": with_key(2, "kind", "async"),
    "inputs": with_key(2, "inputs", [1]),
    "name": written(name="other"),
    "parallelism": written(parallelism=3),
    "max_parallelism": written(max_parallelism=64),
    "uid": written(uid="uid"),
    "uid_hash": written(uid_hash="a" * 32),
    "slot_sharing_group": written(slot_sharing_group="other"),
    "co_location_group": written(co_location_group="group"),
    "buffer_timeout": written(buffer_timeout=7),
    "chaining": written(chaining="NEVER"),
    "managed_memory": written(managed_memory={"OPERATOR": 3}),
    "slot_scope": written(slot_scope=["PYTHON"]),
    "min_resources": written(min_resources=RESOURCES, preferred_resources=RESOURCES),
    "preferred_resources": written(
        min_resources=RESOURCES, preferred_resources=RESOURCES | {"cpu_cores": 2.0}
    ),
    "partitioner": with_key(1, "partitioner", "rebalance"),
    "exchange_mode": with_key(1, "exchange_mode", "PIPELINED"),
    "tag": with_key(3, "tag", "other"),
    "names": with_key(4, "names", ["b"]),
    "node_id": written(node_id=9),
    "description": written(description="other"),
    "operator_factory": written(operator_factory="OtherFactory"),
    "operator_class": written(operator_class="org.apache.flink.streaming.api.operators.StreamMap"),
    "function_class": written(function_class="Tokenizer"),
    "output_type": written(output_type="Long"),
    "keyed": written(keyed=[False]),
    "supports_concurrent_execution_attempts": written(supports_concurrent_execution_attempts=False),
    "unaligned_checkpoints": with_key(1, "unaligned_checkpoints", False),
}


def sink(**keys: Any) -> Topology:
    """`written`, and a sink with these keys."""
    topology = written()
    topology["transformations"].append({"id": 7, "kind": "sink", "name": "out", "inputs": [6], **keys})
    return topology


AUTOMATIC = {"execution.runtime-mode": "AUTOMATIC"}


def lone(kind: str, config: dict[str, str] | None = None, **keys: Any) -> Topology:
    """`written`, and a source of this kind with these keys, read by a sink unless the kind is `source`."""
    topology = written() | {"config": config or {}}
    topology["transformations"].append({"id": 7, "kind": kind, **keys})
    if kind != "source":
        topology["transformations"].append({"id": 8, "kind": "sink", "name": "out", "inputs": [7]})
    return topology


COMMITTED: dict[str, Any] = {"writer": {}, "committer": {}}
STEP = {"kind": "one_input", "name": "step"}
OF_SINKS: dict[str, tuple[Topology, Topology]] = {
    "writer": (sink(), sink(writer={})),
    "committer": (sink(writer={}), sink(**COMMITTED)),
    "global_committer": (sink(**COMMITTED), sink(**COMMITTED, global_committer=True)),
    "pre_write": (sink(writer={}), sink(writer={}, pre_write=[STEP])),
    "pre_commit": (sink(**COMMITTED), sink(**COMMITTED, pre_commit=[STEP])),
    "post_commit": (sink(**COMMITTED), sink(**COMMITTED, post_commit=[STEP])),
    "parallelism_configured": (sink(parallelism=2), sink(parallelism=2, parallelism_configured=False)),
    "bounded": (
        lone("legacy_source", config=AUTOMATIC),
        lone("legacy_source", config=AUTOMATIC, bounded=True),
    ),
    "registered": (lone("source"), lone("source", registered=True)),
    "data_set": (lone("cache_read", data_set="a" * 32), lone("cache_read", data_set="b" * 32)),
}
"""A key of sinks, or of another lone transformation, to a topology without it and one with it."""


OF_TOPOLOGIES: dict[str, Topology] = {
    key: {**written(), key: value}
    for key, value in (("parallelism", 3), ("max_parallelism", 64), ("chaining", False), ("config", BATCH))
}


@pytest.fixture(scope="module")
def plans() -> dict[str, list[Any]]:
    """What is planned after the layer in which a topology comes in, and its refusal; by case, in one run."""
    cases: dict[str, Topology] = {"written": written()}
    for name in KEYS:
        part, key = name.split()
        base, other = GRAPHS[name] if name in GRAPHS else (BASE, changed(BASE, part, key, OTHER_VALUES[name]))
        cases |= {f"{name} before": base, f"{name} after": other}
    cases |= {f"transformation {key}": topology for key, topology in OF_TRANSFORMATIONS.items()}
    for key, (before, after) in OF_SINKS.items():
        cases |= {f"without {key}": before, f"transformation {key}": after}
    cases |= {f"topology {key}": topology for key, topology in OF_TOPOLOGIES.items()}
    tables = plan_in_process([{**topology, "name": name} for name, topology in cases.items()]).tables
    names = {row["topology_id"]: row["name"] for row in tables["topologies"].to_pylist()}
    found: dict[str, list[Any]] = {name: [] for name in cases}
    for row in tables["rejected"].to_pylist():
        found[row["name"]].append((row["error_stage"], row["error"], row["message"]))
    of_graphs = list(LAYER_TABLES[Layer.STREAM_GRAPH])
    for table in [*of_graphs, *(name for layer in LATER_LAYERS for name in LAYER_TABLES[layer])]:
        for row in tables[table].to_pylist():
            name = names[row.pop("topology_id")]
            if table not in of_graphs or name not in {f"{key} {when}" for key in KEYS for when in WHEN}:
                found[name].append((table, row))
    return found


WHEN = ("before", "after")


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_a_stream_graph_counts_or_is_listed(name: str, plans: dict[str, list[Any]]):
    before, after = (plans[f"{name} {when}"] for when in WHEN)
    assert before
    assert (before == after) == (name in WITHOUT_EFFECT)


@pytest.mark.parametrize("key", sorted(TRANSFORMATION_RULES.keys() - {"slot_resources"}))  # exported
def test_a_key_of_a_transformation_counts(key: str, plans: dict[str, list[Any]]):
    before = plans[f"without {key}" if key in OF_SINKS else "written"]
    after = plans[f"transformation {key}"]
    assert after != before
    assert len(after) > 1 or key not in OF_SINKS  # it is planned, not refused


@pytest.mark.parametrize("key", OF_TOPOLOGIES)
def test_a_key_of_a_topology_counts(key: str, plans: dict[str, list[Any]]):
    assert plans[f"topology {key}"] != plans["written"]


@pytest.mark.parametrize("key", ["no_output_until_end_of_input", "output_only_after_end_of_stream"])
def test_what_comes_at_the_end_of_a_stream_is_blocking(key: str):
    """StreamingJobGraphGenerator.createChain asks for either, and hands it on along the chain."""
    graphs = [{**changed(BASE, "node", key, True, place), "name": f"{place}"} for place in (0, 1)]
    planned = plan_in_process(graphs)
    sets = planned.tables["intermediate_data_sets"]
    assert sets["result_partition_type"].to_pylist() == ["BLOCKING", "BLOCKING"]
    assert planned.tables["rejected"].num_rows == 0
