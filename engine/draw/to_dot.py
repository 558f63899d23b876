"""A graph as DOT, for Graphviz."""

from penstock.engine.draw.graph import Graph, Node
from penstock.plans.printable import printable

_COLOURS = ("#ddebfa", "#fde7cc", "#dcf3e1", "#efe3fc", "#fbe0e4", "#d8f1f2", "#f5efc4", "#e6e6e6")
_STYLES = {"chained": "bold", "pipelined": "solid", "blocking": "dashed"}


def to_dot(graph: Graph) -> str:
    """Nodes that enclose others are clusters; slot sharing groups are colours."""
    children = graph.children()
    lines = [
        f"digraph {_text(graph.topology)} {{",
        "  rankdir=LR;",
        f"  label={_text(f'{graph.topology}: {graph.layer}')};",
        '  node [shape=box, style="rounded,filled", fillcolor="#f6f8fa", fontname="sans-serif"];',
        '  edge [fontname="sans-serif", fontsize=10];',
    ]
    # what is still to be written: a node and how deep it is, or a line
    todo: list[tuple[Node, int] | str] = [(node, 1) for node in reversed(graph.outermost())]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            lines.append(item)
            continue
        node, depth = item
        space = "  " * depth
        if node.key in children:
            lines += [f"{space}subgraph cluster_{node.key} {{", f"{space}  label={_text(node.name)};"]
            todo.append(f"{space}}}")
            todo += [(child, depth + 1) for child in reversed(children[node.key])]
        else:
            colour = "" if node.group is None else f', fillcolor="{_COLOURS[node.group % len(_COLOURS)]}"'
            label = _label([*(node.lines or (node.name,)), *([node.note] if node.note else [])])
            lines.append(f"{space}{node.key} [label={label}, tooltip={_text(node.name)}{colour}];")
    for edge in graph.edges:
        label = f"label={_text(edge.label)}, " if edge.label else ""
        lines.append(f"  {edge.source} -> {edge.target} [{label}style={_STYLES[edge.kind]}];")
    return "\n".join([*lines, "}", ""])


def _label(texts: list[str]) -> str:
    """Lines of a label; the last line end, too, says that they begin at the left."""
    return '"' + "".join(_escaped(text) + "\\l" for text in texts) + '"'


def _text(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    """Within quotes: only a backslash and a quote mean something there; Graphviz reads entities besides."""
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;")
