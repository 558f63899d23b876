"""A graph as a Mermaid flowchart, for Markdown pages."""

import re

from penstock.engine.draw.graph import Graph, Node
from penstock.plans.printable import printable

_COLOURS = ("#2f6fb3", "#b0640b", "#2c8446", "#7b47c4", "#b83a50", "#1f7f86", "#82730a", "#666d75")
_ARROWS = {"chained": "==>", "pipelined": "-->", "blocking": "-.->"}
_MEANS_SOMETHING = re.compile(r"[^\w .,]", re.ASCII)


def to_mermaid(graph: Graph) -> str:
    """Nodes that enclose others are subgraphs; slot sharing groups are colours of borders.

    Renderers refuse flowcharts of more than 500 edges or 50,000 characters, as they are set by default.
    """
    children = graph.children()
    lines = ["flowchart LR"]
    todo: list[tuple[Node, int] | str] = [(node, 1) for node in reversed(graph.outermost())]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            lines.append(item)
            continue
        node, depth = item
        space = "  " * depth
        if node.key in children:
            lines += [f'{space}subgraph {node.key}["{_escaped(node.name)}"]', f"{space}  direction LR"]
            todo.append(f"{space}end")
            todo += [(child, depth + 1) for child in reversed(children[node.key])]
        else:
            texts = [*(node.lines or (node.name,)), *([node.note] if node.note else [])]
            group = "" if node.group is None else f":::group{node.group % len(_COLOURS)}"
            lines.append(f'{space}{node.key}["{"<br/>".join(map(_escaped, texts))}"]{group}')
    for edge in graph.edges:
        label = f'|"{_escaped(edge.label)}"|' if edge.label else ""
        lines.append(f"  {edge.source} {_ARROWS[edge.kind]}{label} {edge.target}")
    used = sorted({node.group % len(_COLOURS) for node in graph.nodes if node.group is not None})
    lines += [f"  classDef group{one} stroke:{_COLOURS[one]},stroke-width:2px" for one in used]
    return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    """ASCII that could mean something, as Mermaid's numbered entities."""
    return _MEANS_SOMETHING.sub(
        lambda found: f"#{ord(found[0])};" if found[0].isascii() else found[0], printable(text)
    )
