"""What is drawn: nodes, some of them inside others, and edges, with what a reader may ask of each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

Facts = tuple[tuple[str, str], ...]
"""What is known of a node or an edge: heading and text."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A box. Names are foreign text, whole and not escaped."""

    key: str  #: unique in a graph; letters, digits and underscores
    name: str
    lines: tuple[str, ...] = ()  #: of foreign text: what it consists of
    note: str = ""  #: a short line of Penstock's own
    group: int | None = None  #: its slot sharing group, which colours it
    inside: str | None = None  #: key of the node that encloses it
    facts: Facts = ()


@dataclass(frozen=True, kw_only=True)
class Edge:
    """From one node to another."""

    source: str
    target: str
    label: str = ""  #: of Penstock's own
    kind: str = "pipelined"  #: or blocking, chained
    facts: Facts = ()
    edges: int = 1  #: for how many it stands


@dataclass(frozen=True)
class Group:
    """A slot sharing group of the legend."""

    number: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A layer of one plan. Nodes come before those that read them, as far as the layer says."""

    topology: str
    layer: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    groups: tuple[Group, ...] = ()
    folded: tuple[str, ...] = ()  #: keys of enclosing nodes that are drawn closed

    def outermost(self) -> tuple[Node, ...]:
        """The nodes that no other encloses."""
        return tuple(node for node in self.nodes if node.inside is None)

    def children(self) -> dict[str, list[Node]]:
        """The nodes that each node encloses; nothing for those that enclose none."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            if node.inside is not None:
                found.setdefault(node.inside, []).append(node)
        return found


def in_groups(nodes: Sequence[Node], group: int | None) -> list[Node]:
    """The nodes of a slot sharing group."""
    return [node for node in nodes if node.group == group]


def inside(node: Node, key: str) -> Node:
    """The node, enclosed by another."""
    return replace(node, inside=key)
