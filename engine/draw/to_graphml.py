"""A graph as GraphML, which graph tools read (yEd, Gephi, networkx, igraph)."""

from collections.abc import Iterable, Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from penstock.engine.draw.attributes import edge_attributes, node_attributes
from penstock.engine.draw.graph import Graph


def to_graphml(graph: Graph) -> Iterator[str]:
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
