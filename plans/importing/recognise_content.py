"""What a file is, by its beginning: forms that `penstock import` reads whatever a file is called, and things
that are known and no graphs of jobs."""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from penstock.plans.importing.explain_text import INFO_BEGIN, JSON_SECTION, SECTION, SECTIONS
from penstock.plans.importing.task_graphs import ALIBABA_COLUMNS


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
    """What a file is that begins so; None: nothing that its beginning tells, such as topology lines."""
    known = next((found for magic, found in _BINARY if beginning.startswith(magic)), None)
    if known is not None or b"\0" in beginning:
        return known
    text = beginning.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    content = next((content for content, is_one in _CONTENTS.items() if is_one(text)), None)
    return content or next((found for pattern, found in _TEXTS if re.search(pattern, text)), None)


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
        found[1] in (*SECTIONS, JSON_SECTION) for found in SECTION.finditer(text)
    ),
    Content.PEGASUS: _is_pegasus,
    Content.PLAN_NODES: _NODE.match,
    Content.ALIBABA: _is_alibaba,
    Content.STG: _is_stg,
}
