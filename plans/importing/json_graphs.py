"""Import graphs of other tools in JSON, as lists of nodes and edges under the names used by these tools.

Sources: networkx.readwrite.json_graph (node_link_data, adjacency_data, cytoscape_data), the data sets of
vis.js, the force layouts of d3, elements of Cytoscape.js, the JSON Graph Format 2, Arroyo's REST interface.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from penstock.plans.errors import ErrorKind, TopologyError
from penstock.plans.importing.bounds import MOST_EDGES, MOST_NODES, require_at_most
from penstock.plans.importing.given_graph import (
    GivenEdge,
    GivenGraph,
    GivenNode,
    Imported,
    ImportOptions,
    attribute_name,
    is_missing,
    topology_of_graph,
)
from penstock.plans.topology.input_errors import unreadable_file
from penstock.plans.topology.rules import wrong_type
from penstock.plans.vocabulary import Partitioner

# Arrays, which are no objects.


def read_json_array(text: str, file: str, name: str) -> dict[str, Any]:
    """Return edges, or elements of Cytoscape, as the object that holds them. Raises InputError."""
    entries = json_array(text, file, "edges or elements")
    is_edges = any(type(entry) is dict and "data" not in entry for entry in entries)
    return {"links" if is_edges else "elements": entries}


def json_array(text: str, file: str, items: str) -> list[Any]:
    """Parse an array of `items`. Raises InputError."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise unreadable_file(file, f"an array of {items}: {error}") from None
    return list(entries)


# Objects with lists of nodes and edges.


_LINKS = ("edges", "links")
_ENDS = (("source", "target"), ("from", "to"), ("srcId", "destId"), ("src", "dst"), ("sourceId", "targetId"))
_OWN_IDS = ("id", "nodeId", "key")
_IDS = (*_OWN_IDS, "name", "label")
_PARTITIONERS_OF_ARROYO = {
    "Forward": Partitioner.FORWARD,
    "Shuffle": Partitioner.HASH,
    "LeftJoin": Partitioner.HASH,
    "RightJoin": Partitioner.HASH,
}
_FORMS_OF_ENDS = {("from", "to"): "vis.js", ("srcId", "destId"): "arroyo"}
_DIRECTION = "from source to target"


class _Parts(NamedTuple):
    """Lists of a document's nodes (None if absent) and edges, and the rest."""

    form: str
    nodes: list[Any] | None
    links: list[Any]
    directed: bool | None
    name: object
    left_out: Sequence[str]


def from_json_graph(document: Mapping[str, Any], name: str | None, options: ImportOptions) -> Imported | None:
    """Return a topology of a graph; None if the object is not a graph. `name` is used if the graph has none.

    A node's `name` or `label` is its name; an edge refers to its ends by ids, or, as in d3, by positions in
    the list of nodes. Raises BoundError.
    """
    parts = _parts(document)
    if parts is None:
        return None
    require_at_most(len(parts.nodes or ()), MOST_NODES, "nodes")
    require_at_most(len(parts.links), MOST_EDGES, "edges")
    errors = [
        wrong_type(f"node at position {place}", "node", node, "an object with an id, or a name")
        for place, node in enumerate(parts.nodes or (), 1)
        if type(node) not in (dict, str, int)
    ]
    ends = _key_of_ends(parts.links)
    if ends is None:
        keys = next((", ".join(map(attribute_name, link)) for link in parts.links if type(link) is dict), "")
        found = f"edges with the keys {keys:.200}" if keys else "edges that are not objects"
        allowed = "; ".join(f"{source} and {target}" for source, target in _ENDS)
        return [*errors, TopologyError(ErrorKind.UNKNOWN_KEY, "graph", found, allowed, "")]
    errors += [
        wrong_type(f"link at position {place}", "link", link, f"an object with {' and '.join(ends)}")
        for place, link in enumerate(parts.links, 1)
        if type(link) is not dict or is_missing(link.get(ends[0])) or is_missing(link.get(ends[1]))
    ]
    if errors:
        return errors
    own = parts.name if type(parts.name) is str and parts.name else name
    return topology_of_graph(_graph(parts, ends, own or "imported"), parts.form, options)


def _graph(parts: _Parts, ends: tuple[str, str], name: str) -> GivenGraph:
    arroyo = parts.form == "arroyo"
    keys, nodes = _nodes(parts.nodes or [], arroyo)
    parallelism = {node.key: node.attributes.get("parallelism") for node in nodes}
    edges = []
    known = set(keys)
    first_ends = [_end(link[end]) for link in parts.links for end in ends]
    by_place = all(type(end) is int for end in first_ends) and all(
        type(node) is dict and node.keys().isdisjoint(_OWN_IDS) for node in parts.nodes or ("",)
    )
    assumed = {} if parts.directed is not None else {"direction": _DIRECTION}
    if by_place:
        assumed["ends of edges"] = "positions in the list of nodes, from 0"
    for link in parts.links:
        source, target = (_at(keys, _end(link[end])) if by_place else _key(_end(link[end])) for end in ends)
        attributes = {key: value for key, value in link.items() if key not in ends and value is not None}
        if attributes.get("arrows") == "from":
            source, target = target, source
        if attributes.get("arrows") in ("from", "to"):
            del attributes["arrows"]
        partitioner = _PARTITIONERS_OF_ARROYO.get(str(attributes.get("edgeType"))) if arroyo else None
        # Flink refuses FORWARD between operators of different parallelism.
        if partitioner is not None and (
            partitioner != Partitioner.FORWARD or parallelism.get(source) == parallelism.get(target)
        ):
            del attributes["edgeType"]
            attributes["partitioner"] = str(partitioner)
        edges.append(GivenEdge(source, target, attributes))
    return GivenGraph(
        name,
        nodes,
        edges,
        directed=parts.directed is not False,
        left_out=parts.left_out,
        assumed=assumed,
        lists_nodes=bool(known),
    )


def _nodes(entries: Sequence[Any], arroyo: bool) -> tuple[list[str], list[GivenNode]]:
    """Return the keys of nodes in their order, and the nodes."""
    own_key = next(
        (
            key
            for key in _IDS
            if all(type(entry) is dict and not is_missing(entry.get(key)) for entry in entries)
        ),
        None,
    )
    keys, nodes = [], []
    for place, entry in enumerate(entries):
        if type(entry) is not dict:
            keys.append(_key(entry))
            nodes.append(GivenNode(keys[-1], {}))
            continue
        given = next((entry[key] for key in _IDS if not is_missing(entry.get(key))), place)
        keys.append(_key(entry[own_key] if own_key is not None else given))
        attributes = {key: value for key, value in entry.items() if value is not None}
        if own_key in _OWN_IDS:
            del attributes[own_key]
        inner = attributes.get("data")  # React Flow's notation
        if type(inner) is dict and type(inner.get("label")) is str and "label" not in attributes:
            attributes["label"] = inner["label"]
        if arroyo and "name" not in attributes and "description" in attributes:
            attributes["name"] = attributes.pop("description")
        nodes.append(GivenNode(keys[-1], attributes))
    return keys, nodes


def _end(value: Any) -> Any:
    """Return an end of an edge; d3 replaces ids by the nodes themselves after laying out a graph."""
    if type(value) is dict:
        return next((value[key] for key in _IDS if not is_missing(value.get(key))), value)
    return value


def _at(keys: Sequence[str], place: int) -> str:
    return keys[place] if 0 <= place < len(keys) else f"the node at {place}"


def _key(value: object) -> str:
    return value if type(value) is str else str(value)


def _key_of_ends(links: Sequence[Any]) -> tuple[str, str] | None:
    """Return the names under which edges have their ends; None if unknown."""
    if not links:
        return _ENDS[0]
    keys = {key for link in links if type(link) is dict for key in link}
    return next((ends for ends in _ENDS if keys & set(ends)), None)


# Locations of the lists in each form.


def _parts(document: Mapping[str, Any]) -> _Parts | None:
    if type(document.get("elements")) in (dict, list):
        return _parts_of_cytoscape(document)
    nodes, graph = document.get("nodes"), document.get("graph")
    if type(nodes) is list and type(document.get("adjacency")) is list:
        return _parts_of_adjacency(document, nodes, document["adjacency"])
    if type(graph) is dict and type(graph.get("edges")) is list:
        return _parts_of_graph_format(document, graph)
    if type(nodes) is dict and any(type(document.get(key)) is list for key in _LINKS):
        nodes = _listed(nodes)
    for key in _LINKS:
        links = document.get(key)
        if type(links) is list and links and all(type(link) is list and len(link) == 2 for link in links):
            links = [{"source": link[0], "target": link[1]} for link in links]
        if type(links) is list and (type(nodes) is list or ("nodes" not in document and links)):
            return _parts_of_lists(document, nodes, links, key)
    return None


def _parts_of_lists(
    document: Mapping[str, Any], nodes: list[Any] | None, links: list[Any], key: str
) -> _Parts | None:
    ends = _key_of_ends(links)
    if nodes is None and (
        ends is None or not all(type(link) is dict for link in links) or _other_lists(document, key)
    ):
        return None
    form = "nodes and edges" if ends is None else _FORMS_OF_ENDS.get(ends, "nodes and edges")
    if "directed" in document:
        form = "node-link"
    graph = document.get("graph")
    left_out = _left(document, ("nodes", key, "directed", "multigraph", "graph", "name"))
    if type(graph) is dict:
        left_out += [f"graph attribute {attribute_name(name)}" for name in graph if name != "name"]
    own = graph.get("name") if type(graph) is dict else None
    return _Parts(form, nodes, links, _directed(document), document.get("name") or own, left_out)


def _listed(nodes: Mapping[str, Any]) -> list[Any]:
    """Return nodes that are keyed by their ids as a list; a value that is not an object becomes
    an attribute.
    """
    return [{**(node if type(node) is dict else {"value": node}), "id": key} for key, node in nodes.items()]


def _other_lists(document: Mapping[str, Any], known: str) -> bool:
    """Return whether an object has lists or objects besides its edges, which may be its nodes."""
    return any(value and type(value) in (list, dict) and key != known for key, value in document.items())


def _directed(document: Mapping[str, Any]) -> bool | None:
    return None if "directed" not in document else document["directed"] is True


def _left(document: Mapping[str, Any], known: Sequence[str]) -> list[str]:
    return [
        f"{attribute_name(key)} of the graph"
        for key, value in document.items()
        if key not in known and value not in (None, "", [], {})
    ]


def _parts_of_adjacency(document: Mapping[str, Any], nodes: list[Any], adjacency: list[Any]) -> _Parts | None:
    """Parse networkx's adjacency_data: for each node, in their order, the nodes that read it."""
    if len(nodes) != len(adjacency) or not all(
        type(node) is dict and "id" in node and type(targets) is list
        for node, targets in zip(nodes, adjacency, strict=True)
    ):
        return None
    links = [
        {"source": node["id"], **{("target" if key == "id" else key): value for key, value in target.items()}}
        if type(target) is dict
        else target
        for node, targets in zip(nodes, adjacency, strict=True)
        for target in targets
    ]
    graph = document.get("graph")
    pairs = graph.items() if type(graph) is dict else graph if type(graph) is list else ()
    graph_attributes = {
        str(pair[0]): pair[1] for pair in pairs if type(pair) in (list, tuple) and len(pair) == 2
    }
    left_out = _left(document, ("nodes", "adjacency", "directed", "multigraph", "graph"))
    left_out += [f"graph attribute {attribute_name(name)}" for name in graph_attributes if name != "name"]
    return _Parts("adjacency", nodes, links, _directed(document), graph_attributes.get("name"), left_out)


def _parts_of_cytoscape(document: Mapping[str, Any]) -> _Parts | None:
    """Parse elements of Cytoscape: nodes and edges in two lists, or in one, each with its `data`."""
    elements = document["elements"]
    if type(elements) is dict and not elements.keys() <= {"nodes", "edges"}:
        return None
    lists = [elements] if type(elements) is list else [elements.get(key) or [] for key in ("nodes", "edges")]
    if not any(lists) or not all(
        type(entries) is list
        and all(type(entry) is dict and type(entry.get("data")) is dict for entry in entries)
        for entries in lists
    ):
        return None
    if len(lists) == 1:
        lists = [[entry for entry in lists[0] if _is_link(entry) is kind] for kind in (False, True)]
    nodes, links = ([entry["data"] for entry in entries] for entries in lists)
    nodes = [
        {key: value for key, value in node.items() if key != "value" or value != node.get("id")}
        for node in nodes
    ]
    left_out = _left(document, ("elements", "directed", "multigraph", "data"))
    other_keys = {
        key for entries in lists for entry in entries for key in entry if key not in ("data", "group")
    }
    left_out += [f"{attribute_name(key)} of elements" for key in sorted(other_keys)]
    own = document.get("data")
    pairs = own.items() if type(own) is dict else own if type(own) is list else ()
    graph_attributes = {
        str(pair[0]): pair[1] for pair in pairs if type(pair) in (list, tuple) and len(pair) == 2
    }
    left_out += [f"graph attribute {attribute_name(name)}" for name in graph_attributes if name != "name"]
    return _Parts("cytoscape", nodes, links, _directed(document), graph_attributes.get("name"), left_out)


def _is_link(entry: Mapping[str, Any]) -> bool:
    return not entry["data"].keys().isdisjoint(_ENDS[0]) or entry.get("group") == "edges"


def _parts_of_graph_format(document: Mapping[str, Any], graph: Mapping[str, Any]) -> _Parts | None:
    """Parse the JSON Graph Format: an object of nodes by their ids, or a list of them, and a
    list of edges.
    """
    nodes = graph.get("nodes", [])
    if type(nodes) is dict:
        nodes = _listed(nodes)
    if type(nodes) is not list or (not nodes and _other_lists(graph, "edges")):
        return None
    left_out = _left(graph, ("nodes", "edges", "directed", "label", "id")) + _left(document, ("graph",))
    directed = graph.get("directed", True)
    own = graph.get("label") or graph.get("id")
    return _Parts("json-graph", nodes or None, graph["edges"], directed is True, own, left_out)
