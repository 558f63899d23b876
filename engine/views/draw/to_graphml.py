"""A graph as GraphML, which graph tools read (yEd, Gephi, networkx, igraph)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from penstock.engine.views.draw.graph import DrawnGraph, Edge, Facts, Node
from penstock.plans.errors import ConfigurationError
from penstock.plans.installation import install_command
from penstock.plans.printable import printable


def to_graphml(graph: DrawnGraph) -> Iterator[str]:
    """Every node, those that enclose others too, and every edge, with the facts known of it as attributes.

    Piece by piece. The graph is read twice, as the names of attributes come first.
    """
    node_keys = _keys("n", map(node_attributes, graph.nodes))
    edge_keys = _keys("e", map(edge_attributes, graph.edges))
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    for kind, of_kind in (("node", node_keys), ("edge", edge_keys)):
        for name, key in of_kind.items():
            yield f'  <key id="{key}" for="{kind}" attr.name={quoteattr(name)} attr.type="string"/>\n'
    yield f'  <graph id={quoteattr(graph.layer.replace(" ", "_"))} edgedefault="directed">\n'
    for node in graph.nodes:
        yield f'    <node id="{node.key}">\n{_data(node_attributes(node), node_keys)}    </node>\n'
    for number, edge in enumerate(graph.edges):
        yield (
            f'    <edge id="edge{number}" source="{edge.source}" target="{edge.target}">\n'
            f"{_data(edge_attributes(edge), edge_keys)}    </edge>\n"
        )
    yield "  </graph>\n</graphml>\n"


def _keys(prefix: str, all_attributes: Iterable[Mapping[str, str]]) -> dict[str, str]:
    names = dict.fromkeys(name for attributes in all_attributes for name in attributes)
    return {name: f"{prefix}{number}" for number, name in enumerate(names)}


def _data(attributes: Mapping[str, str], keys: Mapping[str, str]) -> str:
    return "".join(
        f'      <data key="{keys[name]}">{escape(value)}</data>\n' for name, value in attributes.items()
    )


# A graph for networkx.


def import_networkx() -> Any:
    """The module networkx. ConfigurationError where it is not installed."""
    try:
        import networkx
    except ImportError as error:
        raise ConfigurationError("networkx is not installed", install_command("graphs")) from error
    return networkx


def to_networkx(graph: DrawnGraph) -> Any:
    """A networkx.MultiDiGraph with what is known of nodes and edges as attributes.

    Raises ConfigurationError where networkx is not installed.
    """
    networkx = import_networkx()
    multigraph = networkx.MultiDiGraph(topology=graph.topology, layer=graph.layer)
    for node in graph.nodes:
        multigraph.add_node(node.key, **node_attributes(node))
    for edge in graph.edges:
        multigraph.add_edge(edge.source, edge.target, **edge_attributes(edge))
    return multigraph


# Nodes and edges as attributes of other tools' graphs. What XML cannot hold is written as an escape.


def node_attributes(node: Node) -> dict[str, str]:
    """The attributes of a node, by name."""
    known = {"name": printable(node.name)}
    if node.group is not None:
        known["slot_sharing_group_number"] = str(node.group)
    if node.inside is not None:
        known["inside"] = node.inside
    return _with_facts(known, node.facts)


def edge_attributes(edge: Edge) -> dict[str, str]:
    """The attributes of an edge, by name."""
    return _with_facts({"kind": edge.kind}, edge.facts)


def _with_facts(known: dict[str, str], facts: Facts) -> dict[str, str]:
    """Facts of one heading are one attribute."""
    for heading, text in facts:
        name = heading.replace(" ", "_")
        said = printable(text)
        known[name] = f"{known[name]}; {said}" if name in known else said
    return known
