"""Rows of the `rejected` table out of topologies and their errors."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.plans.error_kinds import INPUT_STAGE, ErrorKind
from penstock.plans.errors import TopologyError
from penstock.plans.frames.polars_frames import empty, from_arrow
from penstock.plans.printable import MOST_OF_A_NAME, limited
from penstock.plans.tables import TABLES
from penstock.plans.topology.columnar.topology_tables import topology_id
from penstock.plans.topology.read_topology_tables import ALLOWED_AND_HINT
from penstock.plans.topology.validate_topology import LINE
from penstock.plans.vocabulary import TopologyForm


class Refused(NamedTuple):
    """A topology or line that is not planned; `errors` (as `parse_lines.shown`) are in order of finding."""

    name: str | None
    source_file: str | None
    source_line: int | None
    error_stage: str
    errors: list[Mapping[str, str]]


def rejected_rows(refused: Iterable[Refused]) -> pl.DataFrame:
    """REJECTED. As joins.rejected_rows."""
    rows = [_row(entry) for entry in refused]
    if not rows:
        return empty("rejected")
    return from_arrow(pa.Table.from_pylist(rows, TABLES["rejected"]))


def _row(refused: Refused) -> dict[str, Any]:
    errors = [TopologyError(**{**e, "location": _located(refused, e["location"])}) for e in refused.errors]
    ours = refused.error_stage == INPUT_STAGE
    return {
        "topology_id": None if refused.name is None else topology_id(refused.name),
        "name": refused.name,
        "source_file": refused.source_file,
        "source_line": refused.source_line,
        "error_stage": refused.error_stage,
        "error": errors[0].error,
        "message": "\n".join(e.message for e in errors) if ours else errors[0].found,
        "errors": [{slot: getattr(e, slot) for slot in TopologyError.__slots__} for e in errors],
    }


def _located(refused: Refused, location: str) -> str:
    """An error of a whole line says which line of which file it is."""
    if location != LINE:
        return location
    if refused.source_file is None:
        return "object"
    return f"line {refused.source_line} of {refused.source_file}"


# What is wrong with rows of a given table `topologies` by themselves.


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
            error = _error(ErrorKind.TOPOLOGY_ID_MISMATCH, f"topology_id {i}")
        elif i in names_of and len(names_of[i]) == 1:
            text = "" if name is None else f"name {limited(name, MOST_OF_A_NAME)} on {with_id[i]} rows"
            error = _error(ErrorKind.DUPLICATE_TOPOLOGY_NAME, text)
        elif i in names_of:
            error = _error(ErrorKind.TOPOLOGY_ID_COLLISION, f"topology_id {i} of several names")
        elif form != _FORM:
            error = _error(ErrorKind.UNKNOWN_VALUE, f"form {limited(form, MOST_OF_A_NAME)}")
        else:
            continue
        # The first of several by name, so that the order of rows does not matter.
        of_id[i] = min(of_id.get(i, error), error, key=lambda error: tuple(error.values()))
    return {position: of_id[i] for position, i in enumerate(ids) if i in of_id}


def no_topology(ids: Iterable[int | None]) -> list[dict[str, str]]:
    """NoTopology of each topology_id that only transformations have."""
    texts = ("null" if i is None else str(i) for i in ids)
    return [_error(ErrorKind.NO_TOPOLOGY, f"transformations of topology_id {text}") for text in texts]


def _error(kind: ErrorKind, found: str) -> dict[str, str]:
    allowed, hint = ALLOWED_AND_HINT[kind]
    return {"error": str(kind), "location": "topology", "found": found, "allowed": allowed, "hint": hint}
