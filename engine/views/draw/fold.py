"""Graphs with too many boxes to look at: nodes are put into boxes that are drawn closed."""

from collections import defaultdict
from dataclasses import replace

import igraph

from penstock.engine.views.draw.graph import DrawnGraph, Group, Node
from penstock.plans.errors import ConfigurationError

FOLD_ABOVE = 1_500
"""A graph with more boxes is drawn folded, unless it is said how."""

MOST = 100_000
"""Boxes of the largest graph that is drawn."""

_PARTS = 24
_LEAST_PART, _LARGEST_PART = 60, FOLD_ABOVE


def fold(graph: DrawnGraph, folding: str) -> DrawnGraph:
    """The graph with closed boxes around its outermost nodes.

    `folding`: `none`; `chain`: chains are closed; `group`: the vertices of each slot sharing group are in one
    box, or in several, cut along the way of data, where a box would hold too many; `auto`: nothing up to
    FOLD_ABOVE boxes, chains if they are few enough then, else groups. Raises ConfigurationError for more
    than MOST boxes.
    """
    if len(graph.nodes) > MOST:
        raise ConfigurationError(
            f"topology {graph.topology!r}: its {graph.layer} has {len(graph.nodes):,} boxes, "
            f"at most {MOST:,} are drawn",
            "draw the execution graph of one vertex (--vertex), or write --format graphml or dot",
        )
    graph = graph.kept()
    outermost = graph.outermost()
    if folding == "auto":
        if len(graph.nodes) <= FOLD_ABOVE:
            return graph
        folding = "chain" if len(outermost) <= FOLD_ABOVE and len(outermost) < len(graph.nodes) else "group"
    if folding == "chain":
        return replace(graph, folded=graph.enclosing())
    return _by_group(graph) if folding == "group" else graph


def _by_group(graph: DrawnGraph) -> DrawnGraph:
    names = {group.number: group for group in graph.groups}
    most = min(_LARGEST_PART, max(_LEAST_PART, -(-len(graph.outermost()) // _PARTS)))
    of_group: dict[int | None, list[str]] = defaultdict(list)
    group_of = {node.key: node.group for node in graph.nodes}
    for key in _in_order(graph):
        of_group[group_of[key]].append(key)
    boxes: list[Node] = []
    box_of: dict[str, str] = {}
    for group, members in of_group.items():
        parts = -(-len(members) // most)
        for part in range(parts):
            own = members[part * len(members) // parts : (part + 1) * len(members) // parts]
            box = _box(names.get(group) if group is not None else None, part, parts, len(own), len(boxes))
            boxes.append(box)
            box_of |= dict.fromkeys(own, box.key)
    nodes = [replace(node, inside=box_of.get(node.key, node.inside)) for node in graph.nodes]
    return replace(graph, nodes=(*boxes, *nodes), folded=tuple(box.key for box in boxes))


def _box(group: Group | None, part: int, parts: int, members: int, place: int) -> Node:
    name = "operators" if group is None else group.name
    which = f"part {part + 1:,} of {parts:,}, " if parts > 1 else ""
    note = f"{which}{members:,} boxes"
    return Node(
        key=f"f{place}",
        name=f"{name}, part {part + 1:,}" if parts > 1 else name,
        lines=(name,),
        note=note,
        group=None if group is None else group.number,
        facts=(("folded", note),),
    )


def _in_order(graph: DrawnGraph) -> list[str]:
    """Keys of the outermost nodes, producers before readers, those of one branch one after the other."""
    keys = [node.key for node in graph.outermost()]
    place = {key: at for at, key in enumerate(keys)}
    above = {node.key: node.inside for node in graph.nodes}

    def outer(key: str) -> int:
        while (next_one := above[key]) is not None:
            key = next_one
        return place[key]

    pairs = {(outer(edge.source), outer(edge.target)) for edge in graph.edges}
    outermost_graph = igraph.Graph(
        n=len(keys), edges=sorted(pair for pair in pairs if pair[0] != pair[1]), directed=True
    )
    readers = outermost_graph.get_adjlist(mode="out")
    finished: list[int] = []
    state = [0] * len(keys)
    roots = [at for at, count in enumerate(outermost_graph.indegree()) if count == 0]
    for root in reversed([*roots, *(at for at in range(len(keys)))]):
        stack = [root]
        while stack:
            at = stack[-1]
            if state[at] == 0:
                state[at] = 1
                stack += [reader for reader in readers[at] if state[reader] == 0]
            else:
                stack.pop()
                if state[at] == 1:
                    state[at] = 2
                    finished.append(at)
    return [keys[at] for at in reversed(finished)]
