"""A picture as SVG. Names are foreign: they are escaped, and what is hidden or obeyed in them is shown."""

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from penstock.engine.views.draw.graph import DrawnGraph, Group
from penstock.engine.views.draw.lay_out import LINE, PADDING, SMALL, Box, EdgeLine, Picture, lay_out
from penstock.engine.views.draw.layered_layout import Point, cut, text_width
from penstock.plans.printable import printable

MARGIN = 20.0
_LEGEND_LINE = 22.0
_COLOURS = 8
_MOST_IN_LEGEND = 24


def to_svg(graph: DrawnGraph) -> str:
    """One file, which needs no other: with a title and a legend, in the colours of a dark screen on one."""
    picture = lay_out(graph)
    width = max(picture.size.width, 420.0)
    legend, legend_height = _legend(graph, width)
    top = MARGIN + 30.0
    height = top + picture.size.height + legend_height + 2 * MARGIN
    whole = f"{graph.topology}: {graph.layer}"
    heading = cut(printable(whole), width, 16.0)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" class="penstock" width="{_n(width + 2 * MARGIN)}" '
        f'height="{_n(height)}" viewBox="0 0 {_n(width + 2 * MARGIN)} {_n(height)}" role="img">\n'
        f"<title>{text(whole)}</title>\n<style>{escape(style(), quote=False)}</style>\n"
        f'<rect class="back" width="100%" height="100%"/>\n'
        f'<text class="first" x="{_n(MARGIN)}" y="{_n(MARGIN + 8)}">{escape(heading)}</text>\n'
        f'<g transform="translate({_n(MARGIN)} {_n(top)})">\n{drawn(graph, picture)}</g>\n'
        f'<g transform="translate({_n(MARGIN)} {_n(top + picture.size.height + MARGIN)})">\n{legend}</g>\n'
        "</svg>\n"
    )


@cache
def style() -> str:
    """The style sheet of pictures."""
    return files("penstock.engine.views.draw").joinpath("picture.css").read_text(encoding="utf-8")


def drawn(graph: DrawnGraph, picture: Picture) -> str:
    """The lines and boxes of a picture: elements to put into an svg element of class `penstock`."""
    enclosing = "".join(_box(box) for box in picture.boxes if box.is_open)
    lines = "".join(_line(graph, line) for line in picture.lines)
    boxes = "".join(_box(box) for box in picture.boxes if not box.is_open)
    return (
        f'<g class="enclosing">{enclosing}</g>\n<g class="lines">{lines}</g>\n<g class="boxes">{boxes}</g>\n'
    )


def text(value: str) -> str:
    """Foreign text between tags or in quotes."""
    return escape(printable(value))


def way(points: Sequence[Point]) -> str:
    """Points as a path that leaves and reaches each of them horizontally."""
    (x, y), *others = points
    parts = [f"M{_n(x)} {_n(y)}"]
    for a, b in others:
        half = (a - x) / 2
        parts.append(
            f"H{_n(a)}" if b == y else f"C{_n(x + half)} {_n(y)} {_n(a - half)} {_n(b)} {_n(a)} {_n(b)}"
        )
        x, y = a, b
    return "".join(parts)


def group_class(group: int | None) -> str:
    """The class that colours a slot sharing group; colours come again after eight groups."""
    return "" if group is None else f" group{group % _COLOURS}"


def _box(box: Box) -> str:
    kind = "open" if box.is_open else "closed" if box.inner is not None else "leaf"
    width, height = box.size
    texts = []
    if box.is_open:
        words = box.lines[0] if box.lines else box.note
        texts.append(f'<text class="note" x="{_n(PADDING)}" y="16">{escape(words)}</text>')
    else:
        used = LINE * (len(box.lines) + bool(box.note))
        y = (height - used) / 2 + 13
        for number, line in enumerate(box.lines):
            first = ' class="first"' if number == 0 else ""
            texts.append(f'<text{first} x="{_n(PADDING)}" y="{_n(y)}">{escape(line)}</text>')
            y += LINE
        if box.note:
            texts.append(f'<text class="note" x="{_n(PADDING)}" y="{_n(y)}">{escape(box.note)}</text>')
    return (
        f'<g class="node {kind}{group_class(box.node.group)}" data-key="{escape(box.node.key)}" '
        f'transform="translate({_n(box.x)} {_n(box.y)})"><title>{text(box.node.name)}</title>'
        f'<rect class="box" width="{_n(width)}" height="{_n(height)}" rx="6"/>{"".join(texts)}</g>\n'
    )


def _line(graph: DrawnGraph, line: EdgeLine) -> str:
    path = way(line.points)
    x, y = line.points[-1]
    label_x, label_y = line.label_at
    label = (
        f'<text class="label" x="{_n(label_x)}" y="{_n(label_y)}">{text(line.label)}</text>'
        if line.label
        else ""
    )
    points = " ".join(f"{_n(a)},{_n(b)}" for a, b in line.points)
    first = graph.edges[line.edges[0]]
    title = "; ".join(f"{heading}: {value}" for heading, value in first.facts) if len(line.edges) == 1 else ""
    return (
        f'<g class="line {line.kind}" data-edges="{",".join(map(str, line.edges))}" data-points="{points}">'
        + (f"<title>{text(title)}</title>" if title else "")
        + f'<path class="way" d="{path}"/>'
        f'<path class="head" d="M{_n(x)} {_n(y)}l-7 -3.5v7z"/><path class="hit" d="{path}"/>{label}</g>\n'
    )


def legend_entries(graph: DrawnGraph) -> list[Group]:
    """The slot sharing groups of the legend; of many, the first."""
    used = {node.group for node in graph.nodes}
    return [group for group in graph.groups if group.number in used][:_MOST_IN_LEGEND]


def line_kinds(graph: DrawnGraph) -> list[tuple[str, str]]:
    """Kinds of lines that a graph has, and what they mean."""
    meanings = {"chained": "chained", "pipelined": "pipelined", "blocking": "blocking result"}
    if graph.layer == "stream graph":
        meanings["pipelined"] = "not chained"
    used = {edge.kind for edge in graph.edges}
    return [(kind, meaning) for kind, meaning in meanings.items() if kind in used]


def _legend(graph: DrawnGraph, width: float) -> tuple[str, float]:
    entries: list[tuple[str, str]] = []
    for group in legend_entries(graph):
        name = cut(f"slot sharing group {printable(group.name)}", 260.0, SMALL)
        mark = '<rect class="box" y="-10" width="16" height="12" rx="3"/>'
        entries.append((f'<g class="{group_class(group.number).strip()}">{mark}</g>', name))
    for kind, meaning in line_kinds(graph):
        entries.append((f'<g class="line {kind}"><path class="way" d="M0 -4H24"/></g>', meaning))
    left_out = len(graph.groups) - len(legend_entries(graph))
    if left_out > 0:
        entries.append(("", f"and {left_out:,} more groups"))
    return _in_lines(entries, width)


def _in_lines(entries: Iterable[tuple[str, str]], width: float) -> tuple[str, float]:
    parts, x, y = [], 0.0, _LEGEND_LINE - 8
    for mark, words in entries:
        wide = 30 + text_width(words, SMALL) + 18
        if x and x + wide > width:
            x, y = 0.0, y + _LEGEND_LINE
        parts.append(
            f'<g transform="translate({_n(x)} {_n(y)})">{mark}'
            f'<text class="legend" x="30">{escape(words)}</text></g>\n'
        )
        x += wide
    return "".join(parts), y if parts else 0.0


def _n(value: float) -> str:
    """A coordinate, written as short as possible."""
    return f"{value:.1f}".removesuffix(".0")
