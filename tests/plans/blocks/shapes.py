"""Topologies whose parts lie in several blocks."""

from random import Random
from typing import Any

from tests.plans.topology.builders import stream_edge, stream_graph, stream_node


def graph_with_gaps(nodes: int, parallelism: int = 2, **settings: Any) -> dict[str, Any]:
    """A stream graph whose ids have gaps, and whose nodes and edges are in no order.

    Each node reads one or two earlier ones; some edges are chained, some nodes have uids.
    """
    rng = Random(nodes)
    ids = sorted(rng.sample(range(1, 50 * nodes), nodes))
    edges = []
    for place, target in enumerate(ids[1:], 1):
        sources = sorted(rng.sample(ids[:place], min(place, rng.choice((1, 1, 2)))))
        for type_number, source in enumerate(sources):
            forward = rng.random() < 0.5
            partitioner = "FORWARD" if forward else "REBALANCE"
            edges.append(
                stream_edge(
                    source,
                    target,
                    type_number=type_number,
                    edge_id=f"n{source}-{source}_n{target}-{target}_{type_number}_{partitioner}_0",
                    partitioner_class="ForwardPartitioner" if forward else "RebalancePartitioner",
                    pointwise=forward,
                    chainable=forward and len(sources) == 1,
                )
            )
    in_edges, out_edges = ({number: [] for number in ids} for _ in range(2))
    for edge in edges:
        in_edges[edge["target"]].append(edge["edge_id"])
        out_edges[edge["source"]].append(edge["edge_id"])
    rows = [
        stream_node(
            number,
            source=not place,
            parallelism=parallelism,
            uid=f"u{number}" if rng.random() < 0.3 else None,
            in_edges=in_edges[number],
            out_edges=out_edges[number],
            invokable="SourceOperatorStreamTask" if not place else "OneInputStreamTask",
        )
        for place, number in enumerate(ids)
    ]
    topology = stream_graph(f"graph of {nodes}")
    topology["stream_graph"] |= settings | {
        "sources": ids[:1],
        "nodes": rng.sample(rows, nodes),
        "edges": rng.sample(edges, len(edges)),
    }
    return topology


def doubling_unions(rows: int) -> dict[str, Any]:
    """Each union names the one before it twice: their edges double with each."""
    transformations: list[dict[str, Any]] = [{"id": 1, "kind": "source", "name": "s"}]
    transformations += [
        {"id": number, "kind": "union", "inputs": [number - 1, number - 1]} for number in range(2, rows)
    ]
    transformations.append({"id": rows, "kind": "sink", "name": "k", "inputs": [rows - 1]})
    return {"name": f"{rows} unions", "transformations": transformations}
