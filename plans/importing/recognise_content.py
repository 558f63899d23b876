"""Recognise a file by its first bytes: forms that `penstock import` reads regardless of the file's name, and
known formats that do not contain a job's graph.
"""

import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from penstock.plans.errors import InputError
from penstock.plans.importing.bounds import MOST_NODES, require_at_most
from penstock.plans.importing.given_graph import READ_FORMS, GivenEdge, GivenGraph, GivenNode
from penstock.plans.importing.task_graphs import ALIBABA_COLUMNS
from penstock.plans.topology.rules import shorten

# Output of Flink's EXPLAIN for a query, and of `flink info` for a job.
#
# Sources: org.apache.flink.table.planner.delegation.PlannerBase (explain), RelTreeWriterImpl,
# org.apache.flink.client.cli.CliFrontend (info).


SECTION = re.compile(r"^== (.+) ==\s*$", re.MULTILINE)
SECTIONS = ("Optimized Execution Plan", "Optimized Physical Plan", "Abstract Syntax Tree")
"""Headings of trees, the one closest to the job first."""
JSON_SECTION = "Physical Execution Plan"
INFO_BEGIN = re.compile(r"^-{5,} Execution Plan -{5,}\s*$", re.MULTILINE)

_LINE = re.compile(r"^((?:[ :|]  )*)(?:([+:])- )?(\w[\w$]*)(\(.*\))?(.*)$")
_REUSED, _REUSE = re.compile(r"reference_id=\[(\d+)\]"), re.compile(r"reuse_id=\[(\d+)\]")
_SHARED = re.compile(r"\(reuse_id=\[\d+\]\)")
_DISTRIBUTION = re.compile(r"distribution=\[(\w+)")
_PARTITIONERS = {
    "hash": "hash", "single": "global", "broadcast": "broadcast", "forward": "forward", "any": "rebalance",
}  # fmt: skip


def json_in_text(text: str) -> dict[str, Any] | None:
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


def read_explain(text: str, file: str, name: str) -> GivenGraph:
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


# All kinds of content.


class Content(StrEnum):
    """Forms that are recognised by content; their names are used in notes of an import."""

    STG = "stg"
    DAX = "dax"
    PEGASUS = "pegasus"
    ALIBABA = "alibaba-batch-task"
    FLINK_INFO = "flink-info"
    EXPLAIN = "flink-explain"
    PLAN_NODES = "plan-nodes"
    GRAPHML = "graphml"
    DOT = "dot"
    PAJEK = "pajek"
    DAGGEN = "daggen"
    JSON_ARRAY = "json-array"  #: of edges, or of elements of Cytoscape; a note names its form


class NoJob(NamedTuple):
    """The description of a known kind of content that cannot be imported, and a hint."""

    what: str
    hint: str


_NETWORKX = "read it with networkx, and convert it with penstock.import_graph"
_CAPTURE = "penstock capture runs a program and writes its jobs as topologies"
_READS = f"penstock import reads {READ_FORMS}"
_PICKLE = NoJob("a pickle", "unpickle it, and give graphs of networkx to penstock.import_graph")
_BINARY = (
    (b"PK\x03\x04", NoJob("a jar or zip archive", _CAPTURE)),
    (b"PAR1", NoJob("a Parquet file", "penstock.plan takes frames; import takes graphs")),
    (b"\x80\x04", _PICKLE),
    (b"\x80\x05", _PICKLE),
    (b"%PDF", NoJob("a PDF", _READS)),
    (b"\x89PNG", NoJob("a picture", _READS)),
    (b"\xff\xd8\xff", NoJob("a picture", _READS)),
    (b"GIF8", NoJob("a picture", _READS)),
    (b"SQLite format 3\0", NoJob("a database of SQLite", "penstock.plan takes frames; import takes graphs")),
)
_SPARK_PLAN = NoJob("a plan of Spark", "Penstock plans Flink's jobs")
_KAFKA_TOPOLOGY = NoJob("a topology of Kafka Streams (Topology.describe())", _READS)
_STORM_TOPOLOGY = NoJob("a topology of Storm (Flux)", _READS)
# Patterns are possessive (*+, (?>…)), so that none tries a long text in many ways.
_PROLOG = r"^\s*+(<\?xml[^>]*+>)?\s*+((?><!--[\s\S]*?-->)\s*+)*+"
_TEXTS = (
    (rf"{_PROLOG}<gexf\b", NoJob("a GEXF graph", _NETWORKX)),
    (rf"{_PROLOG}<svg\b", NoJob("a picture (SVG)", _READS)),
    (rf"{_PROLOG}<sdf3\b", NoJob("a graph of SDF3", _READS)),
    (rf"{_PROLOG}<mxfile\b", NoJob("a diagram of draw.io", "export it as GraphML or CSV")),
    (rf"{_PROLOG}<(bpmn2?:)?definitions\b", NoJob("a process in BPMN", _READS)),
    (rf"(?i){_PROLOG}<(!doctype\s+)?html\b", NoJob("a page (HTML)", _READS)),
    (r"^\s*+((#|Creator |Version |comment ).*\n\s*+)*+graph\s*+\[", NoJob("a GML graph", _NETWORKX)),
    (r"^\s*+(#.*\n\s*+)*+@[A-Z_]+\s+[\d.]+\s*(\{|\n)", NoJob("task graphs of TGFF", _READS)),
    (r"^%%MatrixMarket\b", NoJob("a sparse matrix (Matrix Market)", "write its entries as an edge list")),
    (r"(?i)^\s*+nodedef\s*+>", NoJob("a graph of GUESS (GDF)", "write its edges as an edge list")),
    (r"(?i)^\s*+dl\s+n\s*+=", NoJob("a graph of UCINET (DL)", "write its edges as an edge list")),
    (r"^\s*+(c\b.*\n\s*+)*+p\s+(sp|max|min|edge|col|asn|tw)\s+\d+\s+\d+\s*\n",
     NoJob("a graph of DIMACS", "write its arcs as an edge list")),
    (r"^== (Parsed Logical|Analyzed Logical|Optimized Logical|Physical) Plan ==",
     _SPARK_PLAN),
    (r"^\s*+([+:]- |[ :|])*+(\*\(\d+\) |AdaptiveSparkPlan\b)", _SPARK_PLAN),
    (r"^\(\d+\) \w*RDD\[", _SPARK_PLAN),
    (r"^'?[A-Z]\w*+\b.*\n *+[:+]- ", NoJob("a tree of a query's plan", _READS)),
    (r"(?i)^\s*+(--.*\n\s*+)*+(create\s+(temporary\s+)?(table|view|catalog|function)|insert\s+into|"
     r"execute\s+statement\s+set|set\s+'|select\s[^;]*\sfrom\s)",
     NoJob("a SQL script", "import reads its EXPLAIN output")),
    (r"^\s*+((?>//.*\n|/\*[\s\S]*?\*/)\s*+)*+(package|import)\s+[\w.]++;", NoJob("a Java program", _CAPTURE)),
    (r"^\s*+((?>#.*|\"{3}[\s\S]*?\"{3})\n\s*+)*+(from airflow\b.*import|import airflow\b)",
     NoJob("a DAG of Airflow", _READS)),
    (r"^\s*+((?>#.*|\"{3}[\s\S]*?\"{3})\n\s*+)*+(from [\w.]+ import |import [\w.]+( as \w+)?\n)",
     NoJob("a Python program", "penstock plan plans the jobs of a script (.py)")),
    (r"^@start(uml|json|yaml|mindmap|wbs|dot)\b", NoJob("a PlantUML diagram", _READS)),
    (r"^\s*+((?>%%.*\n|---\n[\s\S]*?\n---\n)\s*+)*+(```mermaid\s+)?"
     r"((flowchart|graph)(-elk)?[ \t]*+(TD|TB|LR|RL|BT)?[ \t]*+(;|\n)"
     r"|(flowchart|graph)\s+(TD|TB|LR|RL|BT)\b|(sequence|class|state)Diagram\b)",
     NoJob("a Mermaid diagram", _READS)),
    (r"^\s*+((Topolog(y|ies)|Sub-topologies):[ \t]*+\n\s*+)*+Sub-topology:", _KAFKA_TOPOLOGY),
    (r"(?m)^(topologyClassName|topologySource|spouts|bolts)\s*:", _STORM_TOPOLOGY),
    (r"(?m)^dag_id\s*:|^  schedule_interval\s*:", NoJob("a DAG of Airflow in YAML", _READS)),
    (r"(?m)^apiVersion\s*:", NoJob("a resource of Kubernetes", _READS)),
)  # fmt: skip
_UNKNOWN_YAML = re.compile(r"^(---[ \t]*\n|[\w.-]+:(\s|$)|- [\w.-]+:\s)")
_TREE = re.compile(r"^\s*([└├│]|[|:+`]-|[A-Z].*+\n\s*+[└├│+`])")
_XML = rf"{_PROLOG}(<!DOCTYPE[^>\[]*+(?>\[[\s\S]*?\])?[^>]*+>\s*+)?<(\w+:)?"
_NODE = re.compile(r'^\s*\[\s*\{[^{}]*"(pact|predecessors|operator_strategy)"\s*:')


def content_of(beginning: bytes) -> Content | NoJob | None:
    """Return the kind of file that begins like this; None if undetermined, as for topology lines."""
    known = next((content for magic, content in _BINARY if beginning.startswith(magic)), None)
    if known is not None or b"\0" in beginning:
        return known
    text = beginning.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    content = next((content for content, is_one in _CONTENTS.items() if is_one(text)), None)
    return content or next((content for pattern, content in _TEXTS if re.search(pattern, text)), None)


def unknown_text(beginning: bytes) -> NoJob | None:
    """Describe a file that is neither JSON nor in a form known by its content or name; None for JSON.

    The text of the first line is quoted.
    """
    if b"\0" in beginning:
        return NoJob("a binary file", _READS)
    text = beginning.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines or any(line.lstrip()[0] in "{[" for line in lines):
        return None
    description = "text"
    if lines[0].lstrip().startswith("<"):
        description = "XML"
    elif _UNKNOWN_YAML.match(lines[0] + "\n"):
        description = "YAML"
    elif _TREE.match("\n".join(lines[:3])):
        description = "a tree of a query's plan"
    return NoJob(f"{description} that begins with {shorten(lines[0].strip(), 60)}", _READS)


def _is_alibaba(text: str) -> bool:
    rows = [line.split(",") for line in text.split("\n")[:5] if line]
    if rows and rows[0][0] == ALIBABA_COLUMNS[0]:
        return rows[0][2:3] == [ALIBABA_COLUMNS[2]]
    return any(
        len(cells) == len(ALIBABA_COLUMNS) and cells[2].startswith("j_") and cells[1].isdigit()
        for cells in rows
    )


def _is_stg(text: str) -> bool:
    """A line with a number, then lines with number, time, count and that many numbers."""
    lines = [line.split("#")[0].split() for line in text.split("\n")[:-1][:6]]
    rows = [line for line in lines if line]
    if len(rows) < 3 or len(rows[0]) != 1 or not all(_is_number(cell) for row in rows for cell in row):
        return False
    return all(len(row) >= 3 and int(row[2]) == len(row) - 3 for row in rows[1:]) and rows[1][2] == "0"


def _is_number(cell: str) -> bool:
    """Return whether a cell is a whole number that fits 64 bits."""
    return cell.isascii() and cell.isdigit() and len(cell) < 19


def _is_pegasus(text: str) -> bool:
    is_workflow = re.search(r"^pegasus:\s*['\"]?5", text, re.MULTILINE)
    return is_workflow is not None and re.search(r"^jobs:", text, re.MULTILINE) is not None


_DOT = re.compile(
    r"\s*+((?>(//|\#).*\n|/\*[\s\S]*?\*/)\s*+)*+"
    r"(strict\s+)?(digraph\b|graph\b(?!\s+(TD|TB|LR|RL|BT)\b))[^{\n]*+\s*+\{",
    re.IGNORECASE,
)
_DAGGEN = re.compile(r"\s*+((//|#).*\n\s*+)*+NODE(_COUNT)?\s+\d+(\s*$|\s+[\d,-]+\s+[A-Z]+\b)", re.MULTILINE)
_PAJEK = re.compile(r"(?i)\s*+(%.*\n\s*+)*+\*\s*+(vertices|network)\b")
_ARRAY = re.compile(r'\s*\[\s*\{\s*"(data|group|source|target|from|to|srcId|destId|src|dst)"\s*:')

_CONTENTS: dict[Content, Callable[[str], object]] = {
    Content.DOT: _DOT.match,
    Content.PAJEK: _PAJEK.match,
    Content.DAGGEN: _DAGGEN.match,
    Content.JSON_ARRAY: _ARRAY.match,
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
