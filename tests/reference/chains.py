"""Chains in the order in which Flink creates them (StreamingJobGraphGenerator.setChaining, createChain)."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.reference.chainable import is_chainable, is_chainable_source
from tests.reference.stream_graph import StreamEdge, StreamGraph, StreamNode


@dataclass(eq=False)
class Chain:
    """`nodes`: operators without chained sources, each after those chained to it; so the head is last."""

    head: int
    sources: list[int] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    chain_index: dict[int, int] = field(default_factory=dict)
    chained_edges: dict[int, list[StreamEdge]] = field(default_factory=dict)
    out_edges: list[StreamEdge] = field(default_factory=list)
    non_chained_edges: dict[int, list[StreamEdge]] = field(default_factory=dict)


@dataclass(eq=False)
class _Visit:
    node: StreamNode
    chain: Chain
    index: int
    edges: Iterator[tuple[StreamEdge, bool]]
    blocking: bool


def create_chains(graph: StreamGraph) -> dict[int, Chain]:
    """Head id to chain, in creation order: after the downstream chains that are first reached from it."""
    entries = _entry_points(graph)
    created: dict[int, Chain] = {}
    for head in sorted(entries):
        if head in created:
            continue
        stack = [_visit(graph, graph.nodes[head], entries[head], 1)]
        while stack:
            visit = stack[-1]
            edge, chained = next(visit.edges, (None, False))
            if edge is None:
                stack.pop()
                _leave(visit, stack[-1] if stack else None, created)
                continue
            target = graph.nodes[edge.target]
            if not chained:
                visit.chain.out_edges.append(edge)
                chain = entries.setdefault(target.id, Chain(target.id))
                if target.id not in created:
                    stack.append(_visit(graph, target, chain, 1))
            else:
                target.ends_before_output |= visit.blocking
                stack.append(_visit(graph, target, visit.chain, visit.index + 1))
    return created


def _entry_points(graph: StreamGraph) -> dict[int, Chain]:
    entries: dict[int, Chain] = {}
    for source in sorted(graph.sources):
        node = graph.nodes[source]
        if is_chainable_source(graph, node):
            head = node.out_edges[0].target
            chain = entries.setdefault(head, Chain(head))
            chain.sources.append(source)
            chain.chain_index[source] = 0
        else:
            entries[source] = Chain(source)
    return entries


def _visit(graph: StreamGraph, node: StreamNode, chain: Chain, index: int) -> _Visit:
    """Chainable edges are followed first, the others after them."""
    decided = sorted(((e, is_chainable(graph, e)) for e in node.out_edges), key=lambda d: not d[1])
    chain.chain_index[node.id] = index
    chain.chained_edges[node.id] = [e for e, chained in decided if chained]
    chain.non_chained_edges[node.id] = [e for e, chained in decided if not chained]
    return _Visit(node, chain, index, iter(decided), node.ends_before_output)


def _leave(visit: _Visit, parent: _Visit | None, created: dict[int, Chain]) -> None:
    visit.chain.nodes.append(visit.node.id)
    if visit.node.id == visit.chain.head:
        created[visit.node.id] = visit.chain
    elif parent is not None:
        # The parent's later children keep what its visit began with.
        parent.node.ends_before_output |= visit.node.ends_before_output


def chained_name(graph: StreamGraph, chain: Chain) -> str:
    """ "head [Source: a] -> (b -> c, d)", written from left to right."""
    parts: list[str] = []
    stack: list[int | str] = [chain.head]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            continue
        parts.append(graph.nodes[item].name)
        if item == chain.head and chain.sources:
            inside = set(chain.sources)
            names = [graph.nodes[e.source].name for e in graph.nodes[item].in_edges if e.source in inside]
            parts.append(f" [{', '.join(names)}]")
        targets = [e.target for e in chain.chained_edges[item]]
        if len(targets) == 1:
            stack.extend((targets[0], " -> "))
        elif targets:
            stack.append(")")
            for position in range(len(targets) - 1, -1, -1):
                stack.append(targets[position])
                stack.append(", " if position else " -> (")
    return "".join(parts)
