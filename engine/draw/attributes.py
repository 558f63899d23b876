"""Nodes and edges as attributes of other tools' graphs. What XML cannot hold is written as an escape."""

from penstock.engine.draw.graph import Edge, Node
from penstock.plans.printable import printable


def node_attributes(node: Node) -> dict[str, str]:
    """What is known of a node, by names of attributes."""
    found = {"name": printable(node.name)}
    if node.group is not None:
        found["slot_sharing_group_number"] = str(node.group)
    if node.inside is not None:
        found["inside"] = node.inside
    return found | {heading.replace(" ", "_"): printable(text) for heading, text in node.facts}


def edge_attributes(edge: Edge) -> dict[str, str]:
    """What is known of an edge, by names of attributes."""
    found = {"kind": edge.kind}
    return found | {heading.replace(" ", "_"): printable(text) for heading, text in edge.facts}
