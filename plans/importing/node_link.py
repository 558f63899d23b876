"""Graphs in networkx's node-link JSON.

Source: networkx.readwrite.json_graph.node_link_data; versions before 3.4 call the edges `links`.
"""

from collections.abc import Mapping
from typing import Any

from penstock.plans.bounds import MOST_EDGES, MOST_NODES, require_at_most
from penstock.plans.errors import TopologyError
from penstock.plans.importing.given_graph import (
    GivenEdge,
    GivenGraph,
    GivenNode,
    ImportOptions,
    topology_of_graph,
)
from penstock.plans.importing.imported import Imported
from penstock.plans.topology.error_kinds import ErrorKind
from penstock.plans.topology.rules import wrong_type

FORM = "node-link"


def is_node_link(document: Mapping[str, Any]) -> bool:
    """Whether an object is one: nodes with ids, and links between them."""
    nodes, links = document.get("nodes"), _links(document)
    if type(nodes) is not list or type(links) is not list or "directed" not in document:
        return False
    return all(type(one) is dict and "id" in one for one in nodes[:1]) and all(
        type(one) is dict and {"source", "target"} <= one.keys() for one in links[:1]
    )


def from_node_link(document: Mapping[str, Any], name: str, options: ImportOptions) -> Imported:
    """A topology named `name`: an operator for each node, an edge for each link."""
    nodes, links = document["nodes"], _links(document)
    require_at_most(len(nodes), MOST_NODES, "nodes")
    require_at_most(len(links), MOST_EDGES, "edges")
    errors = [
        wrong_type(f"{what} at position {place}", what, one, f"an object with {' and '.join(keys)}")
        for what, keys, given in (("node", ("id",), nodes), ("link", ("source", "target"), links))
        for place, one in enumerate(given, 1)
        if type(one) is not dict or not set(keys) <= one.keys()
    ]
    if errors:
        return errors
    keys = [_key(node["id"]) for node in nodes]
    if len(set(keys)) < len(keys):
        twice = next(key for place, key in enumerate(keys) if key in keys[:place])
        return [TopologyError(ErrorKind.DUPLICATE_ID, f"node {twice:.60}", "2 nodes of this id", "1", "")]
    known = set(keys)
    for link in links:
        for end in ("source", "target"):
            if (key := _key(link[end])) not in known:
                return [TopologyError(ErrorKind.DANGLING_EDGE, "link", f"{key:.60}", "the id of a node", "")]
    return topology_of_graph(
        GivenGraph(
            name,
            [
                GivenNode(key, {"name": key, **_plain(node, "id")})
                for key, node in zip(keys, nodes, strict=True)
            ],
            [
                GivenEdge(_key(link["source"]), _key(link["target"]), _plain(link, "source", "target", "key"))
                for link in links
            ],
            directed=document["directed"] is True,
        ),
        FORM,
        options,
    )


def _links(document: Mapping[str, Any]) -> Any:
    return document["edges"] if "edges" in document else document.get("links")


def _key(value: object) -> str:
    return value if type(value) is str else str(value)


def _plain(given: Mapping[str, Any], *but: str) -> dict[str, Any]:
    """Attributes that are texts, numbers or truth values."""
    return {
        key: value
        for key, value in given.items()
        if type(value) in (str, int, float, bool) and key not in but
    }
