"""The graph to draw, with nodes, which may be nested, edges, and details of each."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from html import escape
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, overload

import igraph

from penstock.plans.errors import ConfigurationError
from penstock.plans.installation import install_command
from penstock.plans.printable import printable

if TYPE_CHECKING:
    import polars as pl


_ROWS_AT_ONCE = 8_192

Item = TypeVar("Item")

Facts = tuple[tuple[str, str], ...]
"""Headings and texts: details of a node or an edge."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A box. Names are foreign text, complete and not escaped."""

    key: str  #: unique in a graph; letters, digits and underscores
    name: str
    lines: tuple[str, ...] = ()  #: foreign texts: its parts
    note: str = ""  #: a short line of Penstock's text
    group: int | None = None  #: its slot sharing group, which sets its colour
    inside: str | None = None  #: key of the node that encloses it
    facts: Facts = ()


@dataclass(frozen=True, kw_only=True)
class Edge:
    """An edge from one node to another."""

    source: str
    target: str
    label: str = ""  #: Penstock's text
    kind: str = "pipelined"  #: or blocking, chained
    facts: Facts = ()
    edges: int = 1  #: number of edges that it represents


class RowObjects(Sequence[Item], Generic[Item]):
    """Objects made from rows of frames on each access, so that a million nodes fit in memory.

    `parts`: frames, and the function that makes an object from a row.
    """

    def __init__(self, *parts: tuple["pl.DataFrame", Callable[[dict[str, Any]], Item]]) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(frame.height for frame, _ in self._parts)

    def __iter__(self) -> Iterator[Item]:
        for frame, make in self._parts:
            for slice_of_frame in frame.iter_slices(_ROWS_AT_ONCE):
                yield from map(make, slice_of_frame.iter_rows(named=True))

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Item, ...]: ...
    def __getitem__(self, place: int | slice) -> Item | tuple[Item, ...]:
        if isinstance(place, slice):
            return tuple(self)[place]
        remaining = place if place >= 0 else len(self) + place
        for frame, make in self._parts:
            if 0 <= remaining < frame.height:
                return make(frame.row(remaining, named=True))
            remaining -= frame.height
        raise IndexError(place)


@dataclass(frozen=True)
class Group:
    """A slot sharing group of the legend."""

    number: int
    name: str


@dataclass(frozen=True, kw_only=True)
class DrawnGraph:
    """A layer of one plan. Producers precede consumers if the layer has an order."""

    topology: str
    layer: str
    nodes: Sequence[Node]
    edges: Sequence[Edge]
    groups: tuple[Group, ...] = ()
    folded: tuple[str, ...] = ()  #: keys of enclosing nodes that are drawn closed

    def in_memory(self) -> "DrawnGraph":
        """Return the graph with nodes and edges in memory, for repeated access."""
        return replace(self, nodes=tuple(self.nodes), edges=tuple(self.edges))

    def outermost(self) -> tuple[Node, ...]:
        """Return the nodes that no other node encloses."""
        return tuple(node for node in self.nodes if node.inside is None)

    def enclosing(self) -> tuple[str, ...]:
        """Return keys of the nodes that enclose others."""
        return tuple(dict.fromkeys(node.inside for node in self.nodes if node.inside is not None))


class DrawnPart(Enum):
    """The part of a box to write, which is all of it, or its beginning or end if it encloses others."""

    NODE = auto()  #: all of it: it encloses nothing
    BEGIN = auto()  #: before the enclosed nodes
    END = auto()


class NestedNode(NamedTuple):
    """A node, or the beginning or end of an enclosing node, `depth` boxes deep (from 1)."""

    node: Node
    part: DrawnPart
    depth: int


def in_boxes(graph: DrawnGraph) -> Iterator[NestedNode]:
    """Yield the nodes in the order of nested text, enclosed nodes between beginning and end of their box.

    Nodes are made when they are written, and not kept in memory.
    """
    children: dict[str, list[int]] = {}
    for place, node in enumerate(graph.nodes):
        if node.inside is not None:
            children.setdefault(node.inside, []).append(place)
    todo: list[NestedNode] = []
    for outermost in graph.nodes:
        if outermost.inside is not None:
            continue
        todo.append(NestedNode(outermost, DrawnPart.BEGIN, 1))
        while todo:
            node, part, depth = todo.pop()
            if part is DrawnPart.END or node.key not in children:
                yield NestedNode(node, part if part is DrawnPart.END else DrawnPart.NODE, depth)
                continue
            yield NestedNode(node, part, depth)
            todo.append(NestedNode(node, DrawnPart.END, depth))
            inner = [graph.nodes[place] for place in reversed(children[node.key])]
            todo += [NestedNode(child, DrawnPart.BEGIN, depth + 1) for child in inner]


# GraphML for graph tools (yEd, Gephi, networkx, igraph).


def to_graphml(graph: DrawnGraph) -> Iterator[str]:
    """Write all nodes, including enclosing ones, and all edges, with their facts as attributes.

    Yields pieces. The graph is read twice, because names of attributes come first.
    """
    from xml.sax.saxutils import quoteattr  # slow: imports HTTP clients

    node_keys = _keys("n", map(node_attributes, graph.nodes))
    edge_keys = _keys("e", map(edge_attributes, graph.edges))
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    for kind, keys_of_kind in (("node", node_keys), ("edge", edge_keys)):
        for name, key in keys_of_kind.items():
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
        f'      <data key="{keys[name]}">{escape(value, quote=False)}</data>\n'
        for name, value in attributes.items()
    )


# A graph for networkx.


def import_networkx() -> Any:
    """Import networkx. Raises ConfigurationError if it is not installed."""
    try:
        import networkx
    except ImportError as error:
        raise ConfigurationError("networkx is not installed", install_command("graphs")) from error
    return networkx


def to_networkx(graph: DrawnGraph) -> Any:
    """Return a networkx.MultiDiGraph with facts of nodes and edges as attributes.

    Raises ConfigurationError if networkx is not installed.
    """
    networkx = import_networkx()
    multigraph = networkx.MultiDiGraph(topology=graph.topology, layer=graph.layer)
    for node in graph.nodes:
        multigraph.add_node(node.key, **node_attributes(node))
    for edge in graph.edges:
        multigraph.add_edge(edge.source, edge.target, **edge_attributes(edge))
    return multigraph


# Nodes and edges as attributes of other tools' graphs. Characters that XML cannot hold are escaped.


def node_attributes(node: Node) -> dict[str, str]:
    """Return the attributes of a node by name."""
    known = {"name": printable(node.name)}
    if node.group is not None:
        known["slot_sharing_group_number"] = str(node.group)
    if node.inside is not None:
        known["inside"] = node.inside
    return _with_facts(known, node.facts)


def edge_attributes(edge: Edge) -> dict[str, str]:
    """Return the attributes of an edge by name."""
    return _with_facts({"kind": edge.kind}, edge.facts)


def _with_facts(known: dict[str, str], facts: Facts) -> dict[str, str]:
    """Join facts of one heading into one attribute."""
    for heading, text in facts:
        name = heading.replace(" ", "_")
        value = printable(text)
        known[name] = f"{known[name]}; {value}" if name in known else value
    return known


# Graphs with too many boxes: nodes are put into boxes that are drawn closed.


FOLD_ABOVE = 1_500
"""Larger graphs are drawn folded by default."""

MOST = 100_000
"""Largest number of boxes that is drawn."""

_PARTS = 24
_LEAST_PART, _LARGEST_PART = 60, FOLD_ABOVE


def fold(graph: DrawnGraph, folding: str) -> DrawnGraph:
    """Put closed boxes around the outermost nodes of a graph.

    `folding`: `none`; `chain`: chains are closed; `group`: the vertices of each slot sharing group are in one
    box, or in several, cut along the direction of data, if a box would hold too many; `auto`: nothing up to
    FOLD_ABOVE boxes, chains if that makes few enough boxes, else groups. Raises ConfigurationError for more
    than MOST boxes.
    """
    if len(graph.nodes) > MOST:
        raise ConfigurationError(
            f"topology {graph.topology!r}: its {graph.layer} has {len(graph.nodes):,} boxes, "
            f"at most {MOST:,} can be drawn",
            "draw the execution graph of one vertex (--vertex), or write --format graphml or dot",
        )
    graph = graph.in_memory()
    outermost = graph.outermost()
    if folding == "auto":
        if len(graph.nodes) <= FOLD_ABOVE:
            return graph
        folding = "chain" if len(outermost) <= FOLD_ABOVE and len(outermost) < len(graph.nodes) else "group"
    if folding == "chain":
        return replace(graph, folded=graph.enclosing())
    return _by_group(graph) if folding == "group" else graph


def _by_group(graph: DrawnGraph) -> DrawnGraph:
    names = {group.number: group for group in graph.groups}
    most = min(_LARGEST_PART, max(_LEAST_PART, -(-len(graph.outermost()) // _PARTS)))
    members_of_group: dict[int | None, list[str]] = defaultdict(list)
    group_of = {node.key: node.group for node in graph.nodes}
    for key in _in_order(graph):
        members_of_group[group_of[key]].append(key)
    boxes: list[Node] = []
    box_of: dict[str, str] = {}
    for group, members in members_of_group.items():
        parts = -(-len(members) // most)
        for part in range(parts):
            part_members = members[part * len(members) // parts : (part + 1) * len(members) // parts]
            box = _box(
                names.get(group) if group is not None else None, part, parts, len(part_members), len(boxes)
            )
            boxes.append(box)
            box_of |= dict.fromkeys(part_members, box.key)
    nodes = [replace(node, inside=box_of.get(node.key, node.inside)) for node in graph.nodes]
    return replace(graph, nodes=(*boxes, *nodes), folded=tuple(box.key for box in boxes))


def _box(group: Group | None, part: int, parts: int, members: int, place: int) -> Node:
    name = "operators" if group is None else group.name
    which = f"part {part + 1:,} of {parts:,}, " if parts > 1 else ""
    note = f"{which}{members:,} boxes"
    return Node(
        key=f"f{place}",
        name=f"{name}, part {part + 1:,}" if parts > 1 else name,
        lines=(name,),
        note=note,
        group=None if group is None else group.number,
        facts=(("folded", note),),
    )


def _in_order(graph: DrawnGraph) -> list[str]:
    """Return keys of the outermost nodes, producers before consumers, each branch contiguous."""
    keys = [node.key for node in graph.outermost()]
    place = {key: at for at, key in enumerate(keys)}
    above = {node.key: node.inside for node in graph.nodes}

    def outer(key: str) -> int:
        while (next_one := above[key]) is not None:
            key = next_one
        return place[key]

    pairs = {(outer(edge.source), outer(edge.target)) for edge in graph.edges}
    outermost_graph = igraph.Graph(
        n=len(keys), edges=sorted(pair for pair in pairs if pair[0] != pair[1]), directed=True
    )
    readers = outermost_graph.get_adjlist(mode="out")
    finished: list[int] = []
    state = [0] * len(keys)
    roots = [at for at, count in enumerate(outermost_graph.indegree()) if count == 0]
    for root in reversed([*roots, *(at for at in range(len(keys)))]):
        stack = [root]
        while stack:
            at = stack[-1]
            if state[at] == 0:
                state[at] = 1
                stack += [reader for reader in readers[at] if state[reader] == 0]
            else:
                stack.pop()
                if state[at] == 1:
                    state[at] = 2
                    finished.append(at)
    return [keys[at] for at in reversed(finished)]
