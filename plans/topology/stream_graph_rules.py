"""Rules for the keys of a `stream_graph`: its settings, its nodes and its edges."""

import re

from penstock.plans.topology.operator_rules import (
    BUFFER_TIMEOUT,
    CHAINING,
    GROUP_RESOURCES,
    MANAGED_MEMORY,
    MAX_PARALLELISM,
    RESOURCES,
    SLOT_SCOPE_RULE,
    UID_HASH,
)
from penstock.plans.topology.rules import (
    INT32_MAX,
    Rule,
    Rules,
    boolean,
    integer,
    list_of,
    mapping,
    nullable,
    one_of,
    text,
    wrong_type,
)
from penstock.plans.vocabulary import GlobalStreamExchangeMode, JobType, StreamExchangeMode

_HEX_32 = re.compile(r"[0-9a-f]{32}").fullmatch


def _is_data_set(value: str) -> bool:
    return _HEX_32(value) is not None


_ANY_ID = integer(-(2**31), INT32_MAX, "a stream node id")


def _unset_or(low: int, high: int) -> Rule:
    """An integer in [low, high], or -1 for not set."""
    rule = integer(-1, high, f"an integer from {low} to {high}, or -1 (not set)")
    return rule._replace(accepts=lambda value: rule.accepts(value) and value != 0)


def _objects(allowed: str) -> Rule:
    """A list whose objects are checked one by one."""
    return Rule(
        lambda value: type(value) is list,
        lambda location, key, value: [wrong_type(location, key, value, allowed)],
        allowed,
    )


SETTING_RULES: Rules = {
    "sources": list_of(_ANY_ID, "a list of node ids"),
    "sinks": list_of(_ANY_ID, "a list of node ids"),
    "chaining_enabled": boolean(),
    "global_exchange_mode": one_of(GlobalStreamExchangeMode),
    "dynamic": boolean(),
    "chain_different_max_parallelism": boolean(),
    "all_vertices_in_same_slot_sharing_group": boolean(),
    "job_type": one_of(JobType),
    "vertex_description_mode": one_of(("TREE", "CASCADING")),
    "vertex_name_include_index_prefix": boolean(),
    "checkpointing": boolean(),
    "partitioners_compared": boolean(),
    "slot_sharing_group_resources": mapping(
        text(), GROUP_RESOURCES, "an object of group name to the resources of a slot"
    ),
}
"""The settings of a stream graph; nodes and edges aside, and OPTIONAL_SETTINGS, every key is required."""

OPTIONAL_SETTINGS = ("partitioners_compared", "slot_sharing_group_resources")
_CLASS_NAME = text("a binary class name", bool)
_DATA_SET = text("the id of a data set, 32 lower-case hex digits", _is_data_set)

GRAPH_RULES: Rules = {
    **SETTING_RULES,
    "nodes": _objects("a list of stream nodes"),
    "edges": _objects("a list of stream edges"),
}
GRAPH_REQUIRED = tuple(k for k in GRAPH_RULES if k not in OPTIONAL_SETTINGS)
NODE_RULES: Rules = {
    "id": _ANY_ID,
    "name": text(),
    "parallelism": _unset_or(1, INT32_MAX),
    "max_parallelism": _unset_or(1, MAX_PARALLELISM),
    "parallelism_configured": boolean(),
    "slot_sharing_group": text(),
    "co_location_group": nullable(text()),
    "uid": nullable(text()),
    "uid_hash": nullable(UID_HASH),
    "buffer_timeout": BUFFER_TIMEOUT,
    "chaining": nullable(CHAINING),
    "source": boolean(),
    "legacy_source": boolean(),
    "yielding": boolean(),
    "coordinated": boolean(),
    "invokable": text("a simple class name", bool),
    "operator_factory": nullable(text("a simple class name", bool)),
    "input_format": boolean(),
    "output_format": boolean(),
    "no_output_until_end_of_input": boolean(),
    "output_only_after_end_of_stream": boolean(),
    "supports_concurrent_execution_attempts": boolean(),
    "managed_memory": MANAGED_MEMORY,
    "slot_scope": SLOT_SCOPE_RULE,
    "input_requirements": mapping(
        text("an input index", lambda key: key.isascii() and key.isdigit() and len(key) < 9),
        one_of(("SORTED", "PASS_THROUGH")),
        "an object of input index to SORTED or PASS_THROUGH",
    ),
    "min_resources": RESOURCES,
    "preferred_resources": RESOURCES,
    "in_edges": list_of(text(), "a list of edge ids"),
    "out_edges": list_of(text(), "a list of edge ids"),
    "description": text(),
    "keyed": boolean(),
    "operator_class": _CLASS_NAME,
    "function_class": _CLASS_NAME,
    "output_type": text("type information as Flink prints it", bool),
    "consumes_data_set": _DATA_SET,
}
OPTIONAL_OF_NODES = (
    "min_resources",
    "preferred_resources",
    "description",
    "keyed",
    "operator_class",
    "function_class",
    "output_type",
    "consumes_data_set",
)
NODE_REQUIRED = tuple(k for k in NODE_RULES if k not in OPTIONAL_OF_NODES)


def _ends_in_number(edge_id: str) -> bool:
    last = edge_id.rpartition("_")[2]
    return last.isascii() and last.isdigit() and len(last) < 10


EDGE_RULES: Rules = {
    "edge_id": text("source_target_typeNumber_partitioner_uniqueId", _ends_in_number),
    "source": _ANY_ID,
    "target": _ANY_ID,
    "type_number": integer(0, INT32_MAX),
    "partitioner": text("as Flink prints it: FORWARD, HASH, …", bool),
    "partitioner_class": text("a simple class name", bool),
    "pointwise": boolean(),
    "broadcast": boolean(),
    "exchange_mode": one_of(StreamExchangeMode),
    "output_tag": nullable(text()),
    "buffer_timeout": BUFFER_TIMEOUT,
    "unaligned_checkpoints": boolean(),
    "inter_inputs_keys_correlated": boolean(),
    "intra_input_key_correlated": boolean(),
    "chainable": boolean(),
    "persistent_data_set": _DATA_SET,
    "equal_partitioner": text("the id of an edge"),
}
OPTIONAL_OF_EDGES = ("persistent_data_set", "equal_partitioner")
EDGE_REQUIRED = tuple(k for k in EDGE_RULES if k not in OPTIONAL_OF_EDGES)
