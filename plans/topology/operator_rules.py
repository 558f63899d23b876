"""The rules of a transformation's keys, by kind; stream nodes share those of the operator settings."""

import re
from typing import Any

from plans.errors import TopologyError
from plans.topology.error_kinds import ErrorKind
from plans.topology.rules import (
    INT32_MAX,
    INT64_MAX,
    Rule,
    Rules,
    explain_keys,
    integer,
    keys_hold,
    list_of,
    mapping,
    one_of,
    text,
    wrong_type,
)
from plans.vocabulary import (
    VIRTUAL_KINDS,
    ChainingStrategy,
    Kind,
    ManagedMemoryUseCase,
    Partitioner,
    StreamExchangeMode,
)

MAX_PARALLELISM = 32768
"""KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM."""

OPERATOR_SCOPE = (ManagedMemoryUseCase.OPERATOR,)
SLOT_SCOPE = (ManagedMemoryUseCase.STATE_BACKEND, ManagedMemoryUseCase.PYTHON)

_HEX_32 = re.compile(r"[0-9A-Fa-f]{32}").fullmatch


def _amount(allowed: str, positive: bool) -> Rule:
    """A finite JSON number, integral or not."""

    def accepts(value: Any) -> bool:
        return type(value) in (int, float) and (value > 0 if positive else value >= 0) and value < 1e9

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) in (int, float):
            return [TopologyError(ErrorKind.OUT_OF_RANGE, location, f"{key} {value}", allowed, "")]
        return [wrong_type(location, key, value, allowed)]

    return Rule(accepts, explain, allowed)


_BYTES = integer(0, INT64_MAX, "a number of bytes, 0 or more")
RESOURCE_RULES: Rules = {
    "cpu_cores": _amount("a number of CPU cores above 0", positive=True),
    "task_heap_memory_bytes": _BYTES,
    "task_off_heap_memory_bytes": _BYTES,
    "managed_memory_bytes": _BYTES,
}
_REQUIRED_RESOURCES = ("cpu_cores", "task_heap_memory_bytes")


def _resources(rules: Rules) -> Rule:
    """A ResourceSpec or ResourceProfile: CPU cores and task heap are required, others default to none."""
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
CHAINING = one_of(ChainingStrategy)
MANAGED_MEMORY = mapping(
    one_of(OPERATOR_SCOPE),
    integer(1, INT32_MAX, "a weight, 1 or more"),
    "an object of operator-scope use case (OPERATOR) to weight",
)
SLOT_SCOPE_RULE = list_of(one_of(SLOT_SCOPE), "a list of STATE_BACKEND, PYTHON")
RESOURCES = _resources(RESOURCE_RULES)
GROUP_RESOURCES = _resources(
    {
        **RESOURCE_RULES,
        "external_resources": mapping(
            text("the name of a resource", bool),
            _amount("an amount above 0", positive=True),
            "an object of resource name to amount",
        ),
    }
)
"""What each slot of a slot sharing group has."""

_ALL_KINDS: Rules = {
    "id": integer(1, INT32_MAX, "1..n in creation order"),
    "kind": one_of(Kind, ErrorKind.UNKNOWN_KIND),
    "inputs": list_of(integer(1, INT32_MAX, "the id of an earlier transformation"), "a list of ids"),
    "name": text(),
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
    "chaining": CHAINING,
    "managed_memory": MANAGED_MEMORY,
    "slot_scope": SLOT_SCOPE_RULE,
    "min_resources": RESOURCES,
    "preferred_resources": RESOURCES,
}
_VIRTUAL: dict[Kind, Rules] = {
    Kind.UNION: _ALL_KINDS,
    Kind.PARTITION: {
        **_ALL_KINDS,
        "partitioner": one_of(Partitioner),
        "exchange_mode": one_of(StreamExchangeMode),
    },
    Kind.SIDE_OUTPUT: {**_ALL_KINDS, "tag": text("a string, not empty", bool)},
    Kind.SELECT: {
        **_ALL_KINDS,
        "names": list_of(text(), "a list of output names"),
    },
}
KIND_RULES: dict[str, Rules] = {
    str(kind): _VIRTUAL[kind] if kind in VIRTUAL_KINDS else _PHYSICAL for kind in Kind
}
"""Kind to the rules of the keys it takes."""

TRANSFORMATION_RULES: Rules = {**_PHYSICAL, **{k: r for rules in _VIRTUAL.values() for k, r in rules.items()}}
"""Every key any kind takes."""

_REQUIRED: dict[Kind, tuple[str, ...]] = {
    Kind.SOURCE: (),
    Kind.LEGACY_SOURCE: (),
    Kind.PARTITION: ("inputs", "partitioner"),
    Kind.SIDE_OUTPUT: ("inputs", "tag"),
    Kind.SELECT: ("inputs", "names"),
}
REQUIRED_KEYS: dict[str, tuple[str, ...]] = {
    str(kind): ("id", "kind", *_REQUIRED.get(kind, ("inputs",))) for kind in Kind
}

_MANY = INT32_MAX
_INPUT_COUNTS: dict[Kind, tuple[int, int]] = {
    Kind.SOURCE: (0, 0),
    Kind.LEGACY_SOURCE: (0, 0),
    Kind.TWO_INPUT: (2, 2),
    Kind.MULTI_INPUT: (1, _MANY),
    Kind.UNION: (1, _MANY),
}
INPUT_COUNTS: dict[str, tuple[int, int]] = {str(kind): _INPUT_COUNTS.get(kind, (1, 1)) for kind in Kind}
"""Kind to the smallest and largest number of inputs."""


def input_count_text(kind: str) -> str:
    """How many inputs a kind takes, for people."""
    low, high = INPUT_COUNTS[kind]
    return f"{low} or more inputs" if high == _MANY else f"{low} input{'' if low == 1 else 's'}"
