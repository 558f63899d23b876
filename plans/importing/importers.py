"""The forms that `penstock import` reads, and how a file is recognised by its first bytes.

A form is one record in IMPORTERS. Known formats that do not contain a job's graph are recognised, too.
"""

import os
import re
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from penstock.plans.topology.rules import shorten
from penstock.plans.topology.unpacked_texts import CODECS

# How texts of each form begin.


# EXPLAIN for a query, and `flink info` for a job.
#
# Sources: org.apache.flink.table.planner.delegation.PlannerBase (explain), RelTreeWriterImpl,
# org.apache.flink.client.cli.CliFrontend (info).


SECTION = re.compile(r"^== (.+) ==\s*$", re.MULTILINE)
SECTIONS = ("Optimized Execution Plan", "Optimized Physical Plan", "Abstract Syntax Tree")
"""Headings of trees, the one closest to the job first."""
JSON_SECTION = "Physical Execution Plan"
INFO_BEGIN = re.compile(r"^-{5,} Execution Plan -{5,}\s*$", re.MULTILINE)

# Patterns are possessive (*+, (?>…)), so that none tries a long text in many ways.
_PROLOG = r"^\s*+(<\?xml[^>]*+>)?\s*+((?><!--[\s\S]*?-->)\s*+)*+"
_XML = rf"{_PROLOG}(<!DOCTYPE[^>\[]*+(?>\[[\s\S]*?\])?[^>]*+>\s*+)?<(\w+:)?"
_NODE = re.compile(r'^\s*\[\s*\{[^{}]*"(pact|predecessors|operator_strategy)"\s*:')
ALIBABA_COLUMNS = (
    *("task_name", "instance_num", "job_name", "task_type", "status"),
    *("start_time", "end_time", "plan_cpu", "plan_mem"),
)


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


def _is_explain(text: str) -> bool:
    return any(match[1] in (*SECTIONS, JSON_SECTION) for match in SECTION.finditer(text))


def is_wfformat(document: Mapping[str, Any]) -> bool:
    """Return whether an object is an instance of any version of WfFormat."""
    return "schemaVersion" in document and type(document.get("workflow")) is dict


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


class Importer(NamedTuple):
    """A form of graphs, or of plans of other tools."""

    form: str
    """Its name in notes of an import."""
    meaning: str
    """Its name for people, in messages and help; forms may share it."""
    reader: str
    """MODULE:FUNCTION below plans.importing, which is imported when it is used.

    Of content: (text, file, name) to a GivenGraph or Flink's JSON of a plan, or a list of them. Of an object:
    (document, name, options) to a topology or its errors.
    """
    begins: Callable[[str], object] | None = None
    """Whether a text begins like the form; None: it is not recognised by its content."""
    takes: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether a JSON object has the form; None: the form consists of whole files."""
    endings: tuple[str, ...] = ()
    """Extensions of its files, for texts of no form that is recognised by content."""
    in_bytes: bool = False
    """Whether the reader takes bytes, since XML names its encoding itself."""

    def read(self, *arguments: Any) -> Any:
        """Call the reader."""
        module, _, function = self.reader.partition(":")
        return getattr(import_module(f"penstock.plans.importing.{module}"), function)(*arguments)


IMPORTERS = (
    Importer("dot", "DOT", "read_dot:read_dot", _DOT.match, endings=(".dot", ".gv")),
    Importer(
        "graphml",
        "GraphML",
        "read_graphml:read_graphml",
        lambda text: re.match(rf"{_XML}graphml\b", text),
        endings=(".graphml",),
        in_bytes=True,
    ),
    Importer("pajek", "Pajek", "read_pajek:read_pajek", _PAJEK.match),
    Importer(
        "edge-list",
        "edge lists",
        "read_edge_list:read_edge_list",
        endings=(".csv", ".tsv", ".edges", ".edgelist", ".adjlist", ".tgf", ".txt"),
    ),
    Importer(
        "json-array",
        "graphs in JSON (node-link, vis.js, d3, Cytoscape, Arroyo)",
        "json_graphs:read_json_array",
        _ARRAY.match,
    ),
    Importer("wfformat", "WfFormat", "task_graphs:from_wfformat", takes=is_wfformat),
    Importer("stg", "STG", "task_graphs:read_stg", _is_stg),
    Importer("daggen", "daggen", "task_graphs:read_daggen", _DAGGEN.match),
    Importer(
        "dax",
        "Pegasus (DAX, YAML)",
        "task_graphs:read_dax",
        lambda text: re.match(rf"{_XML}adag\b", text),
        in_bytes=True,
    ),
    Importer("pegasus", "Pegasus (DAX, YAML)", "task_graphs:read_pegasus", _is_pegasus),
    Importer("alibaba-batch-task", "Alibaba's batch tasks", "task_graphs:read_alibaba", _is_alibaba),
    Importer("plan-nodes", "Flink's JSON", "read_explain:read_plan_nodes", _NODE.match),
    Importer("flink-info", "flink info", "read_explain:read_flink_info", INFO_BEGIN.search),
    Importer("flink-explain", "EXPLAIN", "read_explain:read_explain", _is_explain),
)
"""All forms, as messages list them; the first whose pattern a text begins with, reads it."""

READ_FORMS = ", ".join(dict.fromkeys(importer.meaning for importer in IMPORTERS)) + " and plan JSON"
"""The supported forms, for messages."""


def importer_of_name(file: str) -> Importer | None:
    """Return the importer of a file by its name; None for any other."""
    ending = ending_of(file)
    return next((importer for importer in IMPORTERS if ending in importer.endings), None)


def ending_of(file: str) -> str:
    """Return the extension of a file, before the extension of a compressed one."""
    stem, ending = os.path.splitext(file)
    if ending.lower() in CODECS:
        ending = os.path.splitext(stem)[1]
    return ending.lower()


# Content that is known and holds no job.


class NoJob(NamedTuple):
    """The description of a known kind of content that cannot be imported, and a hint."""

    what: str
    hint: str


_NETWORKX = "read it with networkx, and convert it with penstock.import_graph"
_CAPTURE = "penstock capture runs a program and writes its jobs as topologies"
_READS = f"penstock import reads {READ_FORMS}"
_PICKLE = NoJob("a pickle", "unpickle it, and give graphs of networkx to penstock.import_graph")
_PACKED = (
    (b"\x1f\x8b", "gzip", ".gz"), (b"BZh91AY&SY", "bzip2", ".bz2"), (b"\x28\xb5\x2f\xfd", "zstd", ".zst"),
    (b"\x04\x22\x4d\x18", "LZ4", ".lz4"),
)  # fmt: skip
_BINARY = (
    (b"PK\x03\x04", NoJob("a jar or zip archive", _CAPTURE)),
    (b"PAR1", NoJob("a Parquet file", "penstock.plan takes frames; import takes graphs")),
    (b"\x80\x04", _PICKLE),
    (b"\x80\x05", _PICKLE),
    (b"%PDF", NoJob("a PDF", _READS)),
    (b"\x89PNG", NoJob("a picture", _READS)),
    (b"\xff\xd8\xff", NoJob("a picture", _READS)),
    (b"GIF8", NoJob("a picture", _READS)),
    *(
        (mark, NoJob("text that is not UTF-8 but UTF-16", "save it as UTF-8"))
        for mark in (b"\xff\xfe", b"\xfe\xff")
    ),
    *(
        (magic, NoJob(f"a file packed by {name}", f"its name must end in {ending}"))
        for magic, name, ending in _PACKED
    ),
    *(
        (magic, NoJob(f"a file packed by {name}", "unpack it, or pack it by gzip or zstd instead"))
        for magic, name in ((b"\xfd7zXZ\0", "xz"), (b"7z\xbc\xaf\x27\x1c", "7-Zip"))
    ),
    (b"SQLite format 3\0", NoJob("a database of SQLite", "penstock.plan takes frames; import takes graphs")),
)
_SPARK_PLAN = NoJob("a plan of Spark", "Penstock plans Flink's jobs")
_KAFKA_TOPOLOGY = NoJob("a topology of Kafka Streams (Topology.describe())", _READS)
_STORM_TOPOLOGY = NoJob("a topology of Storm (Flux)", _READS)
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


def content_of(beginning: bytes) -> Importer | NoJob | None:
    """Return the importer of a file that begins like this; None if undetermined, as for topology lines."""
    known = next((content for magic, content in _BINARY if beginning.startswith(magic)), None)
    if known is not None or b"\0" in beginning:
        return known
    text = beginning.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    found = next((one for one in IMPORTERS if one.begins is not None and one.begins(text)), None)
    return found or next((content for pattern, content in _TEXTS if re.search(pattern, text)), None)


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
