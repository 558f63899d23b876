"""A graph as GraphML, which graph tools read (yEd, Gephi, networkx, igraph)."""

from collections.abc import Mapping
from xml.sax.saxutils import escape, quoteattr

from penstock.engine.draw.attributes import edge_attributes, node_attributes
from penstock.engine.draw.graph import Graph


def to_graphml(graph: Graph) -> str:
    """Every node, those that enclose others too, and every edge, with the facts known of it as attributes."""
    nodes = [(node.key, node_attributes(node)) for node in graph.nodes]
    edges = [(edge.source, edge.target, edge_attributes(edge)) for edge in graph.edges]
    keys = {
        "node": _keys("n", [attributes for _, attributes in nodes]),
        "edge": _keys("e", [attributes for _, _, attributes in edges]),
    }
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
    ]
    for kind, of_kind in keys.items():
        lines += [
            f'  <key id="{key}" for="{kind}" attr.name={quoteattr(name)} attr.type="string"/>'
            for name, key in of_kind.items()
        ]
    lines.append(f'  <graph id={quoteattr(graph.layer.replace(" ", "_"))} edgedefault="directed">')
    for name, attributes in nodes:
        lines += [f'    <node id="{name}">', *_data(attributes, keys["node"]), "    </node>"]
    for number, (source, target, attributes) in enumerate(edges):
        lines += [
            f'    <edge id="edge{number}" source="{source}" target="{target}">',
            *_data(attributes, keys["edge"]),
            "    </edge>",
        ]
    return "\n".join([*lines, "  </graph>", "</graphml>", ""])


def _keys(prefix: str, all_attributes: list[Mapping[str, str]]) -> dict[str, str]:
    names = dict.fromkeys(name for attributes in all_attributes for name in attributes)
    return {name: f"{prefix}{number}" for number, name in enumerate(names)}


def _data(attributes: Mapping[str, str], keys: Mapping[str, str]) -> list[str]:
    return [f'      <data key="{keys[name]}">{escape(value)}</data>' for name, value in attributes.items()]
