"""What is wrong with the topology of a graph, in terms of the graph."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.plans.errors import TopologyError
from penstock.plans.topology.rules import shorten
from penstock.plans.topology.validate_topology import validate_topology

_TRANSFORMATION = re.compile(r"transformation ([0-9]+)").fullmatch


def graph_errors(topology: Mapping[str, Any]) -> list[TopologyError]:
    """As validate_topology, with nodes and edges in place of transformations, if it is one of a graph."""
    errors = validate_topology(dict(topology))
    rows = topology.get("transformations")
    return [_located(error, rows) for error in errors] if type(rows) is list else errors


def _located(error: TopologyError, rows: list[Any]) -> TopologyError:
    found = _TRANSFORMATION(error.location)
    if found is None or not 0 < int(found[1]) <= len(rows):
        return error
    row, what = rows[int(found[1]) - 1], "node"
    while "name" not in row and row.get("inputs"):
        row, what = rows[row["inputs"][0] - 1], "an edge from"
    # A text is how files of graphs write every value.
    hint = "" if error.hint == "write it without quotes" else error.hint
    return replace(error, location=f"{what} {shorten(row.get('name'), 60)}", hint=hint)
