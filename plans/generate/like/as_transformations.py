"""A stream graph as the transformations that Flink would translate into one like it."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.vocabulary import (
    CONSECUTIVE_HASH_CLASS,
    PARTITIONER_CLASSES,
    UNSPECIFIED_FORWARD_CLASS,
    ChainingStrategy,
    JobType,
    Kind,
    ManagedMemoryUseCase,
    Partitioner,
    StreamExchangeMode,
)

Json = dict[str, Any]

_PARTITIONERS = {partitioner.upper(): partitioner for partitioner in Partitioner}
_KEPT_OF_NODES = ("uid", "uid_hash", "co_location_group")
_RESOURCES = ("min_resources", "preferred_resources")
_FORWARD_CLASS = PARTITIONER_CLASSES[Partitioner.FORWARD]
_DEFAULT_GROUP = "default"


def as_transformations(topology: Mapping[str, Any]) -> Json | None:
    """The topology of transformations closest to one with a valid `stream_graph`; None if there is none.

    Kinds, inputs, partitioners, exchange modes, parallelism, groups, uids, memory and options are kept;
    descriptions, classes, buffer timeouts and caching are not. User-defined partitioners become `custom`. A
    graph of sources only gives None. Planning shows whether Flink accepts the result.
    """
    graph = topology["stream_graph"]
    written = _Written(topology)
    for node in _in_order(graph):
        written.add(node)
    if not any(row["kind"] not in _SOURCES and "name" in row for row in written.rows):
        return None
    config = {key: value for key, value in topology.get("config", {}).items() if key not in _OF_THE_RUN}
    config = {key: value for key, value in config.items() if not key.startswith("penstock.")}
    kept = {key: topology[key] for key in ("parallelism", "max_parallelism") if key in topology}
    return {
        "name": topology["name"],
        **kept,
        **({} if graph["chaining_enabled"] else {"chaining": False}),
        "config": {**config, "execution.runtime-mode": str(graph["job_type"])},
        "transformations": written.rows,
    }


_SOURCES = (Kind.SOURCE, Kind.LEGACY_SOURCE)
_OF_THE_RUN = ("pipeline.name", "execution.state-recovery.path")
"""Options that belong to the one job."""


def _in_order(graph: Mapping[str, Any]) -> list[Json]:
    """Nodes after what they read, otherwise by id."""
    nodes = {node["id"]: node for node in graph["nodes"]}
    sorter: TopologicalSorter[int] = TopologicalSorter({key: [] for key in sorted(nodes)})
    for edge in graph["edges"]:
        sorter.add(edge["target"], edge["source"])
    sorter.prepare()
    ordered_nodes = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        ordered_nodes += [nodes[key] for key in ready]
        sorter.done(*ready)
    return ordered_nodes


class _Written:
    """The transformations so far, as the operators of one graph are added in order."""

    def __init__(self, topology: Mapping[str, Any]) -> None:
        graph = topology["stream_graph"]
        self.rows: list[Json] = []
        self._batch = graph["job_type"] == JobType.BATCH
        self._parallelism = topology.get("parallelism", 1)
        self._nodes = {node["id"]: node for node in graph["nodes"]}
        self._edges = {edge["edge_id"]: edge for edge in graph["edges"]}
        self._groups = {node["slot_sharing_group"] for node in graph["nodes"]} != {_DEFAULT_GROUP}
        self._ids: dict[int, int] = {}  #: of nodes
        self._partitions: dict[str, int] = {}  #: of edges

    def add(self, node: Mapping[str, Any]) -> None:
        edges = [self._edges[key] for key in node["in_edges"]]
        by_input = [
            [edge for edge in edges if edge["type_number"] == number]
            for number in sorted({edge["type_number"] for edge in edges})
        ]
        kind = self._kind(node, len(by_input), any(edge["type_number"] for edge in edges))
        keyed = kind in (Kind.ONE_INPUT, Kind.ASYNC) and bool(node.get("keyed"))
        inputs = [self._read(of_input, keyed, kind) for of_input in by_input]
        row = {"kind": str(kind), "name": node["name"].removeprefix(OPERATOR_KINDS[kind].name_prefix)}
        row |= {key: node[key] for key in _KEPT_OF_NODES if node.get(key) is not None}
        if all(key in node for key in _RESOURCES):
            row |= {key: node[key] for key in _RESOURCES}
        other = node["parallelism"] != self._parallelism
        if node["parallelism"] > 0 and (other or node["parallelism_configured"]):
            row["parallelism"] = node["parallelism"]
        if node["max_parallelism"] > 0:
            row["max_parallelism"] = node["max_parallelism"]
        if self._groups:
            row["slot_sharing_group"] = node["slot_sharing_group"]
        chaining = self._chaining(node, edges)
        if chaining != OPERATOR_KINDS[kind].chaining:
            row["chaining"] = chaining
        row |= self._memory(node, keyed and self._is_hash(by_input))
        self._ids[node["id"]] = self._append(row, inputs)

    def _kind(self, node: Mapping[str, Any], inputs: int, numbered: bool) -> Kind:
        if not inputs:
            # In topology files, legacy sources are unbounded, which BATCH jobs cannot have.
            return Kind.LEGACY_SOURCE if node["legacy_source"] and not self._batch else Kind.SOURCE
        if numbered:
            with_sources = node["chaining"] == OPERATOR_KINDS[Kind.MULTI_INPUT].chaining
            return Kind.MULTI_INPUT if with_sources or inputs != 2 else Kind.TWO_INPUT
        if node["yielding"]:
            return Kind.ASYNC
        is_sink = not node["out_edges"] and node["name"].startswith(OPERATOR_KINDS[Kind.SINK].name_prefix)
        return Kind.SINK if is_sink and not node.get("keyed") else Kind.ONE_INPUT

    def _chaining(self, node: Mapping[str, Any], edges: Sequence[Mapping[str, Any]]) -> str:
        """A yielding operator begins a chain instead of joining a legacy source; see _kind."""
        if self._batch and node["yielding"] and not any(edge["chainable"] for edge in edges):
            return str(ChainingStrategy.HEAD)
        return str(node["chaining"] or ChainingStrategy.NEVER)

    def _is_hash(self, by_input: Sequence[Sequence[Mapping[str, Any]]]) -> bool:
        """Whether Flink takes the operator as keyed by what it reads."""
        return all(self._partitioner(edge) == Partitioner.HASH for edge in by_input[0])

    def _memory(self, node: Mapping[str, Any], by_input: bool) -> Json:
        """The memory of an operator, without what an operator keyed `by_input` has by default."""
        scopes = list(node["slot_scope"])
        weights = node["managed_memory"]
        if by_input:
            scopes = [scope for scope in scopes if scope != ManagedMemoryUseCase.STATE_BACKEND]
            weights = {} if self._batch else weights
        return {
            **({"slot_scope": scopes} if scopes else {}),
            **({"managed_memory": weights} if weights else {}),
        }

    def _read(self, edges: Sequence[Mapping[str, Any]], keyed: bool, kind: Kind) -> int:
        """The transformation that an input reads: edges of one partitioner are united before it."""
        asked = {self._asked(edge) for edge in edges}
        if len(asked) == 1:
            (only,) = asked
            read = self._partition(edges, only)
        else:
            read = self._union([self._partition([edge], self._asked(edge)) for edge in edges])
        is_hash = self.rows[read - 1].get("partitioner") == Partitioner.HASH
        if is_hash and not keyed and kind in (Kind.ONE_INPUT, Kind.ASYNC):
            return self._append({"kind": str(Kind.UNION)}, [read])  # so that it is not taken as keyed
        return read

    def _partition(self, edges: Sequence[Mapping[str, Any]], asked: tuple[str, str] | None) -> int:
        shared = self._partitions.get(edges[0].get("equal_partitioner", ""))
        if shared is not None and len(edges) == 1:
            return shared
        read = self._union([self._side_output(edge) for edge in edges])
        if asked is None:
            return read
        partitioner, mode = asked
        row = {"kind": str(Kind.PARTITION), "partitioner": partitioner}
        if mode != StreamExchangeMode.UNDEFINED:
            row["exchange_mode"] = mode
        partition_id = self._append(row, [read])
        if len(edges) == 1:
            self._partitions[edges[0]["edge_id"]] = partition_id
        return partition_id

    def _asked(self, edge: Mapping[str, Any]) -> tuple[str, str] | None:
        """Partitioner and exchange mode; None for those of an edge without a partition."""
        partitioner, mode = self._partitioner(edge), str(edge["exchange_mode"])
        ends = (self._nodes[edge[end]]["parallelism"] for end in ("source", "target"))
        usual = Partitioner.FORWARD if len(set(ends)) == 1 else Partitioner.REBALANCE
        undefined, of_class = mode == StreamExchangeMode.UNDEFINED, edge["partitioner_class"]
        if of_class == CONSECUTIVE_HASH_CLASS and edge["chainable"]:
            partitioner, mode = Partitioner.FORWARD, str(StreamExchangeMode.UNDEFINED)
        elif of_class == CONSECUTIVE_HASH_CLASS:
            partitioner = Partitioner.HASH
        elif of_class == UNSPECIFIED_FORWARD_CLASS and undefined:
            return None
        elif of_class == UNSPECIFIED_FORWARD_CLASS:
            partitioner = Partitioner.RESCALE  # as Flink has it where nothing is chained
        elif undefined and partitioner == usual and not (self._batch and of_class == _FORWARD_CLASS):
            return None
        return str(partitioner), mode

    def _partitioner(self, edge: Mapping[str, Any]) -> Partitioner:
        return _PARTITIONERS.get(edge["partitioner"].partition("[")[0], Partitioner.CUSTOM)

    def _side_output(self, edge: Mapping[str, Any]) -> int:
        read = self._ids[edge["source"]]
        if edge["output_tag"] is None:
            return read
        return self._append({"kind": str(Kind.SIDE_OUTPUT), "tag": edge["output_tag"]}, [read])

    def _union(self, inputs: list[int]) -> int:
        return inputs[0] if len(inputs) == 1 else self._append({"kind": str(Kind.UNION)}, inputs)

    def _append(self, row: Json, inputs: list[int]) -> int:
        number = len(self.rows) + 1
        self.rows.append({"id": number, **row, **({"inputs": inputs} if inputs else {})})
        return number
