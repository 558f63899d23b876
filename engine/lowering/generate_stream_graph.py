"""Transformations become the StreamGraph that PyFlink submits, as a topology file holds it.

Source: org.apache.flink.streaming.api.graph.{StreamGraphGenerator,StreamGraph,StreamEdge}, the translators of
org.apache.flink.streaming.runtime.translators, and BatchExecutionUtils.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.engine.runtime.errors import JobCompileError
from penstock.engine.runtime.lowered_transformation import GeneratedGraph, InputEdge, LoweredTransformation
from penstock.plans.stream_graph.choose_partitioners import (
    ALIGNED,
    CLASSES,
    KEYED,
    POINTWISE,
    UNSPECIFIED_FORWARD,
)
from penstock.plans.stream_graph.inherit_slot_sharing_groups import DEFAULT_SLOT_SHARING_GROUP
from penstock.plans.stream_graph.refuse_stream_graphs import FORWARD_CHANGES_PARALLELISM, MISSING_UID
from penstock.plans.vocabulary import JobType, Partitioner, StreamExchangeMode

_INVOKABLES = {
    "source": "SourceOperatorStreamTask",
    "legacy_source": "SourceStreamTask",
    "two_input": "TwoInputStreamTask",
    "multi_input": "MultipleInputStreamTask",
}
_PREFIXES = {"source": "Source: ", "legacy_source": "Source: ", "sink": "Sink: "}


@dataclass(frozen=True)
class _Upstream:
    """A node as its reader sees it, through what lies between them."""

    node: int
    partition: LoweredTransformation | None = None  #: the one nearest to the reader
    exchange_mode: str = str(StreamExchangeMode.UNDEFINED)
    side_output: LoweredTransformation | None = None  #: the one nearest to the reader


class StreamGraphGenerator:
    """Translates transformations to nodes and edges, in Flink's order.

    `name` and `parallelism` are the job's; `settings` are what
    plans.topology.job_settings.read_job_settings reads of it. `next_id` is the next id of Flink's counter,
    because sinks of the Sink V2 API become operators with ids of their own. JobCompileError where Flink
    refuses the graph.
    """

    def __init__(self, name: str, settings: Mapping[str, Any], *, parallelism: int, next_id: int) -> None:
        self._name = name
        self._settings, self._parallelism, self._next_id = settings, parallelism, next_id
        self._batch = settings["job_type"] == JobType.BATCH
        self._ends: dict[int, list[_Upstream]] = {}
        self._nodes: dict[int, dict[str, Any]] = {}
        self._edges: list[dict[str, Any]] = []
        self._between: Counter[tuple[int, int]] = Counter()
        self._partitioners: dict[str, tuple[object, ...]] = {}
        self._inputs: dict[str, InputEdge] = {}
        self._physical: dict[int, LoweredTransformation] = {}

    def generate(self, transformations: Sequence[LoweredTransformation]) -> GeneratedGraph:
        """The `stream_graph` (docs/topology-files.md) of PyFlink's list of transformations."""
        for root in transformations:
            waiting = [(root, False)]
            while waiting:
                one, inputs_are_done = waiting.pop()
                if one.id in self._ends:
                    continue
                if inputs_are_done:
                    self._ends[one.id] = self._translate(one)
                else:
                    waiting.append((one, True))
                    waiting += [(given, False) for given in reversed(one.inputs)]
        self._refuse_unaligned_checkpoints()
        settings = self._settings
        copied = (
            "job_type",
            "dynamic",
            "global_exchange_mode",
            "chaining_enabled",
            "chain_different_max_parallelism",
            "all_vertices_in_same_slot_sharing_group",
            "vertex_description_mode",
            "vertex_name_include_index_prefix",
        )
        graph = {
            "sources": [node for node, one in self._physical.items() if not one.inputs],
            "sinks": [node for node, one in self._physical.items() if one.kind == "sink"],
            **{key: settings[key] for key in copied},
            "checkpointing": settings["checkpointing_interval_milliseconds"] > 0,
            "partitioners_compared": True,
            "nodes": list(self._nodes.values()),
            "edges": self._edges,
        }
        self._name_equal_partitioners()
        return GeneratedGraph(graph, self._physical, self._inputs, self._next_id)

    def _translate(self, one: LoweredTransformation) -> list[_Upstream]:
        given = [upstream for other in one.inputs for upstream in self._ends[other.id]]
        if one.kind == "union":
            return given
        if one.kind == "cache":
            if self._batch:
                self._add_cache(one)
            return given
        if one.kind == "partition":
            self._next_id += len(given)  # Flink makes a virtual node for each
            mode = one.exchange_mode if self._batch else str(StreamExchangeMode.UNDEFINED)
            return [replace(upstream, partition=one, exchange_mode=mode) for upstream in given]
        if one.kind == "side_output":
            self._next_id += len(given)
            return [replace(upstream, side_output=one) for upstream in given]
        if one.commits is not None:
            return self._expand_sink(one)
        self._add_operator(one)
        return [] if one.kind == "sink" else [_Upstream(one.id)]

    def _expand_sink(self, one: LoweredTransformation) -> list[_Upstream]:
        """SinkTransformationTranslator.SinkExpander: a writer, and perhaps after it a committer."""
        first = self._next_id
        writer = replace(
            one,
            id=first,
            kind="one_input",
            name=f"{one.name}: Writer",
            commits=None,
            operator_factory="SinkWriterOperatorFactory",
            yielding=True,
        )
        self._next_id += 4 if one.commits else 1  # writer, partition, committer, virtual partition
        self._add_operator(writer)
        if one.commits:
            mode = str(StreamExchangeMode.BATCH if self._batch else StreamExchangeMode.UNDEFINED)
            apart = LoweredTransformation(
                id=first + 1,
                kind="partition",
                name="Partition",
                parallelism=writer.parallelism,
                partitioner="forward",
                exchange_mode=mode,
            )
            committer = replace(
                writer,
                id=first + 2,
                name=f"{one.name}: Committer",
                uid=None if one.uid is None else f"Sink Committer: {one.uid}",
                inputs=[apart],
                keyed_inputs=(),
                slot_scope=set(),
                steps=(),
                operator_factory="CommitterOperatorFactory",
                yielding=False,
                supports_concurrent_execution_attempts=False,
            )
            self._ends[apart.id] = [_Upstream(writer.id, apart, mode)]
            self._add_operator(committer)
        return []

    def _add_cache(self, one: LoweredTransformation) -> None:
        """CacheTransformationTranslator: an operator that keeps what its input puts out."""
        (given,) = one.inputs
        cached = given.inputs[0] if given.kind == "side_output" else given
        self._next_id += given.kind == "side_output"
        writer = replace(
            one,
            kind="one_input",
            name="CacheWrite",
            parallelism=cached.parallelism,
            parallelism_configured=cached.parallelism_configured,
            max_parallelism=cached.max_parallelism,
            chaining="HEAD",
            operator_factory="SimpleOperatorFactory",
        )
        self._add_operator(writer)

    def _add_operator(self, one: LoweredTransformation) -> None:
        settings = self._settings
        inputs = [self._ends[given.id] for given in one.inputs]
        sorts = self._batch and any(one.keyed_inputs)
        chaining = one.chaining
        if sorts and chaining in ("ALWAYS", "HEAD_WITH_SOURCES"):
            chaining = "HEAD"
        if not settings["auto_generate_uids"] and one.uid is None and one.uid_hash is None:
            raise self._refused("IllegalStateException", MISSING_UID + one.name)
        sorts = sorts and settings["sort_inputs"]
        memory = {"OPERATOR": settings["sorted_inputs_memory_mebibytes"]} if sorts else {}
        node = {
            "id": one.id,
            "name": _PREFIXES.get(one.kind, "") + one.name,
            "parallelism": self._parallelism if one.parallelism == -1 else one.parallelism,
            "max_parallelism": settings["max_parallelism"]
            if one.max_parallelism <= 0
            else one.max_parallelism,
            "parallelism_configured": one.parallelism_configured and one.parallelism != -1,
            "slot_sharing_group": one.slot_sharing_group or self._inherited_group(inputs),
            "co_location_group": one.co_location_group,
            "uid": one.uid,
            "uid_hash": one.uid_hash,
            "buffer_timeout": one.buffer_timeout if one.buffer_timeout >= 0 else settings["buffer_timeout"],
            "chaining": chaining,
            "source": one.kind == "source",
            "legacy_source": one.kind == "legacy_source",
            "yielding": one.yielding,
            "coordinated": one.coordinated,
            "invokable": _INVOKABLES.get(one.kind, "OneInputStreamTask"),
            "operator_factory": one.operator_factory,
            "input_format": one.input_format,
            "output_format": False,
            "no_output_until_end_of_input": False,
            "output_only_after_end_of_stream": False,
            "supports_concurrent_execution_attempts": one.supports_concurrent_execution_attempts,
            "managed_memory": {**memory, **one.managed_memory},
            "slot_scope": sorted(one.slot_scope),
            "input_requirements": {
                str(place): "SORTED" if keyed else "PASS_THROUGH"
                for place, keyed in enumerate(one.keyed_inputs if sorts else ())
            },
            "in_edges": [],
            "out_edges": [],
        }
        for key in ("min_resources", "preferred_resources"):
            if getattr(one, key) is not None:
                node[key] = getattr(one, key)
        if one.description is not None:
            node["description"] = one.description
        self._nodes[one.id], self._physical[one.id] = node, one
        for number, upstreams in enumerate(inputs, 1):
            for upstream in upstreams:
                self._add_edge(upstream, node, number if len(inputs) > 1 else 0)

    def _inherited_group(self, inputs: Sequence[Sequence[_Upstream]]) -> str:
        groups = {
            self._nodes[upstream.node]["slot_sharing_group"] for upstreams in inputs for upstream in upstreams
        }
        return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP

    def _add_edge(self, upstream: _Upstream, target: dict[str, Any], type_number: int) -> None:
        source = self._nodes[upstream.node]
        same = source["parallelism"] == target["parallelism"]
        unspecified = upstream.partition is None or upstream.partition.partitioner is None
        if unspecified:
            partitioner = Partitioner.FORWARD if same else Partitioner.REBALANCE
        else:
            assert upstream.partition is not None
            partitioner = Partitioner(str(upstream.partition.partitioner))
        if partitioner == Partitioner.FORWARD and not same:
            texts = iter(FORWARD_CHANGES_PARALLELISM)
            message = "".join(
                f"{next(texts)}{node['name']}-{node['id']}{next(texts)}{node['parallelism']}"
                for node in (source, target)
            ) + next(texts)
            raise self._refused("UnsupportedOperationException", message)
        forward_class = unspecified and partitioner == Partitioner.FORWARD and self._settings["dynamic"]
        pointwise = partitioner in POINTWISE
        ends = (source["id"], target["id"])
        unique = self._between[ends]
        self._between[ends] += 1
        name = partitioner.upper()
        correlated = partitioner == Partitioner.FORWARD and not forward_class
        spread = not pointwise and partitioner != Partitioner.REBALANCE
        edge = {
            "edge_id": f"{source['name']}-{ends[0]}_{target['name']}-{ends[1]}_{type_number}_{name}_{unique}",
            "source": ends[0],
            "target": ends[1],
            "type_number": type_number,
            "partitioner": name,
            "partitioner_class": UNSPECIFIED_FORWARD if forward_class else CLASSES[partitioner],
            "pointwise": pointwise,
            "broadcast": partitioner == Partitioner.BROADCAST,
            "exchange_mode": upstream.exchange_mode,
            "output_tag": None if upstream.side_output is None else upstream.side_output.tag,
            "buffer_timeout": source["buffer_timeout"],
            "unaligned_checkpoints": partitioner not in ALIGNED,
            "inter_inputs_keys_correlated": spread,
            "intra_input_key_correlated": correlated or spread,
            "chainable": False,
        }
        self._edges.append(edge)
        self._inputs[str(edge["edge_id"])] = InputEdge(
            upstream.partition, upstream.side_output, max(1, type_number)
        )
        key = upstream.partition.id if upstream.partition is not None and partitioner in KEYED else None
        self._partitioners[str(edge["edge_id"])] = (edge["partitioner_class"], key)
        source["out_edges"].append(edge["edge_id"])
        target["in_edges"].append(edge["edge_id"])

    def _refused(self, error: str, message: str) -> JobCompileError:
        return JobCompileError(f"job {self._name!r} cannot be planned ({error}): {message}")

    def _refuse_unaligned_checkpoints(self) -> None:
        """Edges into a node with one that refuses unaligned checkpoints refuse them, too."""
        aligned = {edge["target"] for edge in self._edges if not edge["unaligned_checkpoints"]}
        for edge in self._edges:
            edge["unaligned_checkpoints"] = edge["target"] not in aligned

    def _name_equal_partitioners(self) -> None:
        """Each edge names the first one out of its node whose partitioner is equal to its own."""
        by_id = {edge["edge_id"]: edge for edge in self._edges}
        for node in self._nodes.values():
            firsts: dict[tuple[object, ...], str] = {}
            for edge_id in node["out_edges"]:
                first = firsts.setdefault(self._partitioners[edge_id], edge_id)
                if first != edge_id:
                    by_id[edge_id]["equal_partitioner"] = first
