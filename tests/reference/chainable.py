"""Which StreamEdges are chainable (StreamingJobGraphGenerator.isChainable, isChainableSource)."""

from collections import Counter

from tests.reference.stream_graph import StreamEdge, StreamGraph, StreamNode


def is_chainable(graph: StreamGraph, edge: StreamEdge) -> bool:
    return len(graph.nodes[edge.target].in_edges) == 1 and _is_chainable_input(graph, edge)


def is_chainable_source(graph: StreamGraph, node: StreamNode) -> bool:
    """Whether a FLIP-27 source runs inside the head that reads it."""
    if not node.source or len(node.out_edges) != 1:
        return False
    edge = node.out_edges[0]
    if graph.nodes[edge.target].chaining != "HEAD_WITH_SOURCES" or not _is_chainable_input(graph, edge):
        return False
    types = Counter(e.type_number for e in graph.nodes[edge.target].in_edges)
    return types[edge.type_number] == 1


def _is_chainable_input(graph: StreamGraph, edge: StreamEdge) -> bool:
    """All but the rules on the target's other inputs."""
    up, down, settings = graph.nodes[edge.source], graph.nodes[edge.target], graph.settings
    consecutive_hash = edge.partitioner.class_name == "ForwardForConsecutiveHashPartitioner"
    return (
        settings.chaining
        and up.slot_sharing_group == down.slot_sharing_group
        and _are_operators_chainable(graph, up, down)
        and (consecutive_hash or (edge.partitioner.forward and edge.exchange_mode != "BATCH"))
    )


def _are_operators_chainable(graph: StreamGraph, up: StreamNode, down: StreamNode) -> bool:
    if up.chaining in (None, "NEVER") or down.chaining in (None, "NEVER", "HEAD"):
        return False
    if down.chaining == "HEAD_WITH_SOURCES" and not up.source:
        return False
    if up.parallelism != down.parallelism:
        return False
    if not graph.settings.chain_different_max_parallelism and up.max_parallelism != down.max_parallelism:
        return False
    return not (down.yielding and _chain_head(graph, up).legacy_source)


def _chain_head(graph: StreamGraph, node: StreamNode) -> StreamNode:
    """The head of the chain that `node` is in; cached, and walked with a stack of its own.

    Going up, a yielding operator needs the head above it before its own edge is decided.
    """
    path: list[StreamNode] = []
    while node.id not in graph.head_cache:
        above = graph.nodes[node.in_edges[0].source] if len(node.in_edges) == 1 else None
        if above is None or (above.id in graph.head_cache and not is_chainable(graph, node.in_edges[0])):
            graph.head_cache[node.id] = node
        elif above.id in graph.head_cache:
            graph.head_cache[node.id] = graph.head_cache[above.id]
        else:
            path.append(node)
            node = above
            continue
        if path:
            node = path.pop()
    return graph.head_cache[node.id]
