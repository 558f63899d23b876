"""Graphs of other tools, nodes and edges with attributes, as topologies of transformations."""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from heapq import heapify, heappop, heappush
from operator import index
from typing import Any, NamedTuple

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.errors import TopologyError
from penstock.plans.importing.imported import Imported, with_notes
from penstock.plans.printable import first_and_count
from penstock.plans.topology.error_kinds import ErrorKind
from penstock.plans.topology.find_cycle import find_cycle
from penstock.plans.topology.rules import shorten
from penstock.plans.vocabulary import Kind, Partitioner

ASSUMED_KINDS = "as the numbers of inputs and outputs say"
ASSUMED_PARTITIONER = "Flink's choice: FORWARD where the parallelism is the same, else REBALANCE"


class SeveralInputs(StrEnum):
    """The kind of a node that has several inputs and no kind of its own."""

    OPERATOR = "operator"  #: a two_input or multi_input
    UNION = "union"  #: a one_input that reads a union of them


class GivenNode(NamedTuple):
    """A node; `key` is what edges name it by."""

    key: str
    attributes: Mapping[str, Any]


class GivenEdge(NamedTuple):
    """An edge, by the keys of its ends."""

    source: str
    target: str
    attributes: Mapping[str, Any]


class GivenGraph(NamedTuple):
    """A graph as a file or a library gives it. Ends of edges that are no nodes yet become nodes."""

    name: str
    nodes: Sequence[GivenNode]
    edges: Sequence[GivenEdge]
    directed: bool = True


class ImportOptions(NamedTuple):
    """Choices that a graph itself leaves open."""

    parallelism: int | None = None  #: for operators that have none
    partitioner: str | None = None  #: for edges that have none
    several_inputs: SeveralInputs = SeveralInputs.OPERATOR
    take: Mapping[str, str] = {}  #: key of a topology file to the attribute that holds it


AS_GIVEN = ImportOptions()
"""Nothing beside what a graph says."""


NODE_ATTRIBUTES = (
    "name",
    "kind",
    "parallelism",
    "max_parallelism",
    "uid",
    "uid_hash",
    "slot_sharing_group",
    "co_location_group",
    "buffer_timeout",
    "chaining",
)
EDGE_ATTRIBUTES = ("partitioner", "exchange_mode", "tag")
"""Keys of topology files that attributes of nodes and edges may hold, under these names."""

_INTEGERS = ("parallelism", "max_parallelism", "buffer_timeout")
_ONE_INPUT = (Kind.ONE_INPUT, Kind.ASYNC, Kind.SINK)
_PARTITIONERS = tuple(map(str, Partitioner))
_DRAWN_PARALLELISM = re.compile(r"parallelism ([0-9,]+)(, max .*)?").fullmatch
_BOX = "inside"
"""How `penstock draw` writes a parallelism, and the box around a node of a chain."""


def topology_of_graph(graph: GivenGraph, form: str, options: ImportOptions = AS_GIVEN) -> Imported:
    """A topology with an operator for each node and an edge for each edge, or the errors that prevent it.

    Operators are created in topological order, ties in the order of the nodes. A graph that is undirected,
    empty, cyclic or without edges gives errors.
    """
    boxes = {node.attributes.get(_BOX) for node in graph.nodes}
    nodes = {node.key: node for node in graph.nodes if node.key not in boxes}
    for edge in graph.edges:
        for end in (edge.source, edge.target):
            nodes.setdefault(end, GivenNode(end, {}))
    errors = _errors(graph, nodes)
    if errors:
        return errors
    numbers = {key: number for number, key in enumerate(nodes)}
    incoming: dict[str, list[GivenEdge]] = {key: [] for key in nodes}
    outgoing: dict[str, list[str]] = {key: [] for key in nodes}
    for edge in graph.edges:
        incoming[edge.target].append(edge)
        outgoing[edge.source].append(edge.target)
    written = _Written(options)
    for key in _in_order(incoming, outgoing, numbers):
        written.operator(nodes[key], incoming[key], bool(outgoing[key]))
    topology: dict[str, Any] = {"name": graph.name, "transformations": written.transformations}
    if options.parallelism is not None:
        topology["parallelism"] = options.parallelism
    ignored, used_names = set(), set()
    for kind, keys, elements in (
        ("node", NODE_ATTRIBUTES, nodes.values()),
        ("edge", EDGE_ATTRIBUTES, graph.edges),
    ):
        taken = {options.take.get(key, key) for key in keys}
        names = {name for element in elements for name in element.attributes}
        ignored |= {f"{kind} attribute {name}" for name in names - taken}
        used_names |= names & taken
    ignored |= {
        f"{key} from {name}, which nothing has"
        for key, name in options.take.items()
        if name not in used_names
    }
    alone = [key for key in nodes if not incoming[key] and not outgoing[key]]
    if alone:
        # Flink's graph has no source without a reader.
        ignored.add(f"isolated nodes {first_and_count([shorten(key, 40) for key in alone], most=5)}")
    return with_notes(topology, form, written.assumed, ignored)


class _Written:
    """The transformations of operators so far, in order, and what was assumed of them."""

    def __init__(self, options: ImportOptions) -> None:
        self._options = options
        self.transformations: list[dict[str, Any]] = []
        self._ids: dict[str, int] = {}
        self.assumed: dict[str, str] = {}

    def operator(self, node: GivenNode, incoming: Sequence[GivenEdge], is_read: bool) -> None:
        """Add what the node reads, then the node."""
        known = _known(node.attributes, NODE_ATTRIBUTES, self._options.take)
        own_kind = known.pop("kind", None)
        if own_kind is None:
            self.assumed["kind"] = ASSUMED_KINDS
        if "parallelism" not in known and self._options.parallelism is None:
            self.assumed["parallelism"] = "1"
        unions = self._options.several_inputs == SeveralInputs.UNION
        kind = own_kind if own_kind is not None else _kind(len(incoming), is_read, unions)
        name = str(known.pop("name", node.key))
        prefix = OPERATOR_KINDS[kind].name_prefix if kind in OPERATOR_KINDS else ""
        inputs = [self._edge(edge) for edge in incoming]
        if kind in _ONE_INPUT and len(inputs) > 1:
            inputs = [self._add(kind="union", inputs=inputs)]
        of_inputs = {"inputs": inputs} if inputs else {}
        self._ids[node.key] = self._add(kind=kind, name=name.removeprefix(prefix), **of_inputs, **known)

    def _edge(self, edge: GivenEdge) -> int:
        """The id of the last transformation along the edge, virtual ones added."""
        known = _known(edge.attributes, EDGE_ATTRIBUTES, self._options.take)
        at = self._ids[edge.source]
        if (tag := known.get("tag")) is not None:
            at = self._add(kind="side_output", inputs=[at], tag=tag)
        partitioner = known.get("partitioner", self._options.partitioner)
        if partitioner is None:
            self.assumed["partitioner"] = ASSUMED_PARTITIONER
            return at
        if isinstance(partitioner, str):
            partitioner = partitioner.lower()
            partitioner = "hash" if partitioner.startswith("hash[") else partitioner
        mode = {key: known[key] for key in ("exchange_mode",) if key in known}
        return self._add(kind="partition", inputs=[at], partitioner=partitioner, **mode)

    def _add(self, **transformation: Any) -> int:
        number = len(self.transformations) + 1
        self.transformations.append({"id": number, **transformation})
        return number


def _kind(inputs: int, is_read: bool, unions: bool) -> str:
    if not inputs:
        return str(Kind.SOURCE)
    if not is_read:
        return str(Kind.SINK)
    if inputs == 1 or unions:
        return str(Kind.ONE_INPUT)
    return str(Kind.TWO_INPUT if inputs == 2 else Kind.MULTI_INPUT)


def _known(attributes: Mapping[str, Any], keys: Iterable[str], take: Mapping[str, str]) -> dict[str, Any]:
    """Keys of topology files with the values that attributes give them; texts that are numbers as numbers."""
    values = {}
    for key in keys:
        value = attributes.get(take.get(key, key))
        if is_missing(value):
            continue
        plain = _plain(value)
        values[key] = _integer(plain) if key in _INTEGERS else plain if key == "name" else _text(plain)
    return values


def is_missing(value: Any) -> bool:
    """Whether an attribute says nothing: none, an empty text, or not a number, as GraphML has it."""
    return (
        value is None
        or (isinstance(value, str) and not value)
        or (isinstance(value, float) and value != value)
    )


def _integer(value: Any) -> Any:
    """A whole number where `value` is one, however it is written; validation refuses other values."""
    if isinstance(value, str):
        drawn = _DRAWN_PARALLELISM(value)
        try:
            value = float(drawn[1].replace(",", "") if drawn else value)
        except ValueError:
            return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _plain(value: Any) -> Any:
    """A value of a library, such as numpy's, as Python's own number or text."""
    if isinstance(value, (bool, int, float)):
        return value if isinstance(value, bool) else (int if isinstance(value, int) else float)(value)
    try:
        return index(value)
    except TypeError:
        return str(value)


def _text(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _errors(graph: GivenGraph, nodes: Mapping[str, GivenNode]) -> list[TopologyError]:
    if not nodes:
        return [TopologyError(ErrorKind.EMPTY_TOPOLOGY, "graph", "no nodes", "1 or more", "")]
    if not graph.directed:
        problem, allowed = "an undirected graph", "a directed graph: data goes from source to target"
        return [TopologyError(ErrorKind.WRONG_TYPE, "graph", problem, allowed, "give its edges a direction")]
    if not graph.edges:
        problem = (
            "1 node and no edge" if len(nodes) == 1 else f"{len(nodes):,} nodes and no edge between them"
        )
        return [
            TopologyError(ErrorKind.EMPTY_TOPOLOGY, "graph", problem, "operators that read each other", "")
        ]
    keys = list(nodes)
    numbers = {key: number for number, key in enumerate(keys)}
    inputs: dict[int, list[int]] = {number: [] for number in numbers.values()}
    for edge in graph.edges:
        inputs[numbers[edge.target]].append(numbers[edge.source])
    cycle = find_cycle(inputs)
    if not cycle:
        return []
    shown = " reads ".join([*(shorten(keys[i], 60) for i in (*cycle[:20], cycle[0]))])
    problem = f"{shown}{' (a self loop)' if len(cycle) == 1 else ''}"
    hint = "Flink's graphs have no feedback; leave one of the edges out"
    return [
        TopologyError(
            ErrorKind.CYCLE, f"node {shorten(keys[cycle[0]], 60)}", problem, "an acyclic graph", hint
        )
    ]


def _in_order(
    incoming: Mapping[str, Sequence[GivenEdge]],
    outgoing: Mapping[str, Sequence[str]],
    numbers: Mapping[str, int],
) -> Iterable[str]:
    """The nodes of an acyclic graph, each after its inputs, else in their order."""
    keys = list(numbers)
    waiting = {key: len(edges) for key, edges in incoming.items()}
    ready = [numbers[key] for key, count in waiting.items() if not count]
    heapify(ready)
    while ready:
        key = keys[heappop(ready)]
        yield key
        for target in outgoing[key]:
            waiting[target] -= 1
            if not waiting[target]:
                heappush(ready, numbers[target])
