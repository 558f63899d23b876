"""Places boxes in columns along the way that data takes, from left to right, and edges between them."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple
from unicodedata import combining, east_asian_width

import igraph

ROW_GAP = 22.0
_BEND_SIZE, _BEND_GAP = 4.0, 10.0
_LONGEST = 60
"""An edge that passes more columns is drawn straight across them: it would have too many bends."""

_SWEEPS = 6

Point = tuple[float, float]


class BoxSize(NamedTuple):
    """Width and height of a box, in pixels."""

    width: float
    height: float


class Layout(NamedTuple):
    """Where the boxes and the bends of edges are, in pixels, and how large all of it is."""

    corners: list[Point]  #: the upper left one of each box
    bends: list[list[Point]]  #: of each edge, between its ends; two for each column that it passes
    sides: list[Point]  #: left and right end of the column of each box
    size: BoxSize


def layered_layout(
    sizes: Sequence[BoxSize], edges: Sequence[tuple[int, int]], column_gap: float, *, aspect: float = 1.6
) -> Layout:
    """Boxes of these sizes, joined by `edges` (source, target), without overlap.

    A box is to the right of those it reads from, except where edges form a circle. The order within a column
    is that of igraph's Sugiyama layout, which keeps crossings few. Parts that nothing joins are laid out on
    their own and put side by side in rows, all in all `aspect` times as wide as high. The same
    input gives the same layout.
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
        own = edges_of[part]
        layout = _connected(
            [sizes[box] for box in boxes],
            [(place[edges[edge][0]], place[edges[edge][1]]) for edge in own],
            column_gap,
        )
        placed.append((boxes, own, layout))
    shifts, size = _in_rows([layout.size for *_, layout in placed], aspect)
    for (boxes, own, layout), (right, down) in zip(placed, shifts, strict=True):
        for box, (x, y), (begin, end) in zip(boxes, layout.corners, layout.sides, strict=True):
            corners[box] = (x + right, y + down)
            sides[box] = (begin + right, end + right)
        for edge, points in zip(own, layout.bends, strict=True):
            bends[edge] = [(x + right, y + down) for x, y in points]
    return Layout(corners, bends, sides, size)


def _in_rows(sizes: Sequence[BoxSize], aspect: float) -> tuple[list[Point], BoxSize]:
    """Rectangles next to each other in rows, in their order."""
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
    for (source, target), own in zip(edges, bends_of, strict=True):
        points: list[Point] = []
        for bend in own:
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
    """The column of each box: right of all it reads from, and not further left than its readers need."""
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
    """The middle of each box and bend in its column; the uppermost box begins at 0."""
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


# Boxes of one column: as near as possible to where they would like to be, in order and without overlap.


def place_in_line(wanted: Sequence[float], sizes: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Centres of boxes in the given order, whose squared distances from `wanted` are the least in sum.

    `gaps[i]` is the least free space between box i and the next one. Neighbours that would overlap become a
    block, which goes where its members want to be on average (pool adjacent violators).
    """
    offsets, at = [], 0.0
    for place, size in enumerate(sizes):
        if place:
            at += (sizes[place - 1] + size) / 2 + gaps[place - 1]
        offsets.append(at)
    blocks: list[tuple[float, int]] = []  # mean of what they want, how many
    for want, offset in zip(wanted, offsets, strict=True):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            before, many = blocks.pop()
            mean, count = (before * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]


# How wide text is drawn, and names cut to fit: without a font, as wide as in DejaVu Sans.


_NARROW = frozenset("iljtfrI.,:;|!'`()[]{}/\\-\" ")
_WIDE = frozenset("mwMW@%<>=+~^#&…")


def text_width(text: str, pixels: float) -> float:
    """About how wide a line is, in pixels, at that size of the font."""
    return sum(map(_share, text)) * pixels


def cut(text: str, width: float, pixels: float) -> str:
    """The text, or its beginning with an ellipsis where it is wider than `width` pixels."""
    room, kept = width, 0
    for place, character in enumerate(text):
        room -= _share(character) * pixels
        if room >= pixels:
            kept = place + 1
        elif room < 0:
            return text[:kept].rstrip() + "…"
    return text


def _share(character: str) -> float:
    """The width of a character, as a share of the font's size."""
    if character in _NARROW:
        return 0.4
    if character in _WIDE or east_asian_width(character) in "WF":
        return 1.02
    if combining(character):
        return 0.0
    return 0.72 if character.isupper() else 0.64
