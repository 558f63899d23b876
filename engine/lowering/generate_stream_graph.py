"""Transformations become the StreamGraph that PyFlink submits, as a topology file holds it.

Source: org.apache.flink.streaming.api.graph.{StreamGraphGenerator,StreamGraph,StreamEdge}, the translators of
org.apache.flink.streaming.runtime.translators, and BatchExecutionUtils.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.engine.lowering.expand_sink import expand_sink
from penstock.engine.lowering.java_classes import CACHE_READ, CACHE_WRITE, java_classes
from penstock.engine.lowering.stream_edges import StreamEdges, Upstream, refused
from penstock.engine.runtime.lowered_transformation import GeneratedGraph, LoweredTransformation
from penstock.plans.errors import ILLEGAL_ARGUMENT, ILLEGAL_STATE
from penstock.plans.stream_graph.inherit_slot_sharing_groups import DEFAULT_SLOT_SHARING_GROUP
from penstock.plans.stream_graph.refuse_stream_graphs import MISSING_UID
from penstock.plans.topology.job_settings import SETTINGS_OF_GRAPHS
from penstock.plans.vocabulary import JobType, StreamExchangeMode

_INVOKABLES = {
    "source": "SourceOperatorStreamTask",
    "legacy_source": "SourceStreamTask",
    "two_input": "TwoInputStreamTask",
    "multi_input": "MultipleInputStreamTask",
}
TWO_RESOURCES = "The slot sharing group {group} has been configured with two different resource spec."
_PREFIXES = {"source": "Source: ", "legacy_source": "Source: ", "sink": "Sink: "}


class StreamGraphGenerator:
    """Translates transformations to nodes and edges, in Flink's order.

    `name` and `parallelism` are the job's; `settings` are what
    plans.topology.job_settings.read_job_settings reads of it. `next_id` is the next id of Flink's counter,
    because sinks of the Sink V2 API become operators with ids of their own. `slot_resources`: those of the
    environment's slot sharing groups. `runs_here`: filled caches are sources of what the driver keeps.
    JobCompileError where Flink refuses the graph.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, Any],
        *,
        parallelism: int,
        next_id: int,
        slot_resources: Mapping[str, tuple[Any, ...]],
        runs_here: bool,
    ) -> None:
        self._name, self._runs_here = name, runs_here
        self._settings, self._parallelism, self._next_id = settings, parallelism, next_id
        self._slot_resources = dict(slot_resources)
        self._batch = settings["job_type"] == JobType.BATCH
        self._ends: dict[int, list[Upstream]] = {}
        self._nodes: dict[int, dict[str, Any]] = {}
        self._edges = StreamEdges(name, dynamic=settings["dynamic"])
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
                    given = [] if one.filled else one.inputs
                    waiting += [(other, False) for other in reversed(given)]
        settings = self._settings
        graph = {
            "sources": [node for node, one in self._physical.items() if not one.inputs],
            "sinks": [node for node, one in self._physical.items() if one.kind == "sink"],
            **{key: settings[key] for key in SETTINGS_OF_GRAPHS},
            "checkpointing": settings["checkpointing_interval_milliseconds"] > 0,
            "partitioners_compared": True,
            **self._group_resources(),
            "nodes": list(self._nodes.values()),
            "edges": self._edges.complete(self._nodes.values()),
        }
        return GeneratedGraph(graph, self._physical, self._edges.inputs, self._next_id)

    def _translate(self, one: LoweredTransformation) -> list[Upstream]:
        if one.filled:
            return self._add_cache_read(one)
        given = [upstream for other in one.inputs for upstream in self._ends[other.id]]
        if one.kind == "union":
            return given
        if one.kind == "cache":
            if self._batch:
                self._add_cache_write(one)
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
        return [] if one.kind == "sink" else [Upstream(one.id)]

    def _expand_sink(self, one: LoweredTransformation) -> list[Upstream]:
        """A sink of the Sink V2 API: a writer, and perhaps operators after it that commit."""
        expanded = expand_sink(
            self._name, one, self._next_id, batch=self._batch, compacts=not self._runs_here
        )
        for operator, upstream in expanded.operators:
            if upstream is not None:
                self._ends[operator.inputs[0].id] = [upstream]
            self._add_operator(operator)
        self._next_id += expanded.ids
        return []

    def _add_cache_write(self, one: LoweredTransformation) -> None:
        """CacheTransformationTranslator: an operator that keeps what its input puts out."""
        (given,) = one.inputs
        cached = given.inputs[0] if given.kind == "side_output" else given
        self._next_id += given.kind == "side_output"
        self._add_operator(
            replace(
                one,
                kind="one_input",
                name=CACHE_WRITE,
                parallelism=cached.parallelism,
                parallelism_configured=cached.parallelism_configured,
                max_parallelism=cached.max_parallelism,
                chaining="HEAD",
            )
        )

    def _add_cache_read(self, one: LoweredTransformation) -> list[Upstream]:
        """CacheTransformationTranslator.consumeCache: an operator that reads what an earlier job has kept."""
        cached = one.cached or one
        self._add_operator(
            replace(
                one,
                kind="cache_read",
                name=CACHE_READ,
                inputs=[],
                parallelism=cached.parallelism,
                parallelism_configured=cached.parallelism_configured,
                max_parallelism=cached.max_parallelism,
            )
        )
        return [Upstream(one.id)]

    def _add_operator(self, one: LoweredTransformation) -> None:
        settings = self._settings
        inputs = [self._ends[given.id] for given in one.inputs]
        sorts = self._batch and any(one.keyed_inputs)
        chaining = one.chaining
        if sorts and chaining in ("ALWAYS", "HEAD_WITH_SOURCES"):
            chaining = "HEAD"
        if not settings["auto_generate_uids"] and one.uid is None and one.uid_hash is None:
            raise refused(self._name, ILLEGAL_STATE, MISSING_UID + one.name)
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
            "slot_sharing_group": self._inherited_group(inputs)
            if one.slot_sharing_group is None
            else one.slot_sharing_group,
            "co_location_group": one.co_location_group,
            "uid": one.uid,
            "uid_hash": one.uid_hash,
            "buffer_timeout": one.buffer_timeout if one.buffer_timeout >= 0 else settings["buffer_timeout"],
            "chaining": chaining,
            "source": one.kind == "source",
            "legacy_source": one.kind == "legacy_source" or (one.filled and self._runs_here),
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
            "keyed": any(one.keyed_inputs),
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
        classes = java_classes(one, batch=self._batch)
        for key, value in (("operator_class", classes.operator), ("function_class", classes.function)):
            if value is not None:
                node[key] = value
        if one.kind == "cache_read":
            node["consumes_data_set"] = one.cache
        self._nodes[one.id], self._physical[one.id] = node, one
        if one.slot_resources and one.slot_sharing_group is not None:
            known = self._slot_resources.get(one.slot_sharing_group) or one.slot_resources
            if known != one.slot_resources:
                message = TWO_RESOURCES.format(group=one.slot_sharing_group)
                raise refused(self._name, ILLEGAL_ARGUMENT, message)
            self._slot_resources[one.slot_sharing_group] = known
        for number, upstreams in enumerate(inputs, 1):
            for upstream in upstreams:
                source = self._nodes[upstream.node]
                self._edges.add(upstream, source, node, number if len(inputs) > 1 else 0, one.cache)

    def _group_resources(self) -> dict[str, Any]:
        """The resources of the slots of the nodes' groups; nothing where there are none."""
        groups = dict.fromkeys(node["slot_sharing_group"] for node in self._nodes.values())
        found = {}
        for group in groups:
            if self._slot_resources.get(group):
                cpu_cores, heap, off_heap, managed, external = self._slot_resources[group]
                found[group] = {
                    "cpu_cores": cpu_cores,
                    "task_heap_memory_bytes": heap.get_bytes(),
                    "task_off_heap_memory_bytes": off_heap.get_bytes(),
                    "managed_memory_bytes": managed.get_bytes(),
                }
                if external:
                    found[group]["external_resources"] = dict(external)
        return {"slot_sharing_group_resources": found} if found else {}

    def _inherited_group(self, inputs: Sequence[Sequence[Upstream]]) -> str:
        groups = {
            self._nodes[upstream.node]["slot_sharing_group"] for upstreams in inputs for upstream in upstreams
        }
        return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP
