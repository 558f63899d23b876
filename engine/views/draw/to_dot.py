"""Write graphs as DOT, Mermaid or HTML pages, or in any format by name."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from penstock.engine.views.draw.graph import DrawnGraph, DrawnPart, Node, fold, in_boxes
from penstock.engine.views.draw.lay_out import (
    Picture,
    drawn,
    group_class,
    lay_out,
    legend_entries,
    line_kinds,
    style,
)
from penstock.plans.errors import ConfigurationError
from penstock.plans.printable import printable

# Layers of a plan as one page that needs no network and no other file.


def to_html(graphs: Sequence[DrawnGraph]) -> str:
    """Return a page with a picture of each graph; all graphs are of one topology.

    Its inline scripts and styles are allowed by their hashes; names are foreign, and escaped everywhere.
    """
    layers = [layer_of_page(graph, number) for number, graph in enumerate(graphs)]
    styles, script = f"{style()}{asset('page.css')}", f"{asset('view.js')}{asset('page.js')}"
    page = (
        templates()
        .get_template("page.html.j2")
        .render(
            topology=printable(graphs[0].topology),
            layers=layers,
            data=json_of_page([layer["data"] for layer in layers]),
            style=Markup(styles),
            script=Markup(script),
            style_hash=hash_of(styles),
            script_hash=hash_of(script),
        )
    )
    return str(page)


def layer_of_page(graph: DrawnGraph, number: int) -> dict[str, Any]:
    """Return the values of the template for a graph, and `data` for the page's script."""
    picture = lay_out(graph)
    closed = _closed(picture)
    return {
        "name": graph.layer,
        "number": number,
        "drawn": Markup(drawn(graph, picture)),
        "inner": [(key, Markup(drawn(graph, inner))) for key, inner in closed.items()],
        "groups": [
            (printable(entry.name), group_class(entry.number).strip()) for entry in legend_entries(graph)
        ],
        "lines": line_kinds(graph),
        "counted": f"{_leaves(graph):,} {_CALLED[graph.layer]}, {len(graph.edges):,} edges",
        "data": _data(graph, closed),
    }


_CALLED = {"stream graph": "operators", "job graph": "vertices", "execution graph": "tasks and exchanges"}


def json_of_page(data: Any) -> str:
    """Write JSON for a script element, with nothing that ends the element or begins a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def hash_of(text: str) -> str:
    """Return the hash by which a content security policy allows a script or a style."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def templates() -> Environment:
    """Return the templates of pages; their values are escaped."""
    return Environment(
        loader=PackageLoader("penstock.engine.views.draw", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def asset(name: str) -> str:
    """Return a script or style sheet of drawn pages."""
    return files("penstock.engine.views.draw").joinpath(name).read_text(encoding="utf-8")


def _closed(picture: Picture) -> dict[str, Picture]:
    """Map keys of closed boxes, also nested ones, to their content."""
    closed: dict[str, Picture] = {}
    todo = [picture]
    while todo:
        for box in todo.pop().boxes:
            if box.inner is not None and not box.is_open:
                closed[box.node.key] = box.inner
                todo.append(box.inner)
    return closed


def _leaves(graph: DrawnGraph) -> int:
    enclosing = {node.inside for node in graph.nodes}
    return sum(node.key not in enclosing for node in graph.nodes)


def _data(graph: DrawnGraph, closed: dict[str, Picture]) -> dict[str, Any]:
    """Return nodes by key, edges by place, and sizes of contents of closed boxes, with printable texts."""
    return {
        "nodes": {
            node.key: {
                "name": printable(node.name),
                "facts": [(heading, printable(value)) for heading, value in node.facts],
                **({"lines": [printable(line) for line in node.lines]} if len(node.lines) > 1 else {}),
                **({"inside": node.inside} if node.inside is not None else {}),
            }
            for node in graph.nodes
        },
        "edges": [
            (edge.source, edge.target, edge.label, [(key, printable(value)) for key, value in edge.facts])
            for edge in graph.edges
        ],
        "inner": {
            key: (round(inner.size.width, 1), round(inner.size.height, 1)) for key, inner in closed.items()
        },
    }


# Formats of a drawn plan, by name and by a file's ending.


FORMATS = {
    "svg": ("svg",),
    "html": ("html", "htm"),
    "dot": ("dot", "gv"),
    "mermaid": ("mmd", "mermaid"),
    "graphml": ("graphml",),
}
"""Maps formats to endings of files."""


def format_of(path: str) -> str:
    """Return the format of a file's ending. Raises ConfigurationError if it has none."""
    end = path.rpartition(".")[2].lower()
    for name, ends in FORMATS.items():
        if end in ends:
            return name
    allowed = ", ".join(f".{ending}" for ends in FORMATS.values() for ending in ends)
    raise ConfigurationError(
        f"{path} must end in a known format", f"use {allowed}; or choose with --format, in Python format="
    )


def rendered(graphs: Sequence[DrawnGraph], wanted: str, folding: str = "auto") -> Iterator[str]:
    """Yield the graphs in that format, in pieces; pictures are folded.

    All formats but html take one graph only.
    """
    from penstock.engine.views.draw.graph import to_graphml
    from penstock.engine.views.draw.lay_out import to_svg

    if wanted == "html":
        yield to_html([fold(graph, folding) for graph in graphs])
    elif wanted == "svg":
        yield to_svg(fold(graphs[0], folding))
    else:
        others = {"dot": _to_dot, "mermaid": _to_mermaid, "graphml": to_graphml}
        yield from others[wanted](graphs[0])


# A graph as a Mermaid flowchart, for Markdown pages.


_MERMAID_COLOURS = ("#2f6fb3", "#b0640b", "#2c8446", "#7b47c4", "#b83a50", "#1f7f86", "#82730a", "#666d75")
_ARROWS = {"chained": "==>", "pipelined": "-->", "blocking": "-.->"}
_SPECIAL = re.compile(r"[^\w .,]", re.ASCII)


def _to_mermaid(graph: DrawnGraph) -> Iterator[str]:
    """Write line by line. Enclosing nodes are subgraphs; slot sharing groups are colours of borders.

    By default, renderers refuse flowcharts of more than 500 edges or 50,000 characters.
    """
    yield "flowchart LR\n"
    used = set()
    for item in in_boxes(graph):
        space, node = "  " * item.depth, item.node
        if node.group is not None:
            used.add(node.group % len(_MERMAID_COLOURS))
        if item.part is DrawnPart.END:
            yield f"{space}end\n"
        elif item.part is DrawnPart.BEGIN:
            yield f'{space}subgraph {node.key}["{_escaped_for_mermaid(node.name)}"]\n{space}  direction LR\n'
        else:
            texts = [*(node.lines or (node.name,)), *([node.note] if node.note else [])]
            group = "" if node.group is None else f":::group{node.group % len(_MERMAID_COLOURS)}"
            yield f'{space}{node.key}["{"<br/>".join(map(_escaped_for_mermaid, texts))}"]{group}\n'
    for edge in graph.edges:
        label = f'|"{_escaped_for_mermaid(edge.label)}"|' if edge.label else ""
        yield f"  {edge.source} {_ARROWS[edge.kind]}{label} {edge.target}\n"
    for number in sorted(used):
        yield f"  classDef group{number} stroke:{_MERMAID_COLOURS[number]},stroke-width:2px\n"


def _escaped_for_mermaid(text: str) -> str:
    """Write ASCII characters with a meaning as Mermaid's numbered entities."""
    return _SPECIAL.sub(
        lambda match: f"#{ord(match[0])};" if match[0].isascii() else match[0], printable(text)
    )


_COLOURS = ("#ddebfa", "#fde7cc", "#dcf3e1", "#efe3fc", "#fbe0e4", "#d8f1f2", "#f5efc4", "#e6e6e6")
_STYLES = {"chained": "bold", "pipelined": "solid", "blocking": "dashed"}


def _to_dot(graph: DrawnGraph) -> Iterator[str]:
    """Write line by line. Enclosing nodes are clusters; slot sharing groups are colours."""
    yield f"digraph {_text(graph.topology)} {{\n  rankdir=LR;\n"
    yield f"  label={_text(f'{graph.topology}: {graph.layer}')};\n"
    yield '  node [shape=box, style="rounded,filled", fillcolor="#f6f8fa", fontname="sans-serif"];\n'
    yield '  edge [fontname="sans-serif", fontsize=10];\n'
    for item in in_boxes(graph):
        space = "  " * item.depth
        if item.part is DrawnPart.END:
            yield f"{space}}}\n"
        elif item.part is DrawnPart.BEGIN:
            yield f"{space}subgraph cluster_{item.node.key} {{\n{space}  label={_text(item.node.name)};\n"
        else:
            yield f"{space}{item.node.key} [{_attributes(item.node)}];\n"
    for edge in graph.edges:
        label = f"label={_text(edge.label)}, " if edge.label else ""
        yield f"  {edge.source} -> {edge.target} [{label}style={_STYLES[edge.kind]}];\n"
    yield "}\n"


def _attributes(node: Node) -> str:
    colour = "" if node.group is None else f', fillcolor="{_COLOURS[node.group % len(_COLOURS)]}"'
    label = _label([*(node.lines or (node.name,)), *([node.note] if node.note else [])])
    return f"label={label}, tooltip={_text(node.name)}{colour}"


def _label(texts: list[str]) -> str:
    """Join lines of a label; each line end, also the last, left-aligns its line."""
    return '"' + "".join(_escaped(text) + "\\l" for text in texts) + '"'


def _text(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """Escape text within quotes: a backslash and a quote are special there; Graphviz also reads entities."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
