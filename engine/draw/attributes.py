"""Nodes and edges as attributes of other tools' graphs. What XML cannot hold is written as an escape."""

from penstock.engine.draw.graph import Edge, Facts, Node
from penstock.plans.printable import printable


def node_attributes(node: Node) -> dict[str, str]:
    """What is known of a node, by names of attributes."""
    known = {"name": printable(node.name)}
    if node.group is not None:
        known["slot_sharing_group_number"] = str(node.group)
    if node.inside is not None:
        known["inside"] = node.inside
    return _with_facts(known, node.facts)


def edge_attributes(edge: Edge) -> dict[str, str]:
    """What is known of an edge, by names of attributes."""
    return _with_facts({"kind": edge.kind}, edge.facts)


def _with_facts(known: dict[str, str], facts: Facts) -> dict[str, str]:
    """Facts of one heading are one attribute."""
    for heading, text in facts:
        name = heading.replace(" ", "_")
        said = printable(text)
        known[name] = f"{known[name]}; {said}" if name in known else said
    return known
