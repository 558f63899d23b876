"""What is wrong with nodes of JSON that Flink writes: their form, and the nodes that they read."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.importing.imported import errors_of_known
from penstock.plans.topology.error_kinds import ErrorKind
from penstock.plans.topology.rules import Rules, wrong_type


def errors_of_nodes(
    nodes: Sequence[Any], what: str, errors_of: Callable[[Mapping[str, Any], str], list[TopologyError]]
) -> list[TopologyError]:
    """Errors of each node by itself. `errors_of`: from an object and where it is to its errors."""
    found: list[TopologyError] = []
    for place, node in enumerate(nodes, 1):
        at = f"{what} at position {place}"
        if type(node) is dict:
            found += errors_of(node, f"{what} {node['id']!s:.40}" if _has_id(node) else at)
        else:
            found.append(wrong_type(at, what, node, "an object"))
    return found


def _has_id(node: Mapping[str, Any]) -> bool:
    return type(node.get("id")) in (int, str)


def errors_of_inputs(
    node: Mapping[str, Any], where: str, key: str, rules: Rules, required: Sequence[str]
) -> list[TopologyError]:
    """Errors of a node's parallelism and of the list of its inputs, which `key` names in the plural."""
    one_of_them, found = key.removesuffix("s"), []
    if node["parallelism"] == 0:
        found.append(TopologyError(ErrorKind.OUT_OF_RANGE, where, "parallelism 0", "1 or more, or -1", ""))
    for one in node.get(key, ()):
        if type(one) is dict:
            found += errors_of_known(one, rules, required, f"{where}, {one_of_them}")
        else:
            found.append(wrong_type(where, one_of_them, one, "an object"))
    return found


def errors_of_links(
    reads: Sequence[tuple[Any, Sequence[Any]]], what: tuple[str, str], link: str
) -> list[TopologyError]:
    """Ids that occur twice, and inputs that are no node. `reads`: each node's id and its inputs' ids.

    `what`: a node's name in the singular and the plural.
    """
    one, several = what
    counts = Counter(node for node, _ in reads)
    twice = [
        TopologyError(ErrorKind.DUPLICATE_ID, f"{one} {node}", f"{count} {several} with this id", "1", "")
        for node, count in counts.items()
        if count > 1
    ]
    dangling = [
        TopologyError(
            ErrorKind.DANGLING_EDGE,
            f"{one} {node}",
            f"{link} {read}, which no {one} has as its id",
            f"the id of a {one}",
            "",
        )
        for node, inputs in reads
        for read in inputs
        if read not in counts
    ]
    return twice + dangling
