"""Refuse a `transformations` list that docs/topology-files.md does not allow, with every reason."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.plans.errors import ErrorKind, TopologyError
from penstock.plans.frames.compiled import run_loop
from penstock.plans.topology.operator_rules import (
    INPUT_COUNTS,
    KIND_RULES,
    REQUIRED_KEYS,
    RESOURCE_RULES,
    TRANSFORMATION_RULES,
    detail_errors,
    input_count_text,
    sink_errors,
)
from penstock.plans.topology.rules import explain_keys, json_type, shorten, wrong_type
from penstock.plans.vocabulary import SOURCE_KINDS, VIRTUAL_KINDS, Kind

# Whether an operator of a topology reads an unbounded source, directly or through virtual transformations.


def kind_by_bounds(kind: str, bounded: bool | None) -> str:
    """Return `kind`, or for a source that sets `bounded` the kind that is bounded, or not, by default."""
    if bounded is None or kind not in (Kind.SOURCE, Kind.LEGACY_SOURCE):
        return kind
    return str(Kind.SOURCE if bounded else Kind.LEGACY_SOURCE)


def reads_unbounded_source(transformations: Iterable[tuple[str, Sequence[int]]]) -> bool:
    """Return whether an operator reads an unbounded source, which a `legacy_source` is (see kind_by_bounds).

    `transformations`: (kind, inputs) with ids 1..n in order. Sources and virtual transformations count only
    if an operator reads them, since only then do they become part of the graph
    (StreamGraphGenerator.existsUnboundedSource).
    """
    unbounded = [False]
    for kind, inputs in transformations:
        from_inputs = any(unbounded[i] for i in inputs)
        if from_inputs and kind not in VIRTUAL_KINDS and kind not in SOURCE_KINDS:
            return True
        unbounded.append(from_inputs or kind == Kind.LEGACY_SOURCE)
    return False


# A cycle of a directed graph in O(V + E), without recursion.


def find_cycle(inputs: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the ids along one cycle of the graph (each reads the next), or [] if it has none.

    `inputs` maps a node to the nodes it reads; nodes that are not keys are ignored. Kahn's algorithm removes
    every node whose inputs are all gone; the remainder is on a cycle or downstream of one.
    """
    open_inputs = {node: sum(1 for i in read if i in inputs) for node, read in inputs.items()}
    users: dict[int, list[int]] = {node: [] for node in inputs}
    for node, read in inputs.items():
        for i in read:
            if i in users:
                users[i].append(node)
    ready = [node for node, count in open_inputs.items() if count == 0]
    while ready:
        for user in users[ready.pop()]:
            open_inputs[user] -= 1
            if open_inputs[user] == 0:
                ready.append(user)
    stuck = {node for node, count in open_inputs.items() if count > 0}
    if not stuck:
        return []
    path: list[int] = []
    position: dict[int, int] = {}
    node = min(stuck)
    while node not in position:
        position[node] = len(path)
        path.append(node)
        node = min(i for i in inputs[node] if i in stuck)
    cycle = path[position[node] :]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]


# A cycle among transformations with ids 1..n, over arrays, for topologies of millions.


def find_cycle_in_rows(starts: npt.NDArray[np.int64], inputs: npt.NDArray[np.int32], most: int) -> list[int]:
    """Return the first `most` ids along the cycle that `find_cycle` finds; [] if there is none.

    The transformation with id i reads `inputs[starts[i - 1]:starts[i]]`; unknown ids are ignored.
    """
    size = len(starts) - 1
    known = (inputs >= 1) & (inputs <= size)
    starts = np.append(0, np.cumsum(known))[starts]
    read = inputs[known] - 1
    readers = np.repeat(np.arange(size, dtype=np.int32), np.diff(starts))[np.argsort(read, kind="stable")]
    readers_from = np.append(0, np.cumsum(np.bincount(read, minlength=size)))
    cycle = np.zeros(most, np.int64)
    work = np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32)
    run_loop(_follow, size + len(read), (starts, read, readers_from, readers), (*work, cycle))
    return [number for number in cycle.tolist() if number]


def _follow(
    starts: Any,
    inputs: Any,
    readers_from: Any,
    readers: Any,
    unread: Any,
    place: Any,
    following: Any,
    cycle: Any,
) -> None:
    """`find_cycle` over numbers from 0, for run_loop; `cycle` receives ids, and 0 after the last.

    `unread` counts the inputs of each node that are on a cycle or after one. `place` is first the list of
    nodes without such inputs, then whether the path reached each node. `following` is the node read by each
    node on the path.
    """
    size = len(unread)
    ready = 0
    for node in range(size):
        unread[node] = starts[node + 1] - starts[node]
        if unread[node] == 0:
            place[ready] = node
            ready += 1
    while ready > 0:
        ready -= 1
        node = place[ready]
        for i in range(readers_from[node], readers_from[node + 1]):
            reader = readers[i]
            unread[reader] -= 1
            if unread[reader] == 0:
                place[ready] = reader
                ready += 1
    node = 0
    while node < size and unread[node] == 0:
        node += 1
    if node == size:
        return
    for i in range(size):
        place[i] = 0
    while place[node] == 0:
        place[node] = 1
        least = size
        for i in range(starts[node], starts[node + 1]):
            if unread[inputs[i]] > 0 and inputs[i] < least:
                least = inputs[i]
        following[node] = least
        node = least
    first = node
    other = following[node]
    while other != node:
        first = min(first, other)
        other = following[other]
    count = 0
    node = first
    while count < len(cycle) and (count == 0 or node != first):
        cycle[count] = node + 1
        count += 1
        node = following[node]


PositionOf = Callable[[int], int | None]

KEPT = 1_000
"""Errors of a topology recorded one by one; later ones are counted, with one recorded per kind
and subject."""

MOST_SHOWN = 20
"""Transformations of a cycle listed in its error."""

_LOOKED_AT_BELOW = ("id", "kind", "inputs")
_QUICK = {
    kind: (
        {key: None if key in _LOOKED_AT_BELOW else rule.accepts for key, rule in rules.items()},
        tuple(key for key in REQUIRED_KEYS[kind] if key not in _LOOKED_AT_BELOW),
        *INPUT_COUNTS[kind],
    )
    for kind, rules in KIND_RULES.items()
}


def transformations_hold(transformations: list[Any]) -> bool:
    """Return whether `validate_transformations` would find no error, by the same rules in one quick pass."""
    return bool(transformations) and all(map(_holds, transformations, range(1, len(transformations) + 1)))


def _holds(entry: Any, position: int) -> bool:
    if type(entry) is not dict:
        return False
    kind, own_id = entry.get("kind"), entry.get("id")
    if type(kind) is not str or kind not in _QUICK or type(own_id) is not int or own_id != position:
        return False
    accepts, required, low, high = _QUICK[kind]
    for key, value in entry.items():
        if key not in accepts or not ((test := accepts[key]) is None or test(value)):
            return False
    inputs = entry.get("inputs", [])
    return (
        type(inputs) is list
        and low <= len(inputs) <= high
        and all([type(i) is int and 0 < i < position for i in inputs])  # noqa: C419 (a list is faster)
        and all([key in entry for key in required])  # noqa: C419
        and ("min_resources" in entry) == ("preferred_resources" in entry)
        and not ("min_resources" in entry and resource_errors(entry, ""))
        and not (kind == "sink" and sink_errors(entry, ""))
        and not detail_errors(entry, "")
        and "node_id" not in entry  # compared with all others
    )


def validate_transformations(transformations: Any) -> list[TopologyError]:
    """Return every error of a topology's `transformations`, in their order; empty if it is valid.

    After the first thousand, equal-looking errors share one object, repeated for each occurrence.
    """
    if type(transformations) is not list:
        return [wrong_type("topology", "transformations", transformations, "a list of transformations")]
    if not transformations:
        return [
            TopologyError(
                ErrorKind.EMPTY_TOPOLOGY,
                "topology",
                "no transformations",
                "1 or more",
                "leave the topology out of the input if it has no operators",
            )
        ]
    if transformations_hold(transformations):
        return []
    first = _first_positions(transformations)
    errors = errors_of_entries(enumerate(transformations, 1), first.get)
    return errors + _cycle_errors(transformations)


def errors_of_entries(entries: Iterable[tuple[int, Any]], position_of: PositionOf) -> list[TopologyError]:
    """Return the errors of transformations, given with their positions, except errors of cycles.

    `position_of`: id to the position of the first transformation with it, or None.
    """
    node_ids: dict[int, int] = {}
    errors = errors_of_some(entries, position_of, node_ids)
    return errors + _taken_node_ids(node_ids, position_of)


def errors_of_some(
    entries: Iterable[tuple[int, Any]], position_of: PositionOf, node_ids: dict[int, int]
) -> list[TopologyError]:
    """As errors_of_entries, except that a `node_id` is not compared with the ids of other transformations.

    `node_ids`: node_id to position of earlier transformations; those of `entries` are added.
    """
    errors: list[TopologyError] = []
    alike: dict[tuple[str, str], TopologyError] = {}
    for position, entry in entries:
        if type(entry) is not dict:
            problem = f"{shorten(entry)} ({json_type(entry)})"
            where = f"transformation at position {position}"
            errors.append(TopologyError(ErrorKind.NOT_AN_OBJECT, where, problem, "an object", ""))
            continue
        where = (
            f"transformation {entry['id']}"
            if type(entry.get("id")) is int
            else (f"transformation at position {position}")
        )
        entry_errors = _key_errors(entry, where)
        entry_errors += _id_errors(entry, position, position_of, where)
        entry_errors += _input_errors(entry, position, position_of, where)
        entry_errors += resource_errors(entry, where)
        entry_errors += sink_errors(entry, where)
        entry_errors += detail_errors(entry, where)
        entry_errors += _node_id_errors(entry, position, node_ids, where)
        if len(errors) >= KEPT:
            entry_errors = [alike.setdefault(_sort(error), error) for error in entry_errors]
        errors += entry_errors
    return errors


def _node_id_errors(
    entry: dict[str, Any], position: int, node_ids: dict[int, int], where: str
) -> list[TopologyError]:
    """Return the error if an earlier transformation has the same `node_id`; else add it to `node_ids`."""
    node_id = entry.get("node_id")
    if type(node_id) is not int or node_ids.setdefault(node_id, position) == position:
        return []
    return [_node_id_error(node_id, node_ids[node_id], where)]


def _taken_node_ids(node_ids: dict[int, int], position_of: PositionOf) -> list[TopologyError]:
    """Return errors for a `node_id` that is the id of another transformation, which has none of its own.

    `node_ids`: node_id to position, complete.
    """
    own = set(node_ids.values())
    return [
        _node_id_error(node_id, other, f"transformation {position}")
        for node_id, position in node_ids.items()
        if (other := position_of(node_id)) not in (None, position) and other not in own
    ]


def _node_id_error(node_id: int, other: int | None, where: str) -> TopologyError:
    return TopologyError(
        ErrorKind.DUPLICATE_ID,
        where,
        f"node_id {node_id}, which is the stream node of the transformation at position {other}",
        "a node_id that no other transformation has",
        "without a node_id, it is the id of the transformation",
    )


def _sort(error: TopologyError) -> tuple[str, str]:
    """Return the key by which omitted errors are counted, the kind and the subject."""
    return error.error, error.found.partition(" ")[0]


def _first_positions(transformations: list[Any]) -> dict[int, int]:
    """Map each id to the position of the first transformation that has it."""
    first: dict[int, int] = {}
    for position, entry in enumerate(transformations, 1):
        if type(entry) is dict and type(entry.get("id")) is int:
            first.setdefault(entry["id"], position)
    return first


def _key_errors(entry: dict[str, Any], where: str) -> list[TopologyError]:
    kind = entry.get("kind")
    if type(kind) is not str or kind not in KIND_RULES:
        return explain_keys(entry, TRANSFORMATION_RULES, ("id", "kind"), where)
    rules = KIND_RULES[kind]
    misplaced = [key for key in entry if key not in rules and key in TRANSFORMATION_RULES]
    errors = [
        TopologyError(
            ErrorKind.KEY_NOT_ALLOWED,
            where,
            f"key {key} on kind {kind}",
            ", ".join(rules),
            f"{key} belongs on " + ", ".join(k for k, r in KIND_RULES.items() if key in r),
        )
        for key in misplaced
    ]
    others = {key: value for key, value in entry.items() if key not in misplaced}
    return errors + explain_keys(others, rules, REQUIRED_KEYS[kind], where)


def _id_errors(
    entry: dict[str, Any], position: int, position_of: PositionOf, where: str
) -> list[TopologyError]:
    own_id = entry.get("id")
    if type(own_id) is not int or own_id == position:
        return []
    first = position_of(own_id)
    if first != position:
        return [
            TopologyError(
                ErrorKind.DUPLICATE_ID,
                f"{where} at position {position}",
                f"id {own_id}, which the transformation at position {first} has",
                f"{position}",
                "ids are 1..n in creation order",
            )
        ]
    return [
        TopologyError(
            ErrorKind.ID_OUT_OF_ORDER,
            where,
            f"id {own_id} at position {position}",
            f"{position}",
            "ids are 1..n in creation order",
        )
    ]


def _input_errors(
    entry: dict[str, Any], position: int, position_of: PositionOf, where: str
) -> list[TopologyError]:
    inputs, kind = entry.get("inputs", []), entry.get("kind")
    if type(inputs) is not list:
        return []
    errors = []
    if type(kind) is str and kind in INPUT_COUNTS and ("inputs" in entry or INPUT_COUNTS[kind][0] == 0):
        low, high = INPUT_COUNTS[kind]
        if not low <= len(inputs) <= high:
            errors.append(
                TopologyError(
                    ErrorKind.WRONG_NUMBER_OF_INPUTS,
                    where,
                    f"{len(inputs)} inputs on kind {kind}",
                    input_count_text(kind),
                    "put a union in front to read several" if high == 1 and len(inputs) > 1 else "",
                )
            )
    for i in inputs:
        if type(i) is not int or i < 1:
            continue
        first = position_of(i)
        if first is None:
            errors.append(
                TopologyError(
                    ErrorKind.DANGLING_INPUT,
                    where,
                    f"input {i}, which no transformation has as its id",
                    "the id of an earlier transformation",
                    "",
                )
            )
        elif first > position:
            errors.append(
                TopologyError(
                    ErrorKind.FORWARD_INPUT,
                    where,
                    f"input {i}, which is created later",
                    "the id of an earlier transformation",
                    "list inputs before their users",
                )
            )
    return errors


def resource_errors(entry: dict[str, Any], where: str) -> list[TopologyError]:
    """Transformation.setResources: both or neither, and min no more than preferred."""
    low, high = entry.get("min_resources"), entry.get("preferred_resources")
    if ("min_resources" in entry) != ("preferred_resources" in entry):
        missing = "preferred_resources" if high is None else "min_resources"
        return [
            TopologyError(
                ErrorKind.MISSING_KEY, where, f"no {missing}", "both resources or neither", f"add {missing}"
            )
        ]
    if type(low) is not dict or type(high) is not dict:
        return []
    return [
        TopologyError(
            ErrorKind.OUT_OF_RANGE,
            where,
            f"min_resources.{key} {low.get(key, 0)} above preferred_resources.{key} {high.get(key, 0)}",
            "min no more than preferred",
            "",
        )
        for key, rule in RESOURCE_RULES.items()
        if all(key not in r or rule.accepts(r[key]) for r in (low, high))
        and low.get(key, 0) > high.get(key, 0)
    ]


def _cycle_errors(transformations: list[Any]) -> list[TopologyError]:
    inputs: dict[int, list[int]] = {}
    for entry in transformations:
        if type(entry) is dict and type(entry.get("id")) is int and type(entry.get("inputs", [])) is list:
            inputs.setdefault(entry["id"], []).extend(j for j in entry.get("inputs", ()) if type(j) is int)
    return cycle_errors(find_cycle(inputs))


def cycle_errors(cycle: list[int]) -> list[TopologyError]:
    """Return the error for a cycle of transformations; MOST_SHOWN + 1 ids suffice."""
    if not cycle:
        return []
    more = ["…"] if len(cycle) > MOST_SHOWN else []
    shown = " reads ".join(map(str, [*cycle[:MOST_SHOWN], *more, cycle[0]]))
    return [
        TopologyError(
            ErrorKind.CYCLE,
            f"transformation {cycle[0]}",
            shown,
            "an acyclic topology",
            "Flink's DataStream API has no iterations any more",
        )
    ]
