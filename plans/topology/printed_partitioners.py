"""Whether partitioners have the names that Flink's classes print."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.topology.error_kinds import ErrorKind
from penstock.plans.topology.rules import shorten
from penstock.plans.vocabulary import (
    FORWARD_CLASSES,
    PARTITIONER_CLASSES,
    TABLE_HASH_CLASS,
    Partitioner,
)

_PRINTED: Mapping[str, str] = {
    **{name: partitioner.upper() for partitioner, name in PARTITIONER_CLASSES.items()},
    **dict.fromkeys(FORWARD_CLASSES, Partitioner.FORWARD.upper()),
}
"""What toString of Flink's partitioners gives."""

_OTHERS_PRINT = (Partitioner.HASH.upper(), Partitioner.CUSTOM.upper())
"""Names that partitioners of connectors and of the Table planner have, too; planning treats all alike."""

_WRAPPER = PARTITIONER_CLASSES[Partitioner.CUSTOM]
"""Also stands for partitioners of which only the printed name is known: those of imported plans."""


def wrongly_printed(edges: Sequence[Mapping[str, Any]]) -> list[TopologyError]:
    """An error for each edge that contradicts itself.

    Its `partitioner` is not what Flink's `partitioner_class` prints; or it is a name by which Flink plans,
    such as FORWARD, and the class is none that prints it. Other classes print what they like.
    """
    errors = []
    for edge in edges:
        printed, of_class = edge["partitioner"], edge["partitioner_class"]
        classes = [name for name, text in _PRINTED.items() if text == printed]
        if of_class in _PRINTED and of_class != _WRAPPER and printed != _PRINTED[of_class]:
            what, allowed = "partitioner", _PRINTED[of_class]
        elif of_class == TABLE_HASH_CLASS and not printed.startswith("HASH["):
            what, allowed = "partitioner", "HASH[FIELDS]"
        elif classes and printed not in _OTHERS_PRINT and of_class not in (*classes, _WRAPPER):
            what, allowed = "partitioner_class", ", ".join(classes)
        else:
            continue
        hint = f"{allowed} goes with {printed if what == 'partitioner_class' else of_class}"
        where, found = f"edge {edge['edge_id']!r}", f"{what} {shorten(edge[what])}"
        errors.append(TopologyError(ErrorKind.UNKNOWN_VALUE, where, found, allowed, hint))
    return errors
