"""Import graphs of other tools, nodes and edges with attributes, as topologies of transformations."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from heapq import heapify, heappop, heappush
from operator import index
from typing import Any, NamedTuple

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.errors import ErrorKind, InputError, TopologyError
from penstock.plans.printable import unprintable
from penstock.plans.stream_graph.refuse_stream_graphs import MAX_INPUTS
from penstock.plans.topology.rules import Rules, explain_keys, shorten
from penstock.plans.topology.validate_transformations import find_cycle
from penstock.plans.vocabulary import Kind, Partitioner

# The result of importing a document: a topology, with notes of assumptions and ignored parts.


FORM_KEY = "penstock.import.form"
ASSUMED_KEY = "penstock.import.assumed"
IGNORED_KEY = "penstock.import.ignored"
FILE_KEY = "penstock.import.file"
"""Keys of an imported topology's configuration: its form, assumptions, ignored parts, and its file."""

Imported = dict[str, Any] | list[TopologyError]
"""A topology in the form of docs/topology-files.md, or the errors that prevent it."""


def with_notes(
    topology: Mapping[str, Any], form: str, assumed: Mapping[str, str], ignored: Iterable[str] = ()
) -> dict[str, Any]:
    """Return `topology` with notes of its import in its configuration, which planning does not read."""
    notes = {FORM_KEY: form}
    if assumed:
        notes[ASSUMED_KEY] = "; ".join(f"{key} = {value}" for key, value in assumed.items())
    if ignored_text := "; ".join(sorted(ignored)):
        notes[IGNORED_KEY] = ignored_text
    return {**topology, "config": {**topology.get("config", {}), **notes}}


def also_ignored(imported: Imported, ignored: Iterable[str]) -> Imported:
    """Add further ignored parts to the notes of `imported`."""
    ignored_names = set(ignored)
    if not ignored_names or isinstance(imported, list):
        return imported
    config = imported["config"]
    ignored_names |= set(filter(None, config.get(IGNORED_KEY, "").split("; ")))
    return {**imported, "config": {**config, IGNORED_KEY: "; ".join(sorted(ignored_names))}}


def errors_of_known(
    entry: Mapping[str, Any], rules: Rules, required: Sequence[str], location: str
) -> list[TopologyError]:
    """explain_keys for the keys in `rules`; other tools' objects may have more."""
    return explain_keys({key: entry[key] for key in rules if key in entry}, rules, required, location)


def ignored_keys(entry: Mapping[str, Any], known: Iterable[str]) -> set[str]:
    """Return keys with a value that are not among the `known` ones."""
    return {key for key in entry.keys() - set(known) if entry[key] not in (None, "", {}, [])}


ASSUMED_KINDS = "by the numbers of inputs and outputs"
ASSUMED_PARTITIONER = "Flink's choice: FORWARD if the parallelism is the same, else REBALANCE"


class SeveralInputs(StrEnum):
    """The kind of a node that has several inputs and no kind of its own."""

    OPERATOR = "operator"  #: a two_input or multi_input
    UNION = "union"  #: a one_input that reads a union of its inputs


class GivenNode(NamedTuple):
    """A node; edges refer to it by `key`."""

    key: str
    attributes: Mapping[str, Any]


class GivenEdge(NamedTuple):
    """An edge, by the keys of its ends."""

    source: str
    target: str
    attributes: Mapping[str, Any]


class GivenGraph(NamedTuple):
    """A graph from a file or a library, with notes of its reader."""

    name: str
    nodes: Sequence[GivenNode]
    edges: Sequence[GivenEdge]
    directed: bool = True
    left_out: Sequence[str] = ()  #: parts of the file in neither nodes nor edges
    assumed: Mapping[str, str] = {}  #: values filled in by the reader
    lists_nodes: bool = False  #: whether edges may only name listed nodes; otherwise their ends become nodes
    keys_are_ids: bool = True  #: False: keys are generated, or contained in names


class ImportOptions(NamedTuple):
    """Choices that a graph itself leaves open."""

    parallelism: int | None = None  #: for operators that set none
    partitioner: str | None = None  #: for edges that set none
    several_inputs: SeveralInputs = SeveralInputs.OPERATOR
    take: Mapping[str, str] = {}  #: key of a topology file to the attribute with its value
    reverse: bool = False  #: whether edges point from readers to their inputs


AS_GIVEN = ImportOptions()
"""Only the graph's own values."""


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
"""Keys of topology files that attributes of nodes and edges may set, under these names."""

_INTEGERS = ("parallelism", "max_parallelism", "buffer_timeout")
_ONE_INPUT = (Kind.ONE_INPUT, Kind.ASYNC, Kind.SINK)
_PARTITIONERS = tuple(map(str, Partitioner))
DRAWN_PARALLELISM = re.compile(r"parallelism (?:([0-9,]+)|decided at run time)(?:, max ([0-9,]+))?").fullmatch
_BOX = "inside"
"""The notation of `penstock draw` for parallelism, and its box around a node of a chain."""
_LABEL = "label"
_READS_LATER = re.compile(r"sink|print|materiali[sz]e|output", re.IGNORECASE).search
_READS_FIRST = re.compile(r"source|scan|input", re.IGNORECASE).search
_MOST_LISTED = 5
_GROUPED = re.compile(r"[0-9]{1,3}(,[0-9]{3})+").fullmatch
_PLAIN_NAME = re.compile(r"[\w.: -]{1,60}", re.ASCII).fullmatch


def topology_of_graph(graph: GivenGraph, form: str, options: ImportOptions = AS_GIVEN) -> Imported:
    """Return a topology with an operator per node and an edge per edge, or the errors that prevent it.

    Operators are created in topological order, ties in the order of the nodes. An undirected, empty or cyclic
    graph, or one without edges, gives errors.
    """
    if options.reverse:
        graph = graph._replace(
            edges=[edge._replace(source=edge.target, target=edge.source) for edge in graph.edges]
        )
    ends = {end for edge in graph.edges for end in (edge.source, edge.target)}
    boxes = {node.attributes.get(_BOX) for node in graph.nodes} - ends
    nodes = {node.key: node for node in graph.nodes if node.key not in boxes}
    errors = _errors_of_ids(graph, nodes, ends)
    for edge in graph.edges:
        for end in (edge.source, edge.target):
            nodes.setdefault(end, GivenNode(end, {}))
    errors = errors or _errors(graph, nodes)
    if errors:
        return errors
    numbers = {key: number for number, key in enumerate(nodes)}
    incoming: dict[str, list[GivenEdge]] = {key: [] for key in nodes}
    outgoing: dict[str, list[str]] = {key: [] for key in nodes}
    for edge in graph.edges:
        incoming[edge.target].append(edge)
        outgoing[edge.source].append(edge.target)
    writer = _TransformationWriter(options)
    for key in _in_order(incoming, outgoing, numbers):
        writer.operator(nodes[key], incoming[key], bool(outgoing[key]))
    if writer.errors:
        return writer.errors
    topology: dict[str, Any] = {"name": graph.name, "transformations": writer.transformations}
    if options.parallelism is not None:
        topology["parallelism"] = options.parallelism
    if options.reverse:
        writer.assumed["direction"] = "against the edges"
    elif _points_backwards(nodes, incoming, outgoing, writer.names):
        writer.assumed["direction"] = "along the edges; --reverse if they point from readers to their inputs"
    ignored = {*graph.left_out, *_attributes_left(graph, nodes, options, writer)}
    for label, keys in (
        ("boxes", [node.attributes.get("name", node.key) for node in graph.nodes if node.key in boxes]),
        # Flink's graph has no source without a reader.
        ("isolated nodes", [key for key in nodes if not incoming[key] and not outgoing[key]]),
        (
            "ids of nodes that have names",
            [key for key in nodes if graph.keys_are_ids and writer.names[key] != key],
        ),
    ):
        if keys:
            shown = [shorten(key, 40) for key in keys[: _MOST_LISTED + 1]]
            more = len(keys) - _MOST_LISTED
            ignored.add(
                f"{label} {', '.join(shown[:_MOST_LISTED])}" + (f", and {more:,} more" if more > 0 else "")
            )
    return with_notes(topology, form, {**graph.assumed, **writer.assumed}, ignored)


def _attributes_left(
    graph: GivenGraph, nodes: Mapping[str, GivenNode], options: ImportOptions, writer: "_TransformationWriter"
) -> set[str]:
    """Return notes of attributes that no key of topologies used, and of requested attributes that do not
    occur.
    """
    ignored, used_names = set(), set()
    for kind, keys, elements, labels in (
        ("node", NODE_ATTRIBUTES, nodes.values(), writer.labels_of_nodes),
        ("edge", EDGE_ATTRIBUTES, graph.edges, writer.labels_of_edges),
    ):
        taken = {options.take.get(key, key) for key in keys}
        counts = Counter(
            name
            for element in elements
            for name, value in element.attributes.items()
            if name in taken or not is_missing(value)
        )
        if labels:
            counts[_LABEL] -= labels
        ignored |= {
            f"{kind} attribute {attribute_name(name)}"
            for name, count in counts.items()
            if count > 0 and name not in taken
        }
        used_names |= counts.keys() & taken
    return ignored | {
        f"{key} from {attribute_name(name)}, which does not occur"
        for key, name in options.take.items()
        if name not in used_names
    }


def attribute_name(name: object) -> str:
    """Return the name of an attribute for notes, unquoted if it is plain words."""
    return name if isinstance(name, str) and _PLAIN_NAME(name) else shorten(name, 60)


def _points_backwards(
    nodes: Mapping[str, GivenNode],
    incoming: Mapping[str, Sequence[GivenEdge]],
    outgoing: Mapping[str, Sequence[str]],
    names: Mapping[str, str],
) -> bool:
    """Return whether all nodes without inputs are named like sinks, and all nodes without readers like
    sources.
    """
    firsts = [names[key] for key in nodes if outgoing[key] and not incoming[key]]
    lasts = [names[key] for key in nodes if incoming[key] and not outgoing[key]]
    return all(_READS_LATER(name) and not _READS_FIRST(name) for name in firsts) and all(
        _READS_FIRST(name) and not _READS_LATER(name) for name in lasts
    )


class _TransformationWriter:
    """The transformations of operators so far, in order, and the assumptions about them."""

    def __init__(self, options: ImportOptions) -> None:
        self._options = options
        self.transformations: list[dict[str, Any]] = []
        self._ids: dict[str, int] = {}
        self.assumed: dict[str, str] = {}
        self.names: dict[str, str] = {}  #: by the keys of nodes
        self.labels_of_nodes = self.labels_of_edges = 0  #: used as names and partitioners
        self.errors: list[TopologyError] = []

    def operator(self, node: GivenNode, incoming: Sequence[GivenEdge], is_read: bool) -> None:
        """Add the node's inputs, then the node."""
        known = _known(node.attributes, NODE_ATTRIBUTES, self._options.take)
        if "name" not in known and "name" not in self._options.take:
            label = node.attributes.get(_LABEL)
            if not is_missing(label):
                known["name"] = _plain(label)
                self.labels_of_nodes += 1
                self.assumed["name"] = "the label"
        own_kind = known.pop("kind", None)
        if own_kind is None:
            self.assumed["kind"] = ASSUMED_KINDS
        if "parallelism" not in known and self._options.parallelism is None:
            self.assumed["parallelism"] = "1"
        unions = self._options.several_inputs == SeveralInputs.UNION
        kind = own_kind if own_kind is not None else _kind(len(incoming), is_read, unions)
        self.names[node.key] = name = str(known.pop("name", node.key))
        if kind == Kind.MULTI_INPUT and len(incoming) > MAX_INPUTS:
            self.errors.append(
                TopologyError(
                    ErrorKind.WRONG_NUMBER_OF_INPUTS,
                    f"node {shorten(node.key, 60)}",
                    f"{len(incoming):,} inputs",
                    f"{MAX_INPUTS} of a multi_input operator",
                    "several inputs as a union (--several-inputs union) make it a one_input operator",
                )
            )
        prefix = OPERATOR_KINDS[kind].name_prefix if kind in OPERATOR_KINDS else ""
        inputs = [self._edge(edge) for edge in incoming]
        if kind in _ONE_INPUT and len(inputs) > 1:
            inputs = [self._add(kind="union", inputs=inputs)]
        input_entry = {"inputs": inputs} if inputs else {}
        self._ids[node.key] = self._add(kind=kind, name=name.removeprefix(prefix), **input_entry, **known)

    def _edge(self, edge: GivenEdge) -> int:
        """Return the id of the last transformation along the edge, after adding virtual ones."""
        known = _known(edge.attributes, EDGE_ATTRIBUTES, self._options.take)
        at = self._ids[edge.source]
        if (tag := known.get("tag")) is not None:
            at = self._add(kind="side_output", inputs=[at], tag=tag)
        partitioner = known["partitioner"] if "partitioner" in known else self._label_of_edge(edge)
        if partitioner is None:
            partitioner = self._options.partitioner
        if partitioner is None:
            self.assumed["partitioner"] = ASSUMED_PARTITIONER
            return at
        if isinstance(partitioner, str):
            partitioner = partitioner.lower()
            partitioner = "hash" if partitioner.startswith("hash[") else partitioner
        mode = {key: known[key] for key in ("exchange_mode",) if key in known}
        return self._add(kind="partition", inputs=[at], partitioner=partitioner, **mode)

    def _label_of_edge(self, edge: GivenEdge) -> str | None:
        """Return the label of the edge if it is the name of a partitioner."""
        label = edge.attributes.get(_LABEL)
        if "partitioner" in self._options.take or not isinstance(label, str):
            return None
        if label.strip().lower() not in _PARTITIONERS:
            return None
        self.labels_of_edges += 1
        self.assumed["partitioner of edges with the label of one"] = "the label"
        return label.strip()

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
    """Return the keys of topology files that attributes set; numbers in texts become numbers."""
    values = {}
    for key in keys:
        value = attributes.get(take.get(key, key))
        if is_missing(value):
            continue
        plain = _integer(_plain(value)) if key in _INTEGERS else _plain(value)
        if is_missing(plain):  # igraph writes NaN for missing numbers
            continue
        values[key] = plain if key in _INTEGERS else plain if key == "name" else _text(plain)
    drawn = DRAWN_PARALLELISM(values["parallelism"]) if isinstance(values.get("parallelism"), str) else None
    if drawn is not None:
        del values["parallelism"]
        values = {key: unprintable(text) if isinstance(text, str) else text for key, text in values.items()}
        given = {"parallelism": drawn[1], "max_parallelism": values.get("max_parallelism", drawn[2])}
        values |= {key: _integer(text) for key, text in given.items() if text is not None}
    return values


def is_missing(value: Any) -> bool:
    """Return whether an attribute is None, an empty text, or NaN, as in GraphML, and so has no value."""
    return (
        value is None
        or (isinstance(value, str) and not value)
        or (isinstance(value, float) and value != value)
    )


def _integer(value: Any) -> Any:
    """Return a whole number in any notation as an integer; validation refuses other values."""
    if isinstance(value, str):
        try:
            value = float(value.replace(",", "") if _GROUPED(value) else value)
        except ValueError:
            return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _plain(value: Any) -> Any:
    """Return a value of a library such as numpy as Python's own number or text."""
    if isinstance(value, (bool, int, float)):
        return value if isinstance(value, bool) else (int if isinstance(value, int) else float)(value)
    try:
        return index(value)
    except TypeError:
        return str(value)


def _text(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _errors_of_ids(
    graph: GivenGraph, nodes: Mapping[str, GivenNode], ends: AbstractSet[str]
) -> list[TopologyError]:
    """Return errors for duplicate ids and for edges of unknown nodes, if the file lists its nodes."""
    if not graph.lists_nodes:
        return []
    errors = []
    counts = Counter(node.key for node in graph.nodes)
    if len(counts) < len(graph.nodes):
        errors += [
            TopologyError(
                ErrorKind.DUPLICATE_ID, f"node {shorten(key, 60)}", f"{count} nodes of this id", "1", ""
            )
            for key, count in counts.items()
            if count > 1
        ]
    if not ends <= nodes.keys():
        errors += [
            TopologyError(
                ErrorKind.DANGLING_EDGE,
                f"edge from {shorten(edge.source, 60)} to {shorten(edge.target, 60)}",
                f"{shorten(end, 60)}, which no node has as its id",
                "the id of a node",
                "",
            )
            for edge in graph.edges
            for end in (edge.source, edge.target)
            if end not in nodes
        ]
    return errors


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
    """Yield the nodes of an acyclic graph, each after its inputs, else in their order."""
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


# Graphs of networkx and igraph, recognised by their methods: neither library is imported here.


_ID = "id"
_ALLOWED = "a graph of networkx or igraph"


def graph_of_library(graph: Any, name: str | None) -> GivenGraph:
    """Return the graph with its attributes; default of `name`: the graph's own, else "imported".

    Nodes of networkx are named by their text. Raises InputError for anything else.
    """
    kind = type(graph)  # a Spark DataFrame has any attribute, as a column
    if hasattr(kind, "vs") and hasattr(kind, "es"):
        own = graph["name"] if "name" in graph.attributes() else None
        return graph_of_igraph(graph, _name(name, own))
    if not all(hasattr(kind, method) for method in ("nodes", "edges", "is_directed")):
        raise InputError(f"graph must be {_ALLOWED}, got {type(graph).__name__}")
    keys = {node: str(node) for node in graph.nodes}
    if len(set(keys.values())) < len(keys):  # such as 1 and "1"
        keys = {node: f"{node}#{number}" for number, node in enumerate(graph.nodes)}
    nodes = [GivenNode(keys[node], attributes) for node, attributes in graph.nodes(data=True)]
    edges = [
        GivenEdge(keys[source], keys[target], attributes)
        for source, target, attributes in graph.edges(data=True)
    ]
    own = graph.graph.get("topology", graph.graph.get("name")) if hasattr(graph, "graph") else None
    return GivenGraph(_name(name, own), nodes, edges, bool(graph.is_directed()))


def _name(name: str | None, own: Any) -> str:
    return name or (own if isinstance(own, str) and own else "imported")


def graph_of_igraph(graph: Any, name: str) -> GivenGraph:
    """Convert an igraph.Graph; vertices are named by `id`, `name`, or their numbers."""
    vertices = [vertex.attributes() for vertex in graph.vs]
    keys = [_key(attributes, number) for number, attributes in enumerate(vertices)]
    if len(set(keys)) < len(keys):
        keys = [f"{key}#{number}" for number, key in enumerate(keys)]
    nodes = [
        GivenNode(key, {attribute: value for attribute, value in attributes.items() if attribute != _ID})
        for key, attributes in zip(keys, vertices, strict=True)
    ]
    edges = [GivenEdge(keys[edge.source], keys[edge.target], edge.attributes()) for edge in graph.es]
    return GivenGraph(name, nodes, edges, graph.is_directed())


def _key(attributes: dict[str, Any], number: int) -> str:
    own_key = attributes.get(_ID, attributes.get("name"))
    return str(number) if own_key is None or own_key == "" else str(own_key)
