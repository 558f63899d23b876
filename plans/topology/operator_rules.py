"""Rules for the keys of transformations, by kind, and of stream nodes and edges."""

import re
from typing import Any

from penstock.operators.common.key_groups import UPPER_BOUND_MAX_PARALLELISM
from penstock.plans.errors import ErrorKind, TopologyError
from penstock.plans.topology.rules import (
    INT32_MAX,
    INT64_MAX,
    Rule,
    Rules,
    boolean,
    explain_keys,
    integer,
    keys_hold,
    list_of,
    mapping,
    nullable,
    one_of,
    text,
    wrong_type,
)
from penstock.plans.vocabulary import (
    VIRTUAL_KINDS,
    WRITTEN_KINDS,
    ChainingStrategy,
    GlobalStreamExchangeMode,
    JobType,
    Kind,
    ManagedMemoryUseCase,
    Partitioner,
    StreamExchangeMode,
)

MAX_PARALLELISM = UPPER_BOUND_MAX_PARALLELISM

OPERATOR_SCOPE = (ManagedMemoryUseCase.OPERATOR,)
SLOT_SCOPE = (ManagedMemoryUseCase.STATE_BACKEND, ManagedMemoryUseCase.PYTHON)

_HEX_32 = re.compile(r"[0-9A-Fa-f]{32}").fullmatch


def _amount(allowed: str) -> Rule:
    """Return a rule for a finite JSON number above 0, integral or not."""

    def accepts(value: Any) -> bool:
        return type(value) in (int, float) and 0 < value < 1e9

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) in (int, float):
            return [TopologyError(ErrorKind.OUT_OF_RANGE, location, f"{key} {value}", allowed, "")]
        return [wrong_type(location, key, value, allowed)]

    return Rule(accepts, explain, allowed)


_BYTES = integer(0, INT64_MAX, "a number of bytes, 0 or more")
RESOURCE_RULES: Rules = {
    "cpu_cores": _amount("a number of CPU cores above 0"),
    "task_heap_memory_bytes": _BYTES,
    "task_off_heap_memory_bytes": _BYTES,
    "managed_memory_bytes": _BYTES,
}
_REQUIRED_RESOURCES = ("cpu_cores", "task_heap_memory_bytes")


def _resources(rules: Rules) -> Rule:
    """Return a rule for a ResourceSpec or ResourceProfile; CPU cores and task heap are required."""
    allowed = "an object of " + ", ".join(rules)

    def accepts(value: Any) -> bool:
        return type(value) is dict and keys_hold(value, rules, _REQUIRED_RESOURCES)

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) is not dict:
            return [wrong_type(location, key, value, allowed)]
        return explain_keys(value, rules, _REQUIRED_RESOURCES, f"{location}, {key}")

    return Rule(accepts, explain, allowed)


PARALLELISM = integer(1, INT32_MAX, "an integer, 1 or more")
MAX_PARALLELISM_RULE = integer(1, MAX_PARALLELISM)
BUFFER_TIMEOUT = integer(-1, INT64_MAX, "milliseconds, or -1 (disabled)")
UID_HASH = text("32 hex digits", lambda value: _HEX_32(value) is not None)
_CHAINING = one_of(ChainingStrategy)
MANAGED_MEMORY = mapping(
    one_of(OPERATOR_SCOPE),
    integer(1, INT32_MAX, "a weight, 1 or more"),
    "an object of operator-scope use case (OPERATOR) to weight",
)
_SLOT_SCOPE_RULE = list_of(one_of(SLOT_SCOPE), "a list of STATE_BACKEND, PYTHON")
_RESOURCES = _resources(RESOURCE_RULES)
_GROUP_RESOURCES = _resources(
    {
        **RESOURCE_RULES,
        "external_resources": mapping(
            text("the name of a resource", bool),
            _amount("an amount above 0"),
            "an object of resource name to amount",
        ),
    }
)
"""The resources of each slot of a slot sharing group."""

_HASH = re.compile(r"[0-9a-f]{32}").fullmatch


def _is_data_set(value: str) -> bool:
    return _HASH(value) is not None


_ANY_ID = integer(-(2**31), INT32_MAX, "a stream node id")
_CLASS_NAME = text("a binary class name", bool)
_DATA_SET = text("the id of a data set, 32 lower-case hex digits", _is_data_set)
_FACTORY = text("a simple class name", bool)
_TYPE = text("type information as Flink prints it", bool)

DETAILS: Rules = {
    "node_id": _ANY_ID,
    "description": text(),
    "operator_factory": _FACTORY,
    "operator_class": _CLASS_NAME,
    "function_class": _CLASS_NAME,
    "output_type": _TYPE,
    "keyed": list_of(boolean(), "a list of booleans, one for each input"),
    "parallelism_configured": boolean(),
    "supports_concurrent_execution_attempts": boolean(),
    "slot_resources": _GROUP_RESOURCES,
    "bounded": boolean(),
    "registered": boolean(),
    "data_set": _DATA_SET,
    "unaligned_checkpoints": boolean(),
}
"""Keys that few transformations have: one column, `details`, holds them all."""

DEFAULTS: dict[str, Any] = {"name": "", "inputs": [], "managed_memory": [], "slot_scope": []}
"""Values of columns of given transformations where a row sets none."""


def _details(*keys: str) -> Rules:
    return {key: DETAILS[key] for key in keys}


_ALL_KINDS: Rules = {
    "id": integer(1, INT32_MAX, "1..n in creation order"),
    "kind": one_of(WRITTEN_KINDS, ErrorKind.UNKNOWN_KIND),
    "inputs": list_of(integer(1, INT32_MAX, "the id of an earlier transformation"), "a list of ids"),
    "name": text(),
    **_details("node_id"),
}
_PHYSICAL: Rules = {
    **_ALL_KINDS,
    "parallelism": PARALLELISM,
    "max_parallelism": MAX_PARALLELISM_RULE,
    "uid": text(),
    "uid_hash": UID_HASH,
    "slot_sharing_group": text(),
    "co_location_group": text(),
    "buffer_timeout": integer(-1, INT64_MAX, "milliseconds, or -1 (the job's)"),
    "chaining": _CHAINING,
    "managed_memory": MANAGED_MEMORY,
    "slot_scope": _SLOT_SCOPE_RULE,
    "min_resources": _RESOURCES,
    "preferred_resources": _RESOURCES,
    **_details("description", "parallelism_configured", "slot_resources"),
    "node_id": integer(1, INT32_MAX, "a stream node id, 1 or more"),
}
_OPERATOR: Rules = {
    **_PHYSICAL,
    **_details("operator_factory", "operator_class", "function_class", "output_type"),
    **_details("supports_concurrent_execution_attempts"),
}
_WITH_INPUTS: Rules = {**_OPERATOR, **_details("keyed")}
_SOURCE: Rules = {**_OPERATOR, **_details("bounded", "registered")}
_PHYSICAL_KINDS: dict[Kind, Rules] = {
    Kind.SOURCE: _SOURCE,
    Kind.LEGACY_SOURCE: _SOURCE,
    Kind.CACHE_READ: {**_PHYSICAL, **_details("output_type", "data_set", "registered")},
}
_VIRTUAL: dict[Kind, Rules] = {
    Kind.UNION: _ALL_KINDS,
    Kind.PARTITION: {
        **_ALL_KINDS,
        "partitioner": one_of(Partitioner),
        "exchange_mode": one_of(StreamExchangeMode),
        **_details("unaligned_checkpoints"),
    },
    Kind.CACHE: {**_ALL_KINDS, **_details("data_set")},
    Kind.SIDE_OUTPUT: {**_ALL_KINDS, "tag": text("a string, not empty", bool)},
    Kind.SELECT: {
        **_ALL_KINDS,
        "names": list_of(text(), "a list of output names"),
    },
}
STEP_RULES: dict[str, Rules] = {
    str(kind): {key: rule for key, rule in rules.items() if key not in ("id", "inputs", "node_id")}
    for kind, rules in ((Kind.ONE_INPUT, _WITH_INPUTS), (Kind.PARTITION, _VIRTUAL[Kind.PARTITION]))
}
"""Rules by kind for the keys of a step in a sink's own topology."""


def _steps() -> Rule:
    allowed = "a list of steps, objects of kind " + " or ".join(STEP_RULES)

    def accepts(value: Any) -> bool:
        return type(value) is list and all(not _step_errors(step, "") for step in value)

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) is not list:
            return [wrong_type(location, key, value, allowed)]
        return [
            error
            for position, step in enumerate(value)
            for error in _step_errors(step, f"{location}, {key}[{position}]")
        ]

    return Rule(accepts, explain, allowed)


def _step_errors(step: Any, where: str) -> list[TopologyError]:
    if type(step) is not dict:
        return [wrong_type(where, "step", step, "an object")]
    kind = step.get("kind")
    if type(kind) is not str or kind not in STEP_RULES:
        return explain_keys(
            {"kind": kind} if "kind" in step else {},
            {"kind": one_of(STEP_RULES, ErrorKind.UNKNOWN_KIND)},
            ("kind",),
            where,
        )
    required = ("kind", "partitioner") if kind == Kind.PARTITION else ("kind",)
    return explain_keys(step, STEP_RULES[kind], required, where)


def _object_of(rules: Rules) -> Rule:
    """Return a rule for an object whose keys are all optional."""
    allowed = "an object of " + ", ".join(rules)

    def accepts(value: Any) -> bool:
        return type(value) is dict and keys_hold(value, rules, ())

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) is not dict:
            return [wrong_type(location, key, value, allowed, "write {} if nothing is set")]
        return explain_keys(value, rules, (), f"{location}, {key}")

    return Rule(accepts, explain, allowed)


SINK_TOPOLOGY: Rules = {
    "writer": _object_of({"uid_hash": UID_HASH, "supports_concurrent_execution_attempts": boolean()}),
    "committer": _object_of({"uid_hash": UID_HASH}),
    "global_committer": boolean(),
    "pre_write": _steps(),
    "pre_commit": _steps(),
    "post_commit": _steps(),
}
"""The expansion of a sink of the Sink V2 API; all keys require `writer`."""

NOT_BESIDE_WRITER = (
    *("uid_hash", "buffer_timeout", "managed_memory", "slot_scope"),
    *("min_resources", "preferred_resources", "operator_factory", "operator_class", "function_class"),
    *("output_type", "keyed", "supports_concurrent_execution_attempts", "description"),
)
"""Keys that a sink with a `writer` does not accept."""


def sink_errors(entry: dict[str, Any], where: str) -> list[TopologyError]:
    """Return errors for incompatible keys of a sink (SinkTransformationTranslator, DataStreamSink)."""
    if entry.get("kind") != Kind.SINK or not any(key in entry for key in SINK_TOPOLOGY):
        return []
    committing = ("global_committer", "pre_commit", "post_commit")
    needs = {"writer": ("committer", "pre_write", *committing), "committer": committing}
    errors = [
        TopologyError(
            ErrorKind.MISSING_KEY,
            where,
            f"{key} without {needed}",
            f"{key} together with {needed}",
            f"add {needed}",
        )
        for needed, keys in needs.items()
        if needed not in entry
        for key in keys
        if key in entry
    ]
    if entry.get("global_committer") and entry.get("post_commit"):
        errors.append(
            TopologyError(
                ErrorKind.KEY_NOT_ALLOWED,
                where,
                "global_committer and post_commit",
                "one of the two",
                "a global committer is the post-commit topology",
            )
        )
    errors += [
        TopologyError(
            ErrorKind.KEY_NOT_ALLOWED,
            where,
            f"key {key} on a sink with a writer",
            ", ".join(key for key in KIND_RULES[Kind.SINK] if key not in NOT_BESIDE_WRITER),
            "uid_hash belongs into writer and committer" if key == "uid_hash" else "",
        )
        for key in NOT_BESIDE_WRITER
        if key in entry
    ]
    return errors


def detail_errors(entry: dict[str, Any], where: str) -> list[TopologyError]:
    """Return errors for details of a transformation that do not fit its other keys."""
    errors = []
    keyed, inputs = entry.get("keyed"), entry.get("inputs")
    if type(keyed) is list and type(inputs) is list and len(keyed) != len(inputs):
        found = f"keyed with {len(keyed)} values on {len(inputs)} inputs"
        errors.append(TopologyError(ErrorKind.OUT_OF_RANGE, where, found, DETAILS["keyed"].allowed, ""))
    if "slot_resources" in entry and "slot_sharing_group" not in entry:
        errors.append(
            TopologyError(
                ErrorKind.MISSING_KEY,
                where,
                "slot_resources without slot_sharing_group",
                "slot_resources together with slot_sharing_group",
                "add slot_sharing_group",
            )
        )
    return errors


KIND_RULES: dict[str, Rules] = {
    str(kind): _VIRTUAL[kind]
    if kind in VIRTUAL_KINDS
    else {
        **_PHYSICAL_KINDS.get(kind, _WITH_INPUTS),
        **(SINK_TOPOLOGY if kind == Kind.SINK else {}),
    }
    for kind in WRITTEN_KINDS
}
"""Rules by kind for the keys that it accepts."""

TRANSFORMATION_RULES: Rules = {
    **_PHYSICAL,
    **DETAILS,
    **SINK_TOPOLOGY,
    **{k: r for rules in _VIRTUAL.values() for k, r in rules.items()},
}
"""Rules for every key of any kind."""

TRANSFORMATION_KEYS = tuple(TRANSFORMATION_RULES)
"""The keys of TRANSFORMATION_RULES."""

_REQUIRED: dict[Kind, tuple[str, ...]] = {
    Kind.SOURCE: (),
    Kind.LEGACY_SOURCE: (),
    Kind.CACHE_READ: ("data_set",),
    Kind.CACHE: ("inputs", "data_set"),
    Kind.PARTITION: ("inputs", "partitioner"),
    Kind.SIDE_OUTPUT: ("inputs", "tag"),
    Kind.SELECT: ("inputs", "names"),
}
REQUIRED_KEYS: dict[str, tuple[str, ...]] = {
    str(kind): ("id", "kind", *_REQUIRED.get(kind, ("inputs",))) for kind in WRITTEN_KINDS
}

_MANY = INT32_MAX
_INPUT_COUNTS: dict[Kind, tuple[int, int]] = {
    Kind.SOURCE: (0, 0),
    Kind.LEGACY_SOURCE: (0, 0),
    Kind.CACHE_READ: (0, 0),
    Kind.TWO_INPUT: (2, 2),
    Kind.MULTI_INPUT: (1, _MANY),
    Kind.UNION: (1, _MANY),
}
INPUT_COUNTS: dict[str, tuple[int, int]] = {
    str(kind): _INPUT_COUNTS.get(kind, (1, 1)) for kind in WRITTEN_KINDS
}
"""Kind to the smallest and largest number of inputs."""


def input_count_text(kind: str) -> str:
    """Return the number of inputs of a kind as text."""
    low, high = INPUT_COUNTS[kind]
    return f"{low} or more inputs" if high == _MANY else f"{low} input{'' if low == 1 else 's'}"


# Rules for the keys of a `stream_graph`: its settings, its nodes and its edges.


def _unset_or(low: int, high: int) -> Rule:
    """Return a rule for an integer in [low, high], or -1 for unset."""
    rule = integer(-1, high, f"an integer from {low} to {high}, or -1 (not set)")
    return rule._replace(accepts=lambda value: rule.accepts(value) and value != 0)


def _objects(allowed: str) -> Rule:
    """Return a rule for a list whose objects are validated one by one."""
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
        text(), _GROUP_RESOURCES, "an object of group name to the resources of a slot"
    ),
}
"""The settings of a stream graph; apart from nodes, edges and OPTIONAL_SETTINGS, every key is required."""

OPTIONAL_SETTINGS = ("partitioners_compared", "slot_sharing_group_resources")

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
    "chaining": nullable(_CHAINING),
    "source": boolean(),
    "legacy_source": boolean(),
    "yielding": boolean(),
    "coordinated": boolean(),
    "invokable": text("a simple class name", bool),
    "operator_factory": nullable(_FACTORY),
    "input_format": boolean(),
    "output_format": boolean(),
    "no_output_until_end_of_input": boolean(),
    "output_only_after_end_of_stream": boolean(),
    "supports_concurrent_execution_attempts": boolean(),
    "managed_memory": MANAGED_MEMORY,
    "slot_scope": _SLOT_SCOPE_RULE,
    "input_requirements": mapping(
        text("an input index", lambda key: key.isascii() and key.isdigit() and len(key) < 9),
        one_of(("SORTED", "PASS_THROUGH")),
        "an object of input index to SORTED or PASS_THROUGH",
    ),
    "min_resources": _RESOURCES,
    "preferred_resources": _RESOURCES,
    "in_edges": list_of(text(), "a list of edge ids"),
    "out_edges": list_of(text(), "a list of edge ids"),
    "description": text(),
    "keyed": boolean(),
    "operator_class": _CLASS_NAME,
    "function_class": _CLASS_NAME,
    "output_type": _TYPE,
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
