"""Read what Flink prints of a plan: EXPLAIN, `flink info`, and the nodes of its JSON by themselves."""

import json
import re
from typing import Any

from penstock.plans.errors import InputError
from penstock.plans.importing.bounds import MOST_NODES, require_at_most
from penstock.plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode
from penstock.plans.importing.importers import INFO_BEGIN, JSON_SECTION, SECTION, SECTIONS
from penstock.plans.importing.json_graphs import json_array
from penstock.plans.topology.input_errors import unreadable_file
from penstock.plans.topology.rules import shorten

Document = dict[str, Any]
"""Flink's JSON of a plan."""


def read_flink_info(text: str, file: str, name: str) -> Document:
    """Return the JSON of a plan in the output of `flink info`. Raises InputError."""
    document = _json_in_text(text)
    if document is None:
        raise unreadable_file(file, "output of flink info without the JSON of a plan")
    return {"name": name, **document}


def read_explain(text: str, file: str, name: str) -> GivenGraph | Document:
    """Return the JSON of a plan in the output of EXPLAIN, or its tree if it has none. Raises InputError."""
    document = _json_in_text(text)
    return _read_tree(text, file, name) if document is None else {"name": name, **document}


def read_plan_nodes(text: str, file: str, name: str) -> Document:
    """Return a plan of nodes that are by themselves. Raises InputError."""
    return {"name": name, "nodes": json_array(text, file, "a plan's nodes")}


_LINE = re.compile(r"^((?:[ :|]  )*)(?:([+:])- )?(\w[\w$]*)(\(.*\))?(.*)$")
_REUSED, _REUSE = re.compile(r"reference_id=\[(\d+)\]"), re.compile(r"reuse_id=\[(\d+)\]")
_SHARED = re.compile(r"\(reuse_id=\[\d+\]\)")
_DISTRIBUTION = re.compile(r"distribution=\[(\w+)")
_PARTITIONERS = {
    "hash": "hash", "single": "global", "broadcast": "broadcast", "forward": "forward", "any": "rebalance",
}  # fmt: skip


def _json_in_text(text: str) -> dict[str, Any] | None:
    """Return Flink's JSON of a plan in the output of `flink info` or EXPLAIN; None if it has none."""
    begin = INFO_BEGIN.search(text)
    sections = {match[1]: match.end() for match in SECTION.finditer(text)}
    start = sections.get(JSON_SECTION) if begin is None else begin.end()
    if start is None:
        return None
    place = text.find("{", start)
    if place < 0:
        return None
    try:
        plan, _ = json.JSONDecoder().raw_decode(text, place)
    except (ValueError, RecursionError):
        return None
    return plan if isinstance(plan, dict) else None


def _read_tree(text: str, file: str, name: str) -> GivenGraph:
    """Return the tree of operators of EXPLAIN as a graph, with an operator per line, below its reader.

    An Exchange is the partitioner of the edge that goes through it. Reused parts occur once. Raises
    InputError.
    """
    sections = {match[1]: match.end() for match in SECTION.finditer(text)}
    chosen = next((section for section in SECTIONS if section in sections), None)
    if chosen is None:
        raise InputError(
            f"{file}: output of EXPLAIN without a plan", f"a plan begins with == {SECTIONS[0]} =="
        )
    end = next((match.start() for match in SECTION.finditer(text, sections[chosen])), len(text))
    nodes: list[GivenNode] = []
    edges: list[GivenEdge] = []
    above: list[tuple[int, str, str | None]] = []  # depth, reader, partitioner
    shared: dict[str, str] = {}
    waiting: list[tuple[str, str, str | None]] = []
    left_out: list[str] = []
    for line in text[sections[chosen] : end].splitlines():
        match = _LINE.match(line.rstrip())
        if match is None or not match[3] or not (match[4] or match[2]):
            if line.strip():
                left_out.append(f"line {shorten(line.strip(), 60)}")
            continue
        indent, branch, kind, arguments, rest = match.groups(default="")
        depth = len(indent) // 3 + bool(branch)
        above = above[:depth]
        reader, through = (above[-1][1], above[-1][2]) if above else (None, None)
        key = str(len(nodes))
        if kind == "Exchange" and reader is not None:
            distribution = _DISTRIBUTION.search(arguments)
            partitioner = _PARTITIONERS.get("" if distribution is None else distribution[1])
            if partitioner is None:
                left_out.append(f"Exchange{shorten(arguments, 60)}")
            reuse = _REUSE.search(arguments + rest)
            if reuse is None:
                above.append((depth, reader, partitioner or through))
                continue
        if kind == "Reused":
            reference = _REUSED.search(arguments)
            if reference is None or reader is None:
                raise InputError(f"{file}: {shorten(line.strip(), 60)} lacks a valid reference")
            waiting.append((reference[1], reader, through))
            above.append((depth, reader or key, through))
            continue
        nodes.append(GivenNode(key, {"name": f"{kind}{_SHARED.sub('', arguments)}"}))
        require_at_most(len(nodes), MOST_NODES, "nodes")
        if reader is not None:
            edges.append(GivenEdge(key, reader, {} if through is None else {"partitioner": through}))
        for reuse in _REUSE.finditer(arguments + rest):
            shared[reuse[1]] = key
        above.append((depth, key, None))
    if missing := next((reference for reference, _, _ in waiting if reference not in shared), None):
        raise InputError(
            f"{file}: no operator has reuse_id=[{missing}], to which reference_id=[{missing}] refers",
            "EXPLAIN prints the whole plan; check that none of its lines is missing",
        )
    edges += [
        GivenEdge(shared[reference], reader, {} if through is None else {"partitioner": through})
        for reference, reader, through in waiting
    ]
    if not nodes:
        raise InputError(f"{file}: no operator below == {chosen} ==")
    left_out += [f"section {section!r}" for section in sections if section != chosen]
    return GivenGraph(name, nodes, edges, left_out=left_out, keys_are_ids=False)
