"""A graph as a Mermaid flowchart, for Markdown pages."""

import re
from collections.abc import Iterator

from penstock.engine.views.draw.graph import DrawnGraph, DrawnPart, in_boxes
from penstock.plans.printable import printable

_COLOURS = ("#2f6fb3", "#b0640b", "#2c8446", "#7b47c4", "#b83a50", "#1f7f86", "#82730a", "#666d75")
_ARROWS = {"chained": "==>", "pipelined": "-->", "blocking": "-.->"}
_MEANS_SOMETHING = re.compile(r"[^\w .,]", re.ASCII)


def to_mermaid(graph: DrawnGraph) -> Iterator[str]:
    """Nodes that enclose others are subgraphs; slot sharing groups are colours of borders. Line by line.

    Renderers refuse flowcharts of more than 500 edges or 50,000 characters, as they are set by default.
    """
    yield "flowchart LR\n"
    used = set()
    for item in in_boxes(graph):
        space, node = "  " * item.depth, item.node
        if node.group is not None:
            used.add(node.group % len(_COLOURS))
        if item.part is DrawnPart.END:
            yield f"{space}end\n"
        elif item.part is DrawnPart.BEGIN:
            yield f'{space}subgraph {node.key}["{_escaped(node.name)}"]\n{space}  direction LR\n'
        else:
            texts = [*(node.lines or (node.name,)), *([node.note] if node.note else [])]
            group = "" if node.group is None else f":::group{node.group % len(_COLOURS)}"
            yield f'{space}{node.key}["{"<br/>".join(map(_escaped, texts))}"]{group}\n'
    for edge in graph.edges:
        label = f'|"{_escaped(edge.label)}"|' if edge.label else ""
        yield f"  {edge.source} {_ARROWS[edge.kind]}{label} {edge.target}\n"
    for number in sorted(used):
        yield f"  classDef group{number} stroke:{_COLOURS[number]},stroke-width:2px\n"


def _escaped(text: str) -> str:
    """ASCII that could mean something, as Mermaid's numbered entities."""
    return _MEANS_SOMETHING.sub(
        lambda match: f"#{ord(match[0])};" if match[0].isascii() else match[0], printable(text)
    )
