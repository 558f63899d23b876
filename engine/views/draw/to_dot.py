"""A graph as DOT, for Graphviz."""

from collections.abc import Iterator

from penstock.engine.views.draw.graph import DrawnGraph, DrawnPart, Node, in_boxes
from penstock.plans.printable import printable

_COLOURS = ("#ddebfa", "#fde7cc", "#dcf3e1", "#efe3fc", "#fbe0e4", "#d8f1f2", "#f5efc4", "#e6e6e6")
_STYLES = {"chained": "bold", "pipelined": "solid", "blocking": "dashed"}


def to_dot(graph: DrawnGraph) -> Iterator[str]:
    """Nodes that enclose others are clusters; slot sharing groups are colours. Line by line."""
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
    """Lines of a label; the last line end, too, says that they begin at the left."""
    return '"' + "".join(_escaped(text) + "\\l" for text in texts) + '"'


def _text(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """Within quotes: only a backslash and a quote mean something there; Graphviz reads entities besides."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
