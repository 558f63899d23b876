"""Recognises a file by its first bytes: forms that `penstock import` reads regardless of the file's name, and
known formats that hold no graph of a job.
"""

import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.plans.bounds import MOST_NODES, require_at_most
from penstock.plans.errors import InputError
from penstock.plans.importing.given_graph import GivenEdge, GivenGraph, GivenNode
from penstock.plans.importing.task_graphs import ALIBABA_COLUMNS

# What Flink's EXPLAIN prints of a query, and what `flink info` prints of a job.
#
# Sources: org.apache.flink.table.planner.delegation.PlannerBase (explain), RelTreeWriterImpl,
# org.apache.flink.client.cli.CliFrontend (info).


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
    """Flink's JSON of a plan within the output of `flink info` or EXPLAIN; None if it has none."""
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


def read_explain(text: str, file: str, name: str) -> GivenGraph:
    """The tree of operators of EXPLAIN as a graph: an operator for each line, below what reads it.

    An Exchange is the partitioner of the edge that goes through it. Parts that are used again are there once.
    Raises InputError.
    """
    sections = {match[1]: match.end() for match in SECTION.finditer(text)}
    chosen = next((section for section in SECTIONS if section in sections), None)
    if chosen is None:
        raise InputError(f"{file}: found text of EXPLAIN without a plan", f"allowed: == {SECTIONS[0]} ==")
    end = next((match.start() for match in SECTION.finditer(text, sections[chosen])), len(text))
    nodes: list[GivenNode] = []
    edges: list[GivenEdge] = []
    above: list[tuple[int, str, str | None]] = []  # depth, reader, partitioner
    shared: dict[str, str] = {}
    waiting: list[tuple[str, str, str | None]] = []
    for line in text[sections[chosen] : end].splitlines():
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


# All kinds of content.


class Content(StrEnum):
    """Forms that are told by content; their names are those of notes of an import."""

    STG = "stg"
    DAX = "dax"
    PEGASUS = "pegasus"
    ALIBABA = "alibaba-batch-task"
    FLINK_INFO = "flink-info"
    EXPLAIN = "flink-explain"
    PLAN_NODES = "plan-nodes"
    GRAPHML = "graphml"


class NoJob(NamedTuple):
    """Something that is known and cannot be imported: what it is, and what to do with it."""

    what: str
    hint: str


_NETWORKX = "read it by networkx, and make a topology by penstock.import_graph"
_CAPTURE = "penstock capture runs a program and writes its jobs as topologies"
_BINARY = (
    (b"PK\x03\x04", NoJob("a jar or zip archive", _CAPTURE)),
    (b"PAR1", NoJob("a Parquet file", "penstock.plan takes frames; import takes graphs")),
    (
        b"\x80\x04",
        NoJob("a pickle", "unpickle it, and give graphs of networkx to penstock.import_graph"),
    ),
    (
        b"\x80\x05",
        NoJob("a pickle", "unpickle it, and give graphs of networkx to penstock.import_graph"),
    ),
    (b"%PDF", NoJob("a PDF", "graphs are DOT, GraphML, edge lists, JSON")),
    (b"\x89PNG", NoJob("a picture", "graphs are DOT, GraphML, edge lists, JSON")),
)
_TEXTS = (
    (r"^\s*(<\?xml[^>]*>)?\s*(<!--.*?-->\s*)*<gexf\b", NoJob("a GEXF graph", _NETWORKX)),
    (r"^\s*(<\?xml[^>]*>)?\s*(<!--.*?-->\s*)*<svg\b", NoJob("a picture (SVG)", "import takes graphs")),
    (r"^\s*(Creator .*\n)?\s*graph\s*\[", NoJob("a GML graph", _NETWORKX)),
    (r"^\s*\*(Vertices|Network)\b", NoJob("a Pajek graph", _NETWORKX)),
    (r"^%%MatrixMarket\b", NoJob("a sparse matrix (Matrix Market)", "write its entries as an edge list")),
    (r"^== (Parsed Logical|Analyzed Logical|Optimized Logical|Physical) Plan ==",
     NoJob("a plan of Spark", "Penstock plans Flink's jobs")),
    (r"(?i)^\s*(--.*\n\s*)*(create\s+(temporary\s+)?(table|view|catalog|function)|insert\s+into|"
     r"execute\s+statement\s+set|set\s+')", NoJob("a SQL script", "import reads what EXPLAIN prints of it")),
    (r"^\s*(//.*\n|/\*[\s\S]*?\*/\s*)*\s*(package|import)\s+[\w.]+;", NoJob("a Java program", _CAPTURE)),
    (r"^@startuml\b", NoJob("a PlantUML diagram", "import takes DOT and GraphML")),
    (r"^\s*(flowchart|graph)\s+(TD|TB|LR|RL|BT)\b", NoJob("a Mermaid diagram", "DOT and GraphML are read")),
)  # fmt: skip
_XML = r"^\s*(<\?xml[^>]*\?>)?\s*(<!--[\s\S]*?-->\s*)*(<!DOCTYPE[^>\[]*(\[[\s\S]*?\])?[^>]*>\s*)?<(\w+:)?"
_NODE = re.compile(r'^\s*\[\s*\{[^{}]*"(pact|predecessors|operator_strategy)"\s*:')


def content_of(beginning: bytes) -> Content | NoJob | None:
    """The kind of file that begins like this; None if the beginning does not tell, as for topology lines."""
    known = next((content for magic, content in _BINARY if beginning.startswith(magic)), None)
    if known is not None or b"\0" in beginning:
        return known
    text = beginning.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    content = next((content for content, is_one in _CONTENTS.items() if is_one(text)), None)
    return content or next((content for pattern, content in _TEXTS if re.search(pattern, text)), None)


def _is_alibaba(text: str) -> bool:
    lines = [line for line in text.split("\n")[:3] if line]
    if not lines:
        return False
    if lines[0].split(",")[0] == ALIBABA_COLUMNS[0]:
        return lines[0].split(",")[2:3] == [ALIBABA_COLUMNS[2]]
    cells = lines[0].split(",")
    return len(cells) == len(ALIBABA_COLUMNS) and cells[2].startswith("j_") and cells[1].isdigit()


def _is_stg(text: str) -> bool:
    """A line with a number, then lines with number, time, count and that many numbers."""
    lines = [line.split("#")[0].split() for line in text.split("\n")[:-1][:6]]
    rows = [line for line in lines if line]
    if len(rows) < 3 or len(rows[0]) != 1 or not all(cell.isdigit() for row in rows for cell in row):
        return False
    return all(len(row) >= 3 and int(row[2]) == len(row) - 3 for row in rows[1:]) and rows[1][2] == "0"


def _is_pegasus(text: str) -> bool:
    is_workflow = re.search(r"^pegasus:\s*['\"]?5", text, re.MULTILINE)
    return is_workflow is not None and re.search(r"^jobs:", text, re.MULTILINE) is not None


_CONTENTS: dict[Content, Callable[[str], object]] = {
    Content.DAX: lambda text: re.match(rf"{_XML}adag\b", text),
    Content.GRAPHML: lambda text: re.match(rf"{_XML}graphml\b", text),
    Content.FLINK_INFO: INFO_BEGIN.search,
    Content.EXPLAIN: lambda text: any(
        match[1] in (*SECTIONS, JSON_SECTION) for match in SECTION.finditer(text)
    ),
    Content.PEGASUS: _is_pegasus,
    Content.PLAN_NODES: _NODE.match,
    Content.ALIBABA: _is_alibaba,
    Content.STG: _is_stg,
}
