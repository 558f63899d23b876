"""Rows of the `rejected` table out of topologies and their errors."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.plans.columnar.frames import empty, from_arrow
from penstock.plans.errors import TopologyError
from penstock.plans.tables import TABLES
from penstock.plans.topology.columnar.topology_id import topology_id
from penstock.plans.topology.error_kinds import INPUT_STAGE
from penstock.plans.topology.validate_topology import LINE


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
