"""What is wrong with rows of a given table `topologies` by themselves."""

from collections import Counter
from collections.abc import Iterable, Sequence

from penstock.plans.printable import MOST_OF_A_NAME, limited
from penstock.plans.topology.columnar.topology_id import topology_id
from penstock.plans.topology.error_kinds import ErrorKind
from penstock.plans.topology.read_topology_tables import ALLOWED_AND_HINT
from penstock.plans.vocabulary import TopologyForm

_FORM = str(TopologyForm.TRANSFORMATIONS)


def row_errors(
    ids: Sequence[int], names: Sequence[str | None], forms: Sequence[str]
) -> dict[int, dict[str, str]]:
    """Position to TopologyIdMismatch, DuplicateTopologyName, TopologyIdCollision, or UnknownValue of a form
    that tables do not have; all rows of an id alike. As joins.read_topology_tables.
    """
    with_id = Counter(ids)
    names_of: dict[int, set[str]] = {i: set() for i, count in with_id.items() if count > 1}
    for i, name in zip(ids, names, strict=True):
        if name is not None and i in names_of:
            names_of[i].add(name)
    of_id: dict[int, dict[str, str]] = {}
    for i, name, form in zip(ids, names, forms, strict=True):
        if name is not None and i != topology_id(name):
            found = _error(ErrorKind.TOPOLOGY_ID_MISMATCH, f"topology_id {i}")
        elif i in names_of and len(names_of[i]) == 1:
            text = "" if name is None else f"name {limited(name, MOST_OF_A_NAME)} on {with_id[i]} rows"
            found = _error(ErrorKind.DUPLICATE_TOPOLOGY_NAME, text)
        elif i in names_of:
            found = _error(ErrorKind.TOPOLOGY_ID_COLLISION, f"topology_id {i} of several names")
        elif form != _FORM:
            found = _error(ErrorKind.UNKNOWN_VALUE, f"form {limited(form, MOST_OF_A_NAME)}")
        else:
            continue
        # Of several the first by name, whatever the order of rows.
        of_id[i] = min(of_id.get(i, found), found, key=lambda error: tuple(error.values()))
    return {position: of_id[i] for position, i in enumerate(ids) if i in of_id}


def no_topology(ids: Iterable[int | None]) -> list[dict[str, str]]:
    """NoTopology of each topology_id that only transformations have."""
    texts = ("null" if i is None else str(i) for i in ids)
    return [_error(ErrorKind.NO_TOPOLOGY, f"transformations of topology_id {text}") for text in texts]


def _error(kind: ErrorKind, found: str) -> dict[str, str]:
    allowed, hint = ALLOWED_AND_HINT[kind]
    return {"error": str(kind), "location": "topology", "found": found, "allowed": allowed, "hint": hint}
