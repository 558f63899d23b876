"""Find all errors of one parsed topology line, without Spark."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from penstock.plans.errors import ErrorKind, TopologyError
from penstock.plans.printable import reason_of
from penstock.plans.topology.job_settings import check_stream_graph_checkpointing, setting_errors
from penstock.plans.topology.operator_rules import (
    EDGE_REQUIRED,
    EDGE_RULES,
    GRAPH_REQUIRED,
    GRAPH_RULES,
    MAX_PARALLELISM_RULE,
    NODE_REQUIRED,
    NODE_RULES,
    PARALLELISM,
)
from penstock.plans.topology.rules import (
    Rule,
    Rules,
    boolean,
    explain_keys,
    json_type,
    mapping,
    shorten,
    text,
    wrong_type,
)
from penstock.plans.topology.validate_transformations import find_cycle, validate_transformations
from penstock.plans.vocabulary import (
    FORWARD_CLASSES,
    PARTITIONER_CLASSES,
    TABLE_HASH_CLASS,
    Partitioner,
    TopologyForm,
)

# Refusal of a `stream_graph` that is incomplete or inconsistent, with every reason.


def _validate_stream_graph(graph: Any) -> list[TopologyError]:
    """Return every error of a topology's `stream_graph`; empty if it is valid."""
    if type(graph) is not dict:
        return [wrong_type("topology", "stream_graph", graph, "an object")]
    errors = explain_keys(graph, GRAPH_RULES, GRAPH_REQUIRED, "stream_graph")
    nodes, edges = graph.get("nodes"), graph.get("edges")
    if type(nodes) is not list or type(edges) is not list:
        return errors
    if not nodes:
        return [*errors, TopologyError(ErrorKind.EMPTY_TOPOLOGY, "stream_graph", "no nodes", "1 or more", "")]
    errors += _object_errors(nodes, NODE_RULES, NODE_REQUIRED, "node", "id")
    errors += _object_errors(edges, EDGE_RULES, EDGE_REQUIRED, "edge", "edge_id")
    return errors or _graph_errors(graph, nodes, edges)


def _object_errors(
    entries: list[Any], rules: Rules, required: tuple[str, ...], label: str, key: str
) -> list[TopologyError]:
    errors: list[TopologyError] = []
    for position, entry in enumerate(entries, 1):
        if type(entry) is dict:
            where = f"{label} {shorten(entry[key])}" if key in entry else f"{label} at position {position}"
            errors += explain_keys(entry, rules, required, where)
        else:
            problem = f"{shorten(entry)} ({json_type(entry)})"
            where = f"{label} at position {position}"
            errors.append(TopologyError(ErrorKind.NOT_AN_OBJECT, where, problem, "an object", ""))
    return errors


def _graph_errors(graph: dict[str, Any], nodes: list[Any], edges: list[Any]) -> list[TopologyError]:
    """Return contradictions between individually valid values."""
    errors = [
        TopologyError(ErrorKind.DUPLICATE_ID, f"node {i}", f"{count} nodes with this id", "1", "")
        for i, count in Counter(node["id"] for node in nodes).items()
        if count > 1
    ]
    errors += [
        TopologyError(ErrorKind.DUPLICATE_EDGE, f"edge {i!r}", f"{count} edges with this edge_id", "1", "")
        for i, count in Counter(edge["edge_id"] for edge in edges).items()
        if count > 1
    ]
    ids = {node["id"] for node in nodes}
    errors += [
        TopologyError(
            ErrorKind.DANGLING_EDGE,
            f"edge {edge['edge_id']!r}",
            f"{end} {edge[end]}, which no node has as its id",
            "the id of a node",
            "",
        )
        for edge in edges
        for end in ("source", "target")
        if edge[end] not in ids
    ]
    errors += [
        TopologyError(
            ErrorKind.DANGLING_EDGE,
            f"stream_graph, {ends}",
            f"{i}, which no node has as its id",
            "the id of a node",
            "",
        )
        for ends in ("sources", "sinks")
        for i in graph[ends]
        if i not in ids
    ]
    if errors:
        return errors
    inputs: dict[int, list[int]] = {i: [] for i in ids}
    for edge in edges:
        inputs[edge["target"]].append(edge["source"])
    errors += wrongly_printed(edges)
    errors += _edge_list_errors(nodes, edges)
    if not errors:
        errors += _partitioner_errors(graph, nodes, edges)
    errors += _cache_errors(nodes, inputs)
    errors += _source_errors(graph["sources"], inputs)
    cycle = find_cycle(inputs)
    if cycle:
        shown = " reads ".join(map(str, [*cycle[:20], *(["…"] if len(cycle) > 20 else []), cycle[0]]))
        errors.append(TopologyError(ErrorKind.CYCLE, f"node {cycle[0]}", shown, "an acyclic graph", ""))
    return errors


def _edge_list_errors(nodes: list[Any], edges: list[Any]) -> list[TopologyError]:
    """Check that in_edges (out_edges) of a node list exactly the edges whose target (source) it is, each
    once.
    """
    errors = []
    for listing, end in (("in_edges", "target"), ("out_edges", "source")):
        actual: dict[int, Counter[str]] = {node["id"]: Counter() for node in nodes}
        for edge in edges:
            actual[edge[end]][edge["edge_id"]] += 1
        for node in nodes:
            listed = Counter(node[listing])
            differences = [
                f"{listing} {word} {sorted(missing.elements())[:5]}"
                for word, missing in (
                    ("without", actual[node["id"]] - listed),
                    ("with", listed - actual[node["id"]]),
                )
                if missing
            ]
            if differences:
                errors.append(
                    TopologyError(
                        ErrorKind.EDGE_LIST_MISMATCH,
                        f"node {node['id']}",
                        ", ".join(differences),
                        f"each edge whose {end} the node is, once, in order",
                        "",
                    )
                )
    return errors


def _source_errors(sources: list[int], inputs: dict[int, list[int]]) -> list[TopologyError]:
    """Check that sources, from which Flink walks a graph, are exactly the nodes without inputs."""
    without_inputs = {i for i, read in inputs.items() if not read}
    return [
        TopologyError(
            ErrorKind.DANGLING_EDGE,
            f"node {i}",
            "no input edges but not among sources"
            if i in without_inputs
            else "input edges but among sources",
            "sources: the nodes without input edges",
            "",
        )
        for i in sorted(without_inputs ^ set(sources))
    ]


def _partitioner_errors(graph: dict[str, Any], nodes: list[Any], edges: list[Any]) -> list[TopologyError]:
    """Check that `equal_partitioner` is the first edge of a class of equal ones, out of the same node."""
    compared = graph.get("partitioners_compared", False)
    by_id = {edge["edge_id"]: edge for edge in edges}
    place = {e: i for node in nodes for i, e in enumerate(node["out_edges"])}
    errors = []
    for edge in edges:
        if "equal_partitioner" not in edge:
            continue
        first = by_id.get(edge["equal_partitioner"])
        wrong = ""
        if not compared:
            wrong = "in a graph without partitioners_compared: true"
        elif first is None:
            wrong = "which no edge has as its id"
        elif first["source"] != edge["source"]:
            wrong = f"an edge out of node {first['source']}"
        elif place[first["edge_id"]] >= place[edge["edge_id"]]:
            wrong = "which is not before it among the out_edges of its source"
        elif "equal_partitioner" in first:
            wrong = "which is equal to an earlier one itself"
        if wrong:
            errors.append(
                TopologyError(
                    ErrorKind.EDGE_LIST_MISMATCH if compared else ErrorKind.KEY_NOT_ALLOWED,
                    f"edge {edge['edge_id']!r}",
                    f"equal_partitioner {shorten(edge['equal_partitioner'])}, {wrong}",
                    "the first edge out of the same node that has an equal partitioner",
                    "" if compared else "add partitioners_compared: true to stream_graph",
                )
            )
    return errors


def _cache_errors(nodes: list[Any], inputs: dict[int, list[int]]) -> list[TopologyError]:
    """Return errors for nodes that read both a cached data set and an operator."""
    return [
        TopologyError(
            ErrorKind.KEY_NOT_ALLOWED,
            f"node {node['id']}",
            "consumes_data_set on a node with input edges",
            "consumes_data_set on a node without input edges",
            "",
        )
        for node in nodes
        if "consumes_data_set" in node and inputs[node["id"]]
    ]


# Consistency of partitioner names with the names that Flink's classes print.


_PRINTED: Mapping[str, str] = {
    **{name: partitioner.upper() for partitioner, name in PARTITIONER_CLASSES.items()},
    **dict.fromkeys(FORWARD_CLASSES, Partitioner.FORWARD.upper()),
}
"""Results of toString of Flink's partitioners."""

_OTHERS_PRINT = (Partitioner.HASH.upper(), Partitioner.CUSTOM.upper())
"""Names that connectors' and the Table planner's partitioners share; planning treats all alike."""

_WRAPPER = PARTITIONER_CLASSES[Partitioner.CUSTOM]
"""Also the class for partitioners known only by their printed name, as in imported plans."""


def wrongly_printed(edges: Sequence[Mapping[str, Any]]) -> list[TopologyError]:
    """Return an error for each edge that contradicts itself.

    Either its `partitioner` is not the text that Flink's `partitioner_class` prints, or it is a name with a
    meaning for planning, such as FORWARD, that the class does not print. User-defined classes print any other
    text.
    """
    errors = []
    for edge in edges:
        printed, class_name = edge["partitioner"], edge["partitioner_class"]
        classes = [name for name, text in _PRINTED.items() if text == printed]
        if class_name in _PRINTED and class_name != _WRAPPER and printed != _PRINTED[class_name]:
            key, allowed = "partitioner", _PRINTED[class_name]
        elif class_name == TABLE_HASH_CLASS and not printed.startswith("HASH["):
            key, allowed = "partitioner", "HASH[FIELDS]"
        elif classes and printed not in _OTHERS_PRINT and class_name not in (*classes, _WRAPPER):
            key, allowed = "partitioner_class", ", ".join(classes)
        else:
            continue
        hint = f"{allowed} goes with {printed if key == 'partitioner_class' else class_name}"
        where, problem = f"edge {edge['edge_id']!r}", f"{key} {shorten(edge[key])}"
        errors.append(TopologyError(ErrorKind.UNKNOWN_VALUE, where, problem, allowed, hint))
    return errors


LINE = "line"
"""Location of an error that concerns a whole line; the rejected table replaces it by line number and file."""

_BEGINNING = 400
"""Bytes of an invalid line from which an error quotes the first characters."""


def _anything(allowed: str) -> Rule:
    """Return a rule for a value that is validated elsewhere."""
    return Rule(lambda _: True, lambda *_: [], allowed)


def _config() -> Rule:
    """Return a rule for Flink options; the error for a bare number or boolean quotes it as the intended
    string.
    """
    allowed = "an object of Flink option keys to strings"
    keys_are_strings = mapping(text(), text(), allowed)

    def explain(location: str, key: str, value: Any) -> list[TopologyError]:
        if type(value) is not dict:
            return [wrong_type(location, key, value, allowed)]
        return [
            wrong_type(
                location,
                f"config.{k}",
                v,
                "a string",
                f'write "{orjson.dumps(v).decode()}"' if isinstance(v, int | float) else "",
            )
            for k, v in value.items()
            if type(v) is not str
        ]

    return Rule(keys_are_strings.accepts, explain, allowed)


CONFIG = _config()

_RULES: Rules = {
    "name": text("a string, not empty", bool),
    "parallelism": PARALLELISM,
    "max_parallelism": MAX_PARALLELISM_RULE,
    "chaining": boolean(),
    "config": CONFIG,
    "transformations": _anything("a list of transformations"),
    "stream_graph": _anything("an object"),
}

TOPOLOGY_KEYS = tuple(_RULES)
"""The keys that a topology may have."""


_JSON_TEXT = "JSON objects in UTF-8, one per line, or one after the other over several lines"


def parse_topology(line: bytes) -> dict[str, Any] | TopologyError:
    """Return the object in a line, or the error if there is none."""
    try:
        parsed = orjson.loads(line)
    except orjson.JSONDecodeError as e:
        return TopologyError(
            ErrorKind.NOT_JSON,
            LINE,
            f"{shorten(line[:_BEGINNING].decode('utf-8', 'replace'), 60)} ({reason_of_json(line, e)})",
            _JSON_TEXT,
            "only files that end in .gz are decompressed" if line[:2] == b"\x1f\x8b" else "",
        )
    if type(parsed) is not dict:
        return TopologyError(ErrorKind.NOT_AN_OBJECT, LINE, json_type(parsed), _JSON_TEXT, "")
    return parsed


def reason_of_json(line: bytes, error: orjson.JSONDecodeError) -> str:
    """Return why a line is not JSON, with the place of the first byte that is not UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError as wrong:
        return reason_of(wrong)
    return str(error)


def validate_topology(
    topology: dict[str, Any],
    transformation_errors: Callable[[Any], list[TopologyError]] = validate_transformations,
) -> list[TopologyError]:
    """Return every error of one topology (docs/topology-files.md); empty if it can be planned.

    Validates top-level keys and all of `transformations` or `stream_graph`. Flink options are validated only
    if something else is wrong: if they alone are wrong, Flink's own refusal is reported. The result does not
    depend on other topologies.
    """
    errors = explain_keys(topology, _RULES, ("name",), "topology")
    config = topology.get("config", {})
    forms = [form for form in TopologyForm if form in topology]
    if len(forms) != 1:
        errors.append(
            TopologyError(
                ErrorKind.KEY_NOT_ALLOWED if forms else ErrorKind.MISSING_KEY,
                "topology",
                "both transformations and stream_graph"
                if forms
                else "neither transformations nor stream_graph",
                "one of transformations, stream_graph",
                "",
            )
        )
    if TopologyForm.TRANSFORMATIONS in topology:
        errors += transformation_errors(topology["transformations"])
    if TopologyForm.STREAM_GRAPH in topology:
        errors += _validate_stream_graph(topology["stream_graph"])
        if not errors:
            errors += check_stream_graph_checkpointing(topology["stream_graph"], config)
        if "chaining" in topology:
            errors.append(
                TopologyError(
                    ErrorKind.KEY_NOT_ALLOWED,
                    "topology",
                    "key chaining together with stream_graph",
                    "name, stream_graph, parallelism, max_parallelism, config",
                    "in a stream graph, set chaining_enabled",
                )
            )
    if errors and type(config) is dict:
        errors += setting_errors({k: v for k, v in config.items() if type(v) is str})
    return errors
