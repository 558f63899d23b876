"""Translate transformations to the StreamGraph that PyFlink submits, in the form of a topology file.

Source: org.apache.flink.streaming.api.graph.{StreamGraphGenerator,StreamGraph,StreamEdge}, the translators of
org.apache.flink.streaming.runtime.translators, and BatchExecutionUtils.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from penstock.engine.run.runtime.errors import JobCompileError
from penstock.engine.run.runtime.transformations import (
    Call,
    Compaction,
    GeneratedGraph,
    InputEdge,
    LoweredTransformation,
    PythonOperator,
)
from penstock.operators.connectors.file_sink import StreamingFileSink
from penstock.plans.errors import ILLEGAL_ARGUMENT, ILLEGAL_STATE
from penstock.plans.stream_graph.choose_partitioners import (
    ALIGNED,
    CLASSES,
    DEFAULT_SLOT_SHARING_GROUP,
    KEYED,
    POINTWISE,
    UNSPECIFIED_FORWARD,
)
from penstock.plans.stream_graph.columnar.refuse_stream_graphs import (
    FORWARD_CHANGES_PARALLELISM,
    MISSING_UID,
    STEP_HAS_UID,
)
from penstock.plans.topology.job_settings import SETTINGS_OF_GRAPHS
from penstock.plans.vocabulary import JobType, Partitioner, StreamExchangeMode

# Edges of a StreamGraph, in the form of a topology file.
#
# Source: org.apache.flink.streaming.api.graph.{StreamGraph,StreamEdge,StreamGraphGenerator}.


@dataclass(frozen=True)
class Upstream:
    """A node, with the virtual transformations between it and its reader."""

    node: int
    partition: LoweredTransformation | None = None  #: the partition nearest to the reader
    exchange_mode: str = str(StreamExchangeMode.UNDEFINED)
    side_output: LoweredTransformation | None = None  #: the side output nearest to the reader


class StreamEdges:
    """The edges of one graph, in the order in which Flink adds them."""

    def __init__(self, job: str, *, dynamic: bool) -> None:
        self._job, self._dynamic = job, dynamic
        self.rows: list[dict[str, Any]] = []
        self.inputs: dict[str, InputEdge] = {}  #: by edge_id
        self._between: Counter[tuple[int, int]] = Counter()
        self._partitioners: dict[str, tuple[object, ...]] = {}

    def add(
        self,
        upstream: Upstream,
        source: dict[str, Any],
        target: dict[str, Any],
        type_number: int,
        persistent_data_set: str | None = None,
    ) -> None:
        """Add an edge between two nodes, and to their lists of edges.

        `type_number`: the input of the target, from 1; 0 if it has one input. Raises JobCompileError if Flink
        refuses the partitioner.
        """
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
            raise refused(self._job, "UnsupportedOperationException", message)
        forward_class = unspecified and partitioner == Partitioner.FORWARD and self._dynamic
        pointwise = partitioner in POINTWISE
        ends = (source["id"], target["id"])
        unique = self._between[ends]
        self._between[ends] += 1
        name = partitioner.upper()
        correlated = partitioner == Partitioner.FORWARD and not forward_class
        spread = not pointwise and partitioner != Partitioner.REBALANCE
        edge_id = f"{source['name']}-{ends[0]}_{target['name']}-{ends[1]}_{type_number}_{name}_{unique}"
        edge = {
            "edge_id": edge_id,
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
            "unaligned_checkpoints": partitioner not in ALIGNED
            and not (upstream.partition is not None and upstream.partition.aligned),
            "inter_inputs_keys_correlated": spread,
            "intra_input_key_correlated": correlated or spread,
            "chainable": False,
        }
        if persistent_data_set is not None:
            edge["persistent_data_set"] = persistent_data_set
        self.rows.append(edge)
        self.inputs[edge_id] = InputEdge(upstream.partition, upstream.side_output, max(1, type_number))
        key = upstream.partition.id if upstream.partition is not None and partitioner in KEYED else None
        self._partitioners[edge_id] = (edge["partitioner_class"], key)
        source["out_edges"].append(edge_id)
        target["in_edges"].append(edge_id)

    def complete(self, nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Set the columns of edges that depend on other edges, and return all edges; call it last."""
        aligned = {edge["target"] for edge in self.rows if not edge["unaligned_checkpoints"]}
        for edge in self.rows:  # an edge that refuses unaligned checkpoints does so for all into its target
            edge["unaligned_checkpoints"] = edge["target"] not in aligned
        by_id = {edge["edge_id"]: edge for edge in self.rows}
        for node in nodes:
            firsts: dict[tuple[object, ...], str] = {}
            for edge_id in node["out_edges"]:
                first = firsts.setdefault(self._partitioners[edge_id], edge_id)
                if first != edge_id:
                    by_id[edge_id]["equal_partitioner"] = first
        return self.rows


def refused(job: str, error: str, message: str) -> JobCompileError:
    """Return the exception for Flink's `error` with `message`."""
    return JobCompileError(f"job {job!r} cannot be planned ({error}): {message}")


# A sink of the Sink V2 API becomes several operators: a writer, then compactors and a committer.
#
# Source: org.apache.flink.streaming.runtime.translators.SinkTransformationTranslator.SinkExpander,
# org.apache.flink.connector.file.sink.FileSink.addPreCommitTopology.


class ExpandedSink(NamedTuple):
    """Operators, each with its input (None for the writer), and the number of Flink's ids that they take."""

    operators: list[tuple[LoweredTransformation, Upstream | None]]
    ids: int


def expand_sink(
    job: str, sink: LoweredTransformation, first: int, *, batch: bool, compacts: bool
) -> ExpandedSink:
    """Return the operators of `sink`, with ids from `first`.

    `compacts`: whether to include the operators that compact files, if the sink has any. Raises
    JobCompileError if Flink requires a uid that is not set.
    """
    if sink.compaction is not None and sink.uid is None:
        raise refused(job, ILLEGAL_STATE, sink.name.join(STEP_HAS_UID))
    writer = replace(
        sink,
        id=first,
        kind="one_input",
        name=f"{sink.name}: Writer",
        description=None,  # Flink drops a sink's description
        commits=None,
        operator_factory="SinkWriterOperatorFactory",
        yielding=True,
    )
    if not sink.commits:
        return ExpandedSink([(writer, None)], 1)
    mode = str(StreamExchangeMode.BATCH if batch else StreamExchangeMode.UNDEFINED)
    operators: list[tuple[LoweredTransformation, Upstream | None]] = [(writer, None)]

    def add(
        id: int, name: str, uid: str, factory: str, partition: LoweredTransformation | None, **own: Any
    ) -> None:
        before = operators[-1][0]
        upstream = before if partition is None else partition
        operator = replace(
            writer,
            id=id,
            name=f"{sink.name}: {name}",
            uid=None if sink.uid is None else uid.format(uid=sink.uid),
            inputs=[upstream],
            keyed_inputs=(),
            slot_scope=set(),
            steps=(),
            operator_factory=factory,
            yielding=False,
            supports_concurrent_execution_attempts=False,
            **own,
        )
        exchange_mode = StreamExchangeMode.UNDEFINED if partition is None else partition.exchange_mode
        operators.append((operator, Upstream(before.id, partition, str(exchange_mode))))

    def partition(id: int, partitioner: str, **own: Any) -> LoweredTransformation:
        return LoweredTransformation(
            id=id,
            kind="partition",
            name="Partition",
            parallelism=writer.parallelism,
            partitioner=partitioner,
            **own,
        )

    def commit(id: int, partition: LoweredTransformation | None) -> None:
        add(id, "Committer", "Sink Committer: {uid}", "CommitterOperatorFactory", partition)

    coordinator, compactor = "{uid}: FileSinkCompactorCoordinator", "{uid}: FileSinkCompactorOperator"
    ids = {None: 4, Compaction.ENABLED: 8, Compaction.DISABLED: 10}[sink.compaction]
    if sink.compaction is None or not compacts:
        commit(first + 2, partition(first + 1, "forward", exchange_mode=mode))
    elif sink.compaction is Compaction.ENABLED:
        rebalance = partition(first + 2, "rebalance", exchange_mode=mode, aligned=True)
        single = {"parallelism": 1, "parallelism_configured": True}
        add(first + 3, "CompactorCoordinator", coordinator, "CompactCoordinatorFactory", rebalance, **single)
        writers = {"parallelism": sink.parallelism, "parallelism_configured": False}
        add(first + 4, "CompactorOperator", compactor, "CompactorOperatorFactory", None, **writers)
        commit(first + 5, None)
    else:  # nothing is compacted, but files that an earlier run of the job left to compact are committed
        unset = {"parallelism_configured": False}
        forward = partition(first + 2, "forward", exchange_mode=mode)
        name, factory = "CompactorCoordinatorPlaceHolder", "CompactCoordinatorStateHandlerFactory"
        add(first + 3, name, coordinator, factory, forward, **unset)
        name, factory = "CompactorOperatorPlaceHolder", "CompactorOperatorStateHandlerFactory"
        add(first + 5, name, compactor, factory, partition(first + 4, "forward"), **unset)
        commit(first + 6, None)
    return ExpandedSink(operators, ids)


# The Java classes that run a transformation, if PyFlink's API alone decides them.
#
# Source: the operators of org.apache.flink.streaming.api.operators.python, the translators of
# org.apache.flink.streaming.runtime.translators.{PythonBroadcastStateTransformationTranslator,
# PythonKeyedBroadcastStateTransformationTranslator,CacheTransformationTranslator}.


_OPERATORS = "org.apache.flink.streaming.api.operators."
_FUNCTIONS = "org.apache.flink.streaming.api.functions."
_RUNTIME = "org.apache.flink.streaming.runtime."
_COMPACTOR = "org.apache.flink.connector.file.sink.compactor.operator."
_STREAMING_FILE_SINK = f"{_FUNCTIONS}sink.filesystem.legacy.StreamingFileSink"
_CACHES = f"{_RUNTIME}translators.CacheTransformationTranslator$"
CACHE_WRITE, CACHE_READ = "CacheWrite", "CacheRead"


class JavaClasses(NamedTuple):
    """Binary names of an operator's class and its function's class; None if it has none or it is unknown."""

    operator: str | None = None
    function: str | None = None


_BY_FACTORY = {
    "CollectSinkOperatorFactory": JavaClasses(
        f"{_OPERATORS}collect.CollectSinkOperator", f"{_OPERATORS}collect.CollectSinkFunction"
    ),
    "CommitterOperatorFactory": JavaClasses(f"{_RUNTIME}operators.sink.CommitterOperator"),
    "SimpleInputFormatOperatorFactory": JavaClasses(
        f"{_OPERATORS}StreamSource", f"{_FUNCTIONS}source.legacy.InputFormatSourceFunction"
    ),
    "CompactCoordinatorFactory": JavaClasses(f"{_COMPACTOR}CompactCoordinator"),
    "CompactCoordinatorStateHandlerFactory": JavaClasses(f"{_COMPACTOR}CompactCoordinator"),
    "CompactorOperatorStateHandlerFactory": JavaClasses(f"{_COMPACTOR}CompactorOperator"),
    "CompactorOperatorFactory": JavaClasses(f"{_COMPACTOR}CompactorOperator"),
    "SinkWriterOperatorFactory": JavaClasses(f"{_RUNTIME}operators.sink.SinkWriterOperator"),
    "SourceOperatorFactory": JavaClasses(f"{_OPERATORS}SourceOperator"),
    "TimestampsAndWatermarksOperatorFactory": JavaClasses(
        f"{_RUNTIME}operators.TimestampsAndWatermarksOperator"
    ),
}
_BY_CALL = {
    Call.ADD_SINK: JavaClasses(f"{_OPERATORS}StreamSink"),
    Call.LEGACY_SOURCE: JavaClasses(f"{_OPERATORS}StreamSource"),
    Call.PRINT: JavaClasses(f"{_OPERATORS}StreamSink", f"{_FUNCTIONS}sink.legacy.PrintSinkFunction"),
    Call.PROJECT: JavaClasses(f"{_OPERATORS}StreamProject"),
    Call.TIMESTAMPS: JavaClasses(
        f"{_OPERATORS}StreamMap", f"{_FUNCTIONS}python.eventtime.RemoveTimestampMapFunction"
    ),
}
_CACHE_OPERATORS = {
    CACHE_WRITE: JavaClasses(f"{_CACHES}NoOpStreamOperator"),
    CACHE_READ: JavaClasses(f"{_CACHES}IdentityStreamOperator"),
}
_PYTHON_OPERATORS = {
    PythonOperator.PROCESS: "PythonProcessOperator",
    PythonOperator.KEYED_PROCESS: "PythonKeyedProcessOperator",
    PythonOperator.WINDOW: "PythonWindowOperator",
    PythonOperator.CO_PROCESS: "PythonCoProcessOperator",
    PythonOperator.KEYED_CO_PROCESS: "PythonKeyedCoProcessOperator",
}


def _java_classes(operator: LoweredTransformation, *, batch: bool) -> JavaClasses:
    """Return the Java classes of a physical transformation."""
    if operator.python is not None:
        place = "embedded.Embedded" if operator.thread_mode else "process.External"
        keyed = any(operator.keyed_inputs)
        if operator.python == PythonOperator.BROADCAST:
            in_batch = "PythonBatchKeyedCoBroadcastProcessOperator", "PythonBatchCoBroadcastProcessOperator"
            in_streaming = "PythonKeyedCoProcessOperator", "PythonCoProcessOperator"
            name = (in_batch if batch else in_streaming)[0 if keyed else 1]
        else:
            name = _PYTHON_OPERATORS[operator.python]
        return JavaClasses(f"{_OPERATORS}python.{place}{name}")
    if operator.cache is not None:
        return _CACHE_OPERATORS[operator.name]
    if operator.operator_factory in _BY_FACTORY:
        return _BY_FACTORY[operator.operator_factory]
    call = operator.steps[-1].call if operator.steps else None
    if call is not None and isinstance(call.operator, StreamingFileSink):
        return JavaClasses(f"{_OPERATORS}StreamSink", _STREAMING_FILE_SINK)
    return JavaClasses() if call is None else _BY_CALL.get(call.call, JavaClasses())


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

    `name` and `parallelism` are the job's; `settings` are the result of
    plans.topology.job_settings.read_job_settings. `next_id` is the next id of Flink's counter, which the
    operators of Sink V2 sinks take. `slot_resources`: resources of the environment's slot sharing groups.
    `runs_here`: filled caches become sources of the records that the driver holds. Raises JobCompileError if
    Flink refuses the graph.
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
        """Return the `stream_graph` (docs/topology-files.md) of PyFlink's list of transformations."""
        for root in transformations:
            waiting = [(root, False)]
            while waiting:
                transformation, inputs_are_done = waiting.pop()
                if transformation.id in self._ends:
                    continue
                if inputs_are_done:
                    self._ends[transformation.id] = self._translate(transformation)
                else:
                    waiting.append((transformation, True))
                    inputs_to_do = [] if transformation.filled else transformation.inputs
                    waiting += [(other, False) for other in reversed(inputs_to_do)]
        settings = self._settings
        graph = {
            "sources": [node for node, operator in self._physical.items() if not operator.inputs],
            "sinks": [node for node, operator in self._physical.items() if operator.kind == "sink"],
            **{key: settings[key] for key in SETTINGS_OF_GRAPHS},
            "checkpointing": settings["checkpointing_interval_milliseconds"] > 0,
            "partitioners_compared": True,
            **self._group_resources(),
            "nodes": list(self._nodes.values()),
            "edges": self._edges.complete(self._nodes.values()),
        }
        return GeneratedGraph(graph, self._physical, self._edges.inputs, self._next_id)

    def _translate(self, transformation: LoweredTransformation) -> list[Upstream]:
        if transformation.filled:
            return self._add_cache_read(transformation)
        upstreams = [upstream for other in transformation.inputs for upstream in self._ends[other.id]]
        if transformation.kind == "union":
            return upstreams
        if transformation.kind == "cache":
            if self._batch:
                self._add_cache_write(transformation)
            return upstreams
        if transformation.kind == "partition":
            self._next_id += len(upstreams)  # Flink makes a virtual node for each
            mode = transformation.exchange_mode if self._batch else str(StreamExchangeMode.UNDEFINED)
            return [replace(upstream, partition=transformation, exchange_mode=mode) for upstream in upstreams]
        if transformation.kind == "side_output":
            self._next_id += len(upstreams)
            return [replace(upstream, side_output=transformation) for upstream in upstreams]
        if transformation.commits is not None:
            return self._expand_sink(transformation)
        self._add_operator(transformation)
        return [] if transformation.kind == "sink" else [Upstream(transformation.id)]

    def _expand_sink(self, sink: LoweredTransformation) -> list[Upstream]:
        """Add a sink of the Sink V2 API: a writer, and any operators after it that compact and commit."""
        expanded = expand_sink(
            self._name, sink, self._next_id, batch=self._batch, compacts=not self._runs_here
        )
        for operator, upstream in expanded.operators:
            if upstream is not None:
                self._ends[operator.inputs[0].id] = [upstream]
            self._add_operator(operator)
        self._next_id += expanded.ids
        return []

    def _add_cache_write(self, cache: LoweredTransformation) -> None:
        """Add the operator that stores the output of its input. Source: CacheTransformationTranslator."""
        (read,) = cache.inputs
        cached = read.inputs[0] if read.kind == "side_output" else read
        self._next_id += read.kind == "side_output"
        self._add_operator(
            replace(
                cache,
                kind="one_input",
                name=CACHE_WRITE,
                parallelism=cached.parallelism,
                parallelism_configured=cached.parallelism_configured,
                max_parallelism=cached.max_parallelism,
                chaining="HEAD",
            )
        )

    def _add_cache_read(self, cache: LoweredTransformation) -> list[Upstream]:
        """Add the operator that reads the records that an earlier job has stored.

        Source: CacheTransformationTranslator.consumeCache.
        """
        cached = cache.cached or cache
        self._add_operator(
            replace(
                cache,
                kind="cache_read",
                name=CACHE_READ,
                inputs=[],
                parallelism=cached.parallelism,
                parallelism_configured=cached.parallelism_configured,
                max_parallelism=cached.max_parallelism,
            )
        )
        return [Upstream(cache.id)]

    def _add_operator(self, operator: LoweredTransformation) -> None:
        settings = self._settings
        inputs = [self._ends[read.id] for read in operator.inputs]
        sorts = self._batch and any(operator.keyed_inputs)
        chaining = operator.chaining
        if sorts and chaining in ("ALWAYS", "HEAD_WITH_SOURCES"):
            chaining = "HEAD"
        if not settings["auto_generate_uids"] and operator.uid is None and operator.uid_hash is None:
            raise refused(self._name, ILLEGAL_STATE, MISSING_UID + operator.name)
        sorts = sorts and settings["sort_inputs"]
        memory = {"OPERATOR": settings["sorted_inputs_memory_mebibytes"]} if sorts else {}
        node = {
            "id": operator.id,
            "name": _PREFIXES.get(operator.kind, "") + operator.name,
            "parallelism": self._parallelism if operator.parallelism == -1 else operator.parallelism,
            "max_parallelism": settings["max_parallelism"]
            if operator.max_parallelism <= 0
            else operator.max_parallelism,
            "parallelism_configured": operator.parallelism_configured and operator.parallelism != -1,
            "slot_sharing_group": self._inherited_group(inputs)
            if operator.slot_sharing_group is None
            else operator.slot_sharing_group,
            "co_location_group": operator.co_location_group,
            "uid": operator.uid,
            "uid_hash": operator.uid_hash,
            "buffer_timeout": operator.buffer_timeout
            if operator.buffer_timeout >= 0
            else settings["buffer_timeout"],
            "chaining": chaining,
            "source": operator.kind == "source",
            "legacy_source": operator.kind == "legacy_source" or (operator.filled and self._runs_here),
            "yielding": operator.yielding,
            "coordinated": operator.coordinated,
            "invokable": _INVOKABLES.get(operator.kind, "OneInputStreamTask"),
            "operator_factory": operator.operator_factory,
            "input_format": operator.input_format,
            "output_format": False,
            "no_output_until_end_of_input": False,
            "output_only_after_end_of_stream": False,
            "supports_concurrent_execution_attempts": operator.supports_concurrent_execution_attempts,
            "managed_memory": {**memory, **operator.managed_memory},
            "slot_scope": sorted(operator.slot_scope),
            "keyed": any(operator.keyed_inputs),
            "input_requirements": {
                str(place): "SORTED" if keyed else "PASS_THROUGH"
                for place, keyed in enumerate(operator.keyed_inputs if sorts else ())
            },
            "in_edges": [],
            "out_edges": [],
        }
        for key in ("min_resources", "preferred_resources"):
            if getattr(operator, key) is not None:
                node[key] = getattr(operator, key)
        if operator.description is not None:
            node["description"] = operator.description
        classes = _java_classes(operator, batch=self._batch)
        for key, value in (("operator_class", classes.operator), ("function_class", classes.function)):
            if value is not None:
                node[key] = value
        if operator.kind == "cache_read":
            node["consumes_data_set"] = operator.cache
        self._nodes[operator.id], self._physical[operator.id] = node, operator
        if operator.slot_resources and operator.slot_sharing_group is not None:
            known = self._slot_resources.get(operator.slot_sharing_group) or operator.slot_resources
            if known != operator.slot_resources:
                message = TWO_RESOURCES.format(group=operator.slot_sharing_group)
                raise refused(self._name, ILLEGAL_ARGUMENT, message)
            self._slot_resources[operator.slot_sharing_group] = known
        for number, upstreams in enumerate(inputs, 1):
            for upstream in upstreams:
                source = self._nodes[upstream.node]
                self._edges.add(upstream, source, node, number if len(inputs) > 1 else 0, operator.cache)

    def _group_resources(self) -> dict[str, Any]:
        """Return the slot resources of the nodes' groups; an empty dict if no group has any."""
        groups = dict.fromkeys(node["slot_sharing_group"] for node in self._nodes.values())
        resources = {}
        for group in groups:
            if self._slot_resources.get(group):
                cpu_cores, heap, off_heap, managed, external = self._slot_resources[group]
                resources[group] = {
                    "cpu_cores": cpu_cores,
                    "task_heap_memory_bytes": heap.get_bytes(),
                    "task_off_heap_memory_bytes": off_heap.get_bytes(),
                    "managed_memory_bytes": managed.get_bytes(),
                }
                if external:
                    resources[group]["external_resources"] = dict(external)
        return {"slot_sharing_group_resources": resources} if resources else {}

    def _inherited_group(self, inputs: Sequence[Sequence[Upstream]]) -> str:
        groups = {
            self._nodes[upstream.node]["slot_sharing_group"] for upstreams in inputs for upstream in upstreams
        }
        return groups.pop() if len(groups) == 1 else DEFAULT_SLOT_SHARING_GROUP
