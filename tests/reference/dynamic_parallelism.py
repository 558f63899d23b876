"""Parallelism of dynamic graphs (StreamingJobGraphGenerator, ForwardGroupComputeUtil)."""

from tests.reference.chains import Chain
from tests.reference.refusal import FlinkRefusalError
from tests.reference.stream_graph import StreamGraph, StreamNode, partitioner
from tests.reference.union_find import UnionFind


def convert_partitioners(graph: StreamGraph, chains: dict[int, Chain]) -> None:
    """FORWARD chosen for want of a partitioner becomes FORWARD inside a chain and RESCALE between chains."""
    for chain in chains.values():
        for edges, class_name in (
            (chain.chained_edges, "ForwardPartitioner"),
            (chain.non_chained_edges, "RescalePartitioner"),
        ):
            for edge in (e for of_node in edges.values() for e in of_node):
                if edge.partitioner.class_name == "ForwardForUnspecifiedPartitioner":
                    edge.partitioner = partitioner(class_name)


def set_dynamic_parallelism(graph: StreamGraph, chains: dict[int, Chain]) -> None:
    """Resets what was not configured to -1; then one parallelism and max parallelism a forward group."""
    heads = {head: graph.nodes[head] for head in chains}
    members = {head: [graph.nodes[n] for n in (*c.sources, *c.nodes)] for head, c in chains.items()}
    for head in chains:
        if graph.settings.auto_parallelism and not any(n.parallelism_configured for n in members[head]):
            for node in members[head]:
                node.parallelism = -1
    groups = UnionFind(chains)
    for head, chain in chains.items():
        for edge in chain.out_edges:
            if edge.partitioner.forward:
                groups.union(head, edge.target)
    for group in groups.groups():
        if len(group) > 1:
            _decide([heads[h] for h in group], [n for h in group for n in members[h]])


def _decide(heads: list[StreamNode], members: list[StreamNode]) -> None:
    parallelism = max(h.parallelism for h in heads)
    maxima = [h.max_parallelism for h in heads if h.max_parallelism > 0]
    if maxima and parallelism > 0 and min(maxima) < parallelism:
        raise FlinkRefusalError(
            "job_graph",
            "IllegalStateException",
            "There is a job vertex in the forward group whose maximum parallelism is smaller than the "
            "group's parallelism",
        )
    for node in members:
        if parallelism > 0:
            node.parallelism = parallelism
        if maxima:
            node.max_parallelism = min(maxima)
