"""Lay a graph out as boxes and lines with coordinates in pixels, and draw it as SVG."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from itertools import pairwise
from typing import NamedTuple
from unicodedata import combining, east_asian_width

import igraph

from penstock.engine.views.draw.graph import DrawnGraph, Edge, Group, Node
from penstock.plans.printable import printable

# Boxes in columns along the direction of data, from left to right, and edges between them.


ROW_GAP = 22.0
_BEND_SIZE, _BEND_GAP = 4.0, 10.0
_LONGEST = 60
"""An edge across more columns is drawn straight: it would have too many bends."""

_SWEEPS = 6

Point = tuple[float, float]


class BoxSize(NamedTuple):
    """Width and height of a box, in pixels."""

    width: float
    height: float


class Layout(NamedTuple):
    """Places of boxes and of bends of edges, and the total size, in pixels."""

    corners: list[Point]  #: upper left corner of each box
    bends: list[list[Point]]  #: bends of each edge, between its ends; two for each column that it crosses
    sides: list[Point]  #: left and right end of the column of each box
    size: BoxSize


def layered_layout(
    sizes: Sequence[BoxSize], edges: Sequence[tuple[int, int]], column_gap: float, *, aspect: float = 1.6
) -> Layout:
    """Place boxes of these sizes, joined by `edges` (source, target), without overlap.

    A box is to the right of its sources, except where edges form a circle. The order within a column is the
    order of igraph's Sugiyama layout, which keeps crossings few. Unconnected parts are laid out separately
    and put side by side in rows, in total about `aspect` times as wide as high. The same input gives the same
    layout.
    """
    graph = igraph.Graph(n=len(sizes), edges=edges, directed=True)
    parts: dict[int, list[int]] = defaultdict(list)
    for box, part in enumerate(graph.connected_components(mode="weak").membership):
        parts[part].append(box)
    corners: list[Point] = [(0.0, 0.0)] * len(sizes)
    bends: list[list[Point]] = [[] for _ in edges]
    sides: list[Point] = [(0.0, 0.0)] * len(sizes)
    edges_of: dict[int, list[int]] = defaultdict(list)
    part_of = {box: part for part, boxes in parts.items() for box in boxes}
    for number, (source, _) in enumerate(edges):
        edges_of[part_of[source]].append(number)
    placed = []
    for part, boxes in parts.items():
        place = {box: at for at, box in enumerate(boxes)}
        part_edges = edges_of[part]
        layout = _connected(
            [sizes[box] for box in boxes],
            [(place[edges[edge][0]], place[edges[edge][1]]) for edge in part_edges],
            column_gap,
        )
        placed.append((boxes, part_edges, layout))
    shifts, size = _in_rows([layout.size for *_, layout in placed], aspect)
    for (boxes, part_edges, layout), (right, down) in zip(placed, shifts, strict=True):
        for box, (x, y), (begin, end) in zip(boxes, layout.corners, layout.sides, strict=True):
            corners[box] = (x + right, y + down)
            sides[box] = (begin + right, end + right)
        for edge, points in zip(part_edges, layout.bends, strict=True):
            bends[edge] = [(x + right, y + down) for x, y in points]
    return Layout(corners, bends, sides, size)


def _in_rows(sizes: Sequence[BoxSize], aspect: float) -> tuple[list[Point], BoxSize]:
    """Place rectangles next to each other in rows, in their order."""
    area = sum((size.width + ROW_GAP) * (size.height + ROW_GAP) for size in sizes)
    most = max([(area * aspect) ** 0.5, *(size.width for size in sizes)], default=0.0)
    shifts, right, down, height, width = [], 0.0, 0.0, 0.0, 0.0
    for size in sizes:
        if right and right + size.width > most:
            right, down, height = 0.0, down + height + ROW_GAP, 0.0
        shifts.append((right, down))
        width, height = max(width, right + size.width), max(height, size.height)
        right += size.width + ROW_GAP
    return shifts, BoxSize(width, down + height)


def _connected(sizes: list[BoxSize], edges: list[tuple[int, int]], column_gap: float) -> Layout:
    if len(sizes) == 1:
        return Layout([(0.0, 0.0)], [[] for _ in edges], [(0.0, sizes[0].width)], sizes[0])
    columns = _columns(len(sizes), edges)
    heights = [size.height for size in sizes]
    hops: list[tuple[int, int]] = []
    bends_of: list[list[int]] = []
    for source, target in edges:
        first, last = columns[source], columns[target]
        step = 1 if last >= first else -1
        passed = [] if abs(last - first) > _LONGEST else range(first + step, last, step)
        bends = list(range(len(columns), len(columns) + len(passed)))
        columns += passed
        heights += [_BEND_SIZE] * len(passed)
        bends_of.append(bends)
        way = [source, *bends, target]
        if abs(last - first) <= _LONGEST:
            hops += [pair if step > 0 else pair[::-1] for pair in pairwise(way)]
    centres = _centres(columns, heights, hops, len(sizes))
    widths: dict[int, float] = defaultdict(float)
    for column, size in zip(columns, sizes, strict=False):
        widths[column] = max(widths[column], size.width)
    lefts, at = {}, 0.0
    for column in range(max(columns) + 1):
        lefts[column] = at
        at += widths[column] + column_gap
    corners = [
        (lefts[column], centre - size.height / 2)
        for column, size, centre in zip(columns, sizes, centres, strict=False)
    ]
    ways: list[list[Point]] = []
    for (source, target), edge_bends in zip(edges, bends_of, strict=True):
        points: list[Point] = []
        for bend in edge_bends:
            across = [lefts[columns[bend]], lefts[columns[bend]] + widths[columns[bend]]]
            if columns[target] < columns[source]:
                across.reverse()
            points += [(x, centres[bend]) for x in across]
        ways.append(points)
    height = max(y + size.height for (_, y), size in zip(corners, sizes, strict=True))
    height = max([height, *(y for points in ways for _, y in points)])
    sides = [(lefts[column], lefts[column] + widths[column]) for column in columns[: len(sizes)]]
    return Layout(corners, ways, sides, BoxSize(at - column_gap, height))


def _columns(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the column of each box, right of all its sources, and as far right as its targets allow."""
    graph = igraph.Graph(n=count, edges=edges, directed=True)
    against = set() if graph.is_dag() else set(graph.feedback_arc_set(method="eades"))
    forward = [edge for number, edge in enumerate(edges) if number not in against and edge[0] != edge[1]]
    readers: dict[int, list[int]] = defaultdict(list)
    has_input = [False] * count
    for source, target in forward:
        readers[source].append(target)
        has_input[target] = True
    order = igraph.Graph(n=count, edges=forward, directed=True).topological_sorting()
    columns = [0] * count
    for box in order:
        for reader in readers[box]:
            columns[reader] = max(columns[reader], columns[box] + 1)
    for box in range(count):
        if not has_input[box] and readers[box]:
            columns[box] = min(columns[reader] for reader in readers[box]) - 1
    return columns


def _centres(
    columns: list[int], heights: list[float], hops: list[tuple[int, int]], boxes: int
) -> list[float]:
    """Return the middle of each box and bend in its column; the uppermost box begins at 0."""
    graph = igraph.Graph(n=len(columns), edges=hops, directed=True)
    layout = graph.layout_sugiyama(layers=columns, maxiter=24)
    order: dict[int, list[int]] = defaultdict(list)
    for item in sorted(
        range(len(columns)), key=lambda item_of_column: (layout[item_of_column][0], item_of_column)
    ):
        order[columns[item]].append(item)
    near: tuple[dict[int, list[int]], dict[int, list[int]]] = (defaultdict(list), defaultdict(list))
    for source, target in hops:
        near[0][target].append(source)
        near[1][source].append(target)
    unit = sum(heights) / len(heights) + ROW_GAP
    centres = [layout[item][0] * unit for item in range(len(columns))]
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        for column in sorted(order, reverse=not forward):
            items = order[column]
            gaps = [ROW_GAP if max(pair) < boxes else _BEND_GAP for pair in pairwise(items)]
            wanted = []
            for item in items:
                around = near[0 if forward else 1][item] or near[1 if forward else 0][item]
                wanted.append(
                    sum(centres[neighbour] for neighbour in around) / len(around) if around else centres[item]
                )
            placed = place_in_line(wanted, [heights[item] for item in items], gaps)
            for item, centre in zip(items, placed, strict=True):
                centres[item] = centre
    top = min(centre - height / 2 for centre, height in zip(centres, heights, strict=True))
    return [centre - top for centre in centres]


# Boxes of one column: as near as possible to their wanted places, in order and without overlap.


def place_in_line(wanted: Sequence[float], sizes: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Return centres of boxes in the given order with the least sum of squared distances from `wanted`.

    `gaps[i]` is the least free space between box i and the next one. Neighbours that would overlap become a
    block, which is placed at the average of its members' wanted places (pool adjacent violators).
    """
    offsets, at = [], 0.0
    for place, size in enumerate(sizes):
        if place:
            at += (sizes[place - 1] + size) / 2 + gaps[place - 1]
        offsets.append(at)
    blocks: list[tuple[float, int]] = []  # mean of wanted places, number of boxes
    for want, offset in zip(wanted, offsets, strict=True):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            before, many = blocks.pop()
            mean, count = (before * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


# Widths of text, and names cut to fit: without a font, as wide as in DejaVu Sans.


_NARROW = frozenset("iljtfrI.,:;|!'`()[]{}/\\-\" ")
_WIDE = frozenset("mwMW@%<>=+~^#&…")


def text_width(text: str, pixels: float) -> float:
    """Return the approximate width of a line, in pixels, at that size of the font."""
    return sum(map(_share, text)) * pixels


def cut(text: str, width: float, pixels: float) -> str:
    """Return the text, or its beginning with an ellipsis if it is wider than `width` pixels."""
    room, length = width, 0
    for place, character in enumerate(text):
        room -= _share(character) * pixels
        if room >= pixels:
            length = place + 1
        elif room < 0:
            return text[:length].rstrip() + "…"
    return text


def _share(character: str) -> float:
    """Return the width of a character as a share of the font's size."""
    if character in _NARROW:
        return 0.4
    if character in _WIDE or east_asian_width(character) in "WF":
        return 1.02
    if combining(character):
        return 0.0
    return 0.72 if character.isupper() else 0.64


TEXT, SMALL = 13.0, 11.0
"""Sizes of the font, in pixels."""

BOLD = 14.2
"""Size at which plain text is as wide as bold text at 13 pixels."""

LINE, PADDING = 17.0, 8.0
_WIDEST, _NARROWEST = 236.0, 96.0
_MOST_LINES = 6
_PORT = 15.0
_MOST_PORTS = 16
"""Edges at one side of a box that have room for labels; more are drawn closer together."""

_TITLE = 22.0
_GAP = 46.0
_ASPECT = 1.6


@dataclass(frozen=True)
class Box:
    """A drawn node; its upper left corner is relative to the picture."""

    node: Node
    x: float
    y: float
    size: BoxSize
    lines: tuple[str, ...]  #: as drawn, cut to fit
    note: str
    is_open: bool = False  #: it encloses other drawn boxes
    inner: "Picture | None" = None  #: content of a closed box


@dataclass(frozen=True)
class EdgeLine:
    """Edges from one box to another, drawn as one line."""

    edges: tuple[int, ...]  #: places in Graph.edges
    source: str  #: keys of the nodes at its ends
    target: str
    points: tuple[Point, ...]
    label: str
    label_at: Point  #: end of the label, on its baseline
    kind: str


@dataclass
class Picture:
    """A whole drawing; enclosing boxes come before enclosed ones."""

    size: BoxSize
    boxes: list[Box] = field(default_factory=list)
    lines: list[EdgeLine] = field(default_factory=list)


@dataclass
class _Bundle:
    """Edges drawn as one line, at one level."""

    source: str  #: boxes of this level
    target: str
    ends: tuple[str, str]  #: boxes at the ends of the line: these or, if they are open, inner ones
    edges: list[int]


def lay_out(graph: DrawnGraph) -> Picture:
    """Lay a graph out, always in the same way. Boxes overlap only their enclosing boxes."""
    return _Level(graph).picture(None)


class _Level:
    """The nodes enclosed by one node, or by none, laid out recursively."""

    def __init__(self, graph: DrawnGraph) -> None:
        self.graph = graph
        self.nodes = {node.key: node for node in graph.nodes}
        self.children: dict[str | None, list[Node]] = defaultdict(list)
        for node in graph.nodes:
            self.children[node.inside].append(node)
        self.folded = set(graph.folded)
        self.bundles = self._bundles()

    def picture(self, key: str | None) -> Picture:
        """Draw the nodes enclosed by the node `key`."""
        members = self.children[key]
        place = {node.key: at for at, node in enumerate(members)}
        bundles = self.bundles.get(key, [])
        labels = [_label([self.graph.edges[edge] for edge in bundle.edges]) for bundle in bundles]
        ports: tuple[dict[str, int], dict[str, int]] = (defaultdict(int), defaultdict(int))
        for bundle in bundles:
            ports[0][bundle.source] += 1
            ports[1][bundle.target] += 1
        insides = {node.key: self.picture(node.key) for node in members if node.key in self.children}
        boxes = [
            self._box(node, max(ports[0][node.key], ports[1][node.key]), insides.get(node.key))
            for node in members
        ]
        run = max([0.0, *(text_width(label, SMALL) + 18 for label in labels if label)])
        runs = [run if ports[1][node.key] else 0.0 for node in members]
        ends = [(place[bundle.source], place[bundle.target]) for bundle in bundles]
        in_one_column = key is not None and key not in self.folded and not bundles
        layout = layered_layout(
            [
                BoxSize(box.size.width + before, box.size.height)
                for box, before in zip(boxes, runs, strict=True)
            ],
            ends,
            _GAP,
            aspect=0.0 if in_one_column else _ASPECT,
        )
        picture = Picture(layout.size)
        for box, before, (corner_x, y) in zip(boxes, runs, layout.corners, strict=True):
            x = corner_x + before
            picture.boxes.append(_moved(box, x, y))
            inner = insides.get(box.node.key)
            if box.is_open and inner is not None:
                _put_inside(picture, inner, x + PADDING * 1.5, y + _TITLE + PADDING)
        self._draw_lines(picture, bundles, labels, layout, place)
        return picture

    def _box(self, node: Node, ports: int, inner: Picture | None) -> Box:
        is_open = inner is not None and node.key not in self.folded
        tall = min(ports, _MOST_PORTS) * _PORT + PADDING
        if is_open and inner is not None:
            title_width = 0.0 if node.note else min(text_width(node.name, SMALL), _WIDEST)
            width = max(inner.size.width + 3 * PADDING, title_width + 3 * PADDING, _NARROWEST)
            size = BoxSize(width, max(inner.size.height + _TITLE + 2.5 * PADDING, tall))
            title = cut(printable(node.name), width - 2 * PADDING, SMALL)
            note = cut(node.note, width - 2 * PADDING, SMALL)
            return Box(node, 0, 0, size, (title,) if not node.note else (), note, is_open=True)
        texts = node.lines or (node.name,)
        if len(texts) > _MOST_LINES:
            texts = (*texts[: _MOST_LINES - 1], f"… {len(texts) - _MOST_LINES + 1:,} more")
        room = _WIDEST - 2 * PADDING
        # the first is bold
        lines = tuple(cut(printable(text), room, TEXT if place else BOLD) for place, text in enumerate(texts))
        note = cut(node.note, room, SMALL)
        wide = max([*(text_width(line, BOLD) for line in lines), text_width(note, SMALL)]) + 2 * PADDING
        tall = max(tall, LINE * (len(lines) + bool(note)) + 2 * PADDING)
        return Box(node, 0, 0, BoxSize(min(max(wide, _NARROWEST), _WIDEST), tall), lines, note, inner=inner)

    def _bundles(self) -> dict[str | None, list[_Bundle]]:
        """Collect edges drawn as one line, by the node that encloses both ends."""
        bundles: dict[str | None, dict[tuple[str, str, int], _Bundle]] = defaultdict(dict)
        ways: dict[str, list[str]] = {}
        for node in self.graph.nodes:
            way = [node.key]
            while (above := self.nodes[way[-1]].inside) is not None:
                way.append(above)
            ways[node.key] = way[::-1]
        for number, edge in enumerate(self.graph.edges):
            source, target = ways[edge.source], ways[edge.target]
            depth = 0
            while depth < min(len(source), len(target)) and source[depth] == target[depth]:
                depth += 1
            if depth in (len(source), len(target)):
                continue  # from a node to itself or to its enclosing node
            ends = (self._drawn(source[depth:]), self._drawn(target[depth:]))
            one_by_one = ends == (edge.source, edge.target)
            key = (*ends, number) if one_by_one else (*ends, -1)
            level = bundles[source[depth - 1] if depth else None]
            bundle = level.setdefault(key, _Bundle(source[depth], target[depth], ends, []))
            bundle.edges.append(number)
        return {key: list(level.values()) for key, level in bundles.items()}

    def _drawn(self, way: Sequence[str]) -> str:
        """Return the first closed node on the way, else the innermost one."""
        return next((key for key in way if key in self.folded), way[-1])

    def _draw_lines(
        self,
        picture: Picture,
        bundles: Sequence[_Bundle],
        labels: Sequence[str],
        layout: Layout,
        place: dict[str, int],
    ) -> None:
        boxes = {box.node.key: box for box in picture.boxes}
        leaving: dict[str, list[int]] = defaultdict(list)
        coming: dict[str, list[int]] = defaultdict(list)
        for number, bundle in enumerate(bundles):
            leaving[bundle.source].append(number)
            coming[bundle.target].append(number)
        begins: dict[int, Point] = {}
        arrives: dict[int, Point] = {}
        crowded: set[int] = set()
        for key, numbers in leaving.items():
            inner = {number: boxes[bundles[number].ends[0]] for number in numbers}
            towards = {
                number: _next_height(layout.bends[number], boxes[bundles[number].target])
                for number in numbers
            }
            begins |= _ports(boxes[key], inner, towards, right=True)
        for key, numbers in coming.items():
            inner = {number: boxes[bundles[number].ends[1]] for number in numbers}
            towards = {
                number: _next_height(layout.bends[number][::-1], boxes[bundles[number].source])
                for number in numbers
            }
            arrives |= _ports(boxes[key], inner, towards, right=False)
            if len(numbers) > _MOST_PORTS and not boxes[key].is_open:
                crowded |= set(numbers)
        for number, (bundle, label) in enumerate(zip(bundles, labels, strict=True)):
            begin, end = begins[number], arrives[number]
            _, after = layout.sides[place[bundle.source]]
            before, _ = layout.sides[place[bundle.target]]
            points = [begin, (after, begin[1]), *layout.bends[number], (before, end[1]), end]
            if bundle.ends[0] != bundle.source:
                end_box = boxes[bundle.ends[0]]
                points.insert(0, (end_box.x + end_box.size.width, _within(end_box, begin[1])))
            if bundle.ends[1] != bundle.target:
                end_box = boxes[bundle.ends[1]]
                points.append((end_box.x, _within(end_box, end[1])))
            first = self.graph.edges[bundle.edges[0]]
            picture.lines.append(
                EdgeLine(
                    tuple(bundle.edges),
                    *bundle.ends,
                    tuple(_without_repeats(points)),
                    "" if number in crowded else label,
                    (end[0] - 9, end[1] - 4),
                    first.kind,
                )
            )


def _label(edges: Sequence[Edge]) -> str:
    """Return the text at a line."""
    count = sum(edge.edges for edge in edges)
    labels = {edge.label for edge in edges}
    label = labels.pop() if len(labels) == 1 else ""
    if count == 1:
        return label
    return f"{count:,} {label}" if label else f"{count:,} edges"


def _moved(box: Box, x: float, y: float) -> Box:
    return Box(box.node, x, y, box.size, box.lines, box.note, box.is_open, box.inner)


def _put_inside(picture: Picture, inner: Picture, x: float, y: float) -> None:
    picture.boxes += [_moved(box, box.x + x, box.y + y) for box in inner.boxes]
    picture.lines += [
        EdgeLine(
            line.edges,
            line.source,
            line.target,
            tuple((a + x, b + y) for a, b in line.points),
            line.label,
            (line.label_at[0] + x, line.label_at[1] + y),
            line.kind,
        )
        for line in inner.lines
    ]


def _next_height(bends: Sequence[Point], other: Box) -> float:
    return bends[0][1] if bends else other.y + other.size.height / 2


def _ports(box: Box, inner: dict[int, Box], towards: dict[int, float], *, right: bool) -> dict[int, Point]:
    """Place the ends of lines at a side of a box, around its middle or near `inner` boxes where they end.

    Lines are ordered by the heights that they go `towards`.
    """
    middles = {line: end.y + end.size.height / 2 for line, end in inner.items()}
    order = sorted(inner, key=lambda line: (middles[line], towards[line], line))
    pitch = min(_PORT, (box.size.height - PADDING) / len(order))
    wanted = [middles[line] for line in order]
    heights = place_in_line(wanted, [pitch] * len(order), [0.0] * len(order))
    x = box.x + (box.size.width if right else 0)
    return {line: (x, y) for line, y in zip(order, heights, strict=True)}


def _within(box: Box, y: float) -> float:
    """Return the height nearest to `y` at which a line can meet the side of a box."""
    return min(max(y, box.y + PADDING), box.y + box.size.height - PADDING)


def _without_repeats(points: Sequence[Point]) -> list[Point]:
    rounded = [(round(x, 1), round(y, 1)) for x, y in points]
    return [point for at, point in enumerate(rounded) if at == 0 or point != rounded[at - 1]]


# A picture as SVG. Names are foreign: they are escaped, and hidden or control characters become visible.


MARGIN = 20.0
_LEGEND_LINE = 22.0
_COLOURS = 8
_MOST_IN_LEGEND = 24


def to_svg(graph: DrawnGraph) -> str:
    """Return a self-contained file with a title and a legend, in dark colours on a dark screen."""
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
    """Return the style sheet of pictures."""
    return files("penstock.engine.views.draw").joinpath("picture.css").read_text(encoding="utf-8")


def drawn(graph: DrawnGraph, picture: Picture) -> str:
    """Return the lines and boxes of a picture as elements for an svg element of class `penstock`."""
    enclosing = "".join(_box(box) for box in picture.boxes if box.is_open)
    lines = "".join(_line(graph, line) for line in picture.lines)
    boxes = "".join(_box(box) for box in picture.boxes if not box.is_open)
    return (
        f'<g class="enclosing">{enclosing}</g>\n<g class="lines">{lines}</g>\n<g class="boxes">{boxes}</g>\n'
    )


def text(value: str) -> str:
    """Escape foreign text for use between tags or in quotes."""
    return escape(printable(value))


def way(points: Sequence[Point]) -> str:
    """Return a path through points that leaves and reaches each of them horizontally."""
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
    """Return the class that colours a slot sharing group; colours repeat after eight groups."""
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
    """Return the slot sharing groups of the legend; of many, the first."""
    used = {node.group for node in graph.nodes}
    return [group for group in graph.groups if group.number in used][:_MOST_IN_LEGEND]


def line_kinds(graph: DrawnGraph) -> list[tuple[str, str]]:
    """Return the kinds of lines in a graph, and their meanings."""
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
    """Write a coordinate as short as possible."""
    return f"{value:.1f}".removesuffix(".0")
