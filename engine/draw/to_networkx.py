"""A graph for networkx."""

from typing import Any

from penstock.engine.draw.attributes import edge_attributes, node_attributes
from penstock.engine.draw.graph import Graph
from penstock.plans.errors import ConfigurationError


def to_networkx(graph: Graph) -> Any:
    """A networkx.MultiDiGraph with what is known of nodes and edges as attributes.

    Raises ConfigurationError where networkx, which Penstock does not bring along, is not installed.
    """
    try:
        import networkx
    except ImportError as error:
        raise ConfigurationError("networkx is not installed", "pip install networkx") from error
    found = networkx.MultiDiGraph(topology=graph.topology, layer=graph.layer)
    for node in graph.nodes:
        found.add_node(node.key, **node_attributes(node))
    for edge in graph.edges:
        found.add_edge(edge.source, edge.target, **edge_attributes(edge))
    return found
