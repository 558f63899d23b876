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

_FORWARD = Partitioner.FORWARD.upper()
_PRINTED: Mapping[str, str] = {
    **{name: partitioner.upper() for partitioner, name in PARTITIONER_CLASSES.items()},
    **dict.fromkeys(FORWARD_CLASSES, _FORWARD),
}
"""What toString of Flink's partitioners gives."""

_WRAPPER = PARTITIONER_CLASSES[Partitioner.CUSTOM]
"""Also stands for partitioners of which only the printed name is known: those of imported plans."""


def wrongly_printed(edges: Sequence[Mapping[str, Any]]) -> list[TopologyError]:
    """An error for each edge that contradicts itself.

    Its `partitioner` is not what Flink's `partitioner_class` prints, or it is FORWARD and the class is none
    of those that Flink chains by. Classes that are not Flink's print what they like.
    """
    errors = []
    for edge in edges:
        printed, of_class = edge["partitioner"], edge["partitioner_class"]
        if printed == _FORWARD and of_class not in FORWARD_CLASSES:
            what, allowed = "partitioner_class", ", ".join(FORWARD_CLASSES)
            hint = f"a {_FORWARD} partitioner has one of these classes"
        elif of_class == TABLE_HASH_CLASS and not printed.startswith("HASH["):
            what, allowed = "partitioner", "HASH[FIELDS]"
            hint = f"Flink's {TABLE_HASH_CLASS} prints no other name"
        elif of_class != _WRAPPER and printed != _PRINTED.get(of_class, printed):
            what, allowed = "partitioner", _PRINTED[of_class]
            hint = f"Flink's {of_class} prints no other name"
        else:
            continue
        where = f"edge {edge['edge_id']!r}"
        found = f"{what} {shorten(edge[what])}"
        errors.append(TopologyError(ErrorKind.UNKNOWN_VALUE, where, found, allowed, hint))
    return errors
