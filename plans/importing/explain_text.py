"""What Flink's EXPLAIN prints of a query, and what `flink info` prints of a job.

Sources: org.apache.flink.table.planner.delegation.PlannerBase (explain), RelTreeWriterImpl,
org.apache.flink.client.cli.CliFrontend (info).
"""

import json
import re
from typing import Any

from penstock.plans.bounds import MOST_NODES, require_at_most
from penstock.plans.errors import InputError
from penstock.plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode

SECTION = re.compile(r"^== (.+) ==\s*$", re.MULTILINE)
SECTIONS = ("Optimized Execution Plan", "Optimized Physical Plan", "Abstract Syntax Tree")
"""Headings of trees, the one that is closest to the job first."""
JSON_SECTION = "Physical Execution Plan"
INFO_BEGIN = re.compile(r"^-{5,} Execution Plan -{5,}\s*$", re.MULTILINE)
INFO_END = re.compile(r"^-{20,}\s*$", re.MULTILINE)

_LINE = re.compile(r"^((?:[ :|]  )*)(?:([+:])- )?(\w[\w$]*)(\(.*\))?(.*)$")
_REUSED, _REUSE = re.compile(r"reference_id=\[(\d+)\]"), re.compile(r"reuse_id=\[(\d+)\]")
_SHARED = re.compile(r"\(reuse_id=\[\d+\]\)")
_DISTRIBUTION = re.compile(r"distribution=\[(\w+)")
_PARTITIONERS = {
    "hash": "hash", "single": "global", "broadcast": "broadcast", "forward": "forward", "any": "rebalance",
}  # fmt: skip


def json_in_text(text: str) -> dict[str, Any] | None:
    """Flink's JSON of a plan in what `flink info` or EXPLAIN prints; None: none is there."""
    begin = INFO_BEGIN.search(text)
    sections = {found[1]: found.end() for found in SECTION.finditer(text)}
    start = sections.get(JSON_SECTION) if begin is None else begin.end()
    if start is None:
        return None
    place = text.find("{", start)
    if place < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, place)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_explain(text: str, file: str, name: str) -> GivenGraph:
    """The tree of operators of EXPLAIN as a graph: an operator for each line, below what reads it.

    An Exchange is the partitioner of the edge that goes through it. Parts that are used again are there once.
    Raises InputError.
    """
    found = {match[1]: match.end() for match in SECTION.finditer(text)}
    chosen = next((section for section in SECTIONS if section in found), None)
    if chosen is None:
        raise InputError(f"{file}: found text of EXPLAIN without a plan", f"allowed: == {SECTIONS[0]} ==")
    end = next((match.start() for match in SECTION.finditer(text, found[chosen])), len(text))
    nodes: list[GivenNode] = []
    edges: list[GivenEdge] = []
    above: list[tuple[int, str, str | None]] = []  # depth, who reads, through which partitioner
    shared: dict[str, str] = {}
    waiting: list[tuple[str, str, str | None]] = []
    for line in text[found[chosen] : end].splitlines():
        match = _LINE.match(line.rstrip())
        if match is None or not match[3] or not (match[4] or match[2]):
            continue
        indent, branch, kind, arguments, rest = match.groups(default="")
        depth = len(indent) // 3 + bool(branch)
        above = above[:depth]
        reader, through = (above[-1][1], above[-1][2]) if above else (None, None)
        key = str(len(nodes))
        if kind == "Exchange" and reader is not None:
            distribution = _DISTRIBUTION.search(arguments)
            partitioner = _PARTITIONERS.get("" if distribution is None else distribution[1])
            reuse = _REUSE.search(arguments + rest)
            if reuse is None:
                above.append((depth, reader, partitioner or through))
                continue
        if kind == "Reused":
            reference = _REUSED.search(arguments)
            if reference is not None and reader is not None:
                waiting.append((reference[1], reader, through))
            above.append((depth, reader or key, through))
            continue
        nodes.append(GivenNode(key, {"name": f"{kind}{_SHARED.sub('', arguments)}"[:200]}))
        require_at_most(len(nodes), MOST_NODES, "nodes")
        if reader is not None:
            edges.append(GivenEdge(key, reader, {} if through is None else {"partitioner": through}))
        for reuse in _REUSE.finditer(arguments + rest):
            shared[reuse[1]] = key
        above.append((depth, key, None))
    edges += [
        GivenEdge(shared[reference], reader, {} if through is None else {"partitioner": through})
        for reference, reader, through in waiting
        if reference in shared
    ]
    if not nodes:
        raise InputError(f"{file}: found no operator below == {chosen} ==")
    return GivenGraph(name, nodes, edges)
