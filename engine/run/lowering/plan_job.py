"""Write transformations as a topology, read the StreamGraph that PyFlink submits from its plan; plan jobs.

Source: org.apache.flink.streaming.api.graph.StreamGraphGenerator,
org.apache.flink.connector.file.sink.FileSink.addPreCommitTopology.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.engine.planning.plan_in_process import plan_in_process, read_in_process
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.planning.remembered_plans import remembered
from penstock.engine.run.lowering.transformations import (
    Call,
    Compaction,
    GeneratedGraph,
    InputEdge,
    Job,
    LoweredTransformation,
    PythonOperator,
    topology_of,
    topology_to_run,
)
from penstock.operators.connectors.file_sink import StreamingFileSink
from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.errors import ILLEGAL_ARGUMENT, JobCompileError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.plan_json.to_topology_lines import stream_graph_of_tables
from penstock.plans.stream_graph.expand_sinks import CACHE_READ, CACHE_WRITE, ids_of_translation
from penstock.plans.stream_graph.refuse_stream_graphs import TWO_RESOURCES
from penstock.plans.topology.job_defaults import NO_DEFAULTS
from penstock.plans.vocabulary import SOURCE_KINDS, Kind, Layer, Partitioner, StreamExchangeMode

# The Java classes that run a transformation, if PyFlink's API alone decides them.
#
# Source: the operators of org.apache.flink.streaming.api.operators.python, the translators of
# org.apache.flink.streaming.runtime.translators.{PythonBroadcastStateTransformationTranslator,
# PythonKeyedBroadcastStateTransformationTranslator}.


_OPERATORS = "org.apache.flink.streaming.api.operators."
_FUNCTIONS = "org.apache.flink.streaming.api.functions."
_RUNTIME = "org.apache.flink.streaming.runtime."
_STREAMING_FILE_SINK = f"{_FUNCTIONS}sink.filesystem.legacy.StreamingFileSink"


class JavaClasses(NamedTuple):
    """Binary names of an operator's class and its function's class; None if it has none or it is unknown."""

    operator: str | None = None
    function: str | None = None


_BY_FACTORY = {
    "CollectSinkOperatorFactory": JavaClasses(
        f"{_OPERATORS}collect.CollectSinkOperator", f"{_OPERATORS}collect.CollectSinkFunction"
    ),
    "SimpleInputFormatOperatorFactory": JavaClasses(
        f"{_OPERATORS}StreamSource", f"{_FUNCTIONS}source.legacy.InputFormatSourceFunction"
    ),
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
    if operator.operator_factory in _BY_FACTORY:
        return _BY_FACTORY[operator.operator_factory]
    call = operator.steps[-1].call if operator.steps else None
    if call is not None and isinstance(call.operator, StreamingFileSink):
        return JavaClasses(f"{_OPERATORS}StreamSink", _STREAMING_FILE_SINK)
    return JavaClasses() if call is None else _BY_CALL.get(call.call, JavaClasses())


# The rows of a topology, in the order in which Flink translates transformations: inputs before readers.


_COMPACTOR = "org.apache.flink.connector.file.sink.compactor.operator."


def _refused(job: str, error: str, message: str) -> JobCompileError:
    """Return the exception for Flink's `error` with `message`."""
    return JobCompileError(f"job {job!r} cannot be planned ({error}): {message}")


class _Writer:
    """Writes transformations as rows of a topology file (docs/topology-files.md), with their own ids as
    node ids.

    `slot_resources`: resources of the environment's slot sharing groups. `runs_here`: sinks do not compact
    files.
    """

    def __init__(
        self, job: str, *, batch: bool, slot_resources: Mapping[str, tuple[Any, ...]], runs_here: bool
    ) -> None:
        self._job, self._batch, self._runs_here = job, batch, runs_here
        self._slot_resources = slot_resources
        self.rows: list[dict[str, Any]] = []
        self.written: list[LoweredTransformation] = []  #: row by row
        self._ids: dict[int, int] = {}

    def write(self, transformations: Iterable[LoweredTransformation]) -> None:
        """Write transformations, each after its inputs; sources among them are in the graph in any case."""
        for root in transformations:
            waiting = [(root, False)]
            while waiting:
                transformation, inputs_are_done = waiting.pop()
                if transformation.id in self._ids:
                    continue
                if inputs_are_done:
                    self._add(transformation)
                else:
                    waiting.append((transformation, True))
                    inputs_to_do = [] if transformation.filled else transformation.inputs
                    waiting += [(other, False) for other in reversed(inputs_to_do)]
        read = {id for row in self.rows for id in row.get("inputs", ())}
        for row in self.rows:
            if row["kind"] in SOURCE_KINDS and row["id"] not in read:
                row["registered"] = True

    def _add(self, transformation: LoweredTransformation) -> None:
        row: dict[str, Any] = {"id": len(self.rows) + 1, "kind": transformation.kind}
        self._ids[transformation.id] = row["id"]
        if not transformation.filled and transformation.inputs:
            row["inputs"] = [self._ids[read.id] for read in transformation.inputs]
        row["node_id"] = transformation.id
        self.rows.append(row)
        self.written.append(transformation)
        if transformation.kind == "partition":
            row |= _partition(transformation)
        elif transformation.kind == "side_output":
            row["tag"] = transformation.tag
        elif transformation.kind == "cache":
            row["data_set"] = transformation.cache
            if transformation.filled:
                cached = transformation.cached or transformation
                row |= _set(
                    {"kind": str(Kind.CACHE_READ), **_parallelism(cached), **self._slots(transformation)}
                )
        elif transformation.kind != "union":
            row |= self._operator(transformation)

    def _operator(self, operator: LoweredTransformation) -> dict[str, Any]:
        values = {
            "name": operator.name,
            **_parallelism(operator),
            "uid": operator.uid,
            **self._slots(operator),
        }
        kind = OPERATOR_KINDS[operator.kind]
        if operator.chaining != kind.chaining:
            values["chaining"] = operator.chaining
        if operator.commits is not None:
            return _set(values) | self._sink(operator)
        keyed = any(operator.keyed_inputs)
        read = operator.inputs[0] if operator.kind == Kind.ONE_INPUT else None
        is_behind_hash = read is not None and read.partitioner == Partitioner.HASH
        classes = _java_classes(operator, batch=self._batch)
        values |= {
            "uid_hash": operator.uid_hash,
            "buffer_timeout": operator.buffer_timeout if operator.buffer_timeout >= 0 else None,
            "managed_memory": operator.managed_memory or None,
            "slot_scope": sorted(operator.slot_scope - ({"STATE_BACKEND"} if keyed else set())) or None,
            "min_resources": operator.min_resources,
            "preferred_resources": operator.preferred_resources,
            "description": operator.description,
            "operator_factory": operator.operator_factory
            if operator.operator_factory != kind.operator_factory
            else None,
            "operator_class": classes.operator,
            "function_class": classes.function,
        }
        if keyed != is_behind_hash or len(operator.keyed_inputs) > 1:
            values["keyed"] = list(operator.keyed_inputs) or [False]
        if not operator.supports_concurrent_execution_attempts:
            values["supports_concurrent_execution_attempts"] = False
        if operator.kind == Kind.LEGACY_SOURCE:
            values["bounded"] = True
        return _set(values)

    def _slots(self, operator: LoweredTransformation) -> dict[str, Any]:
        group = operator.slot_sharing_group
        of_environment = self._slot_resources.get(group or "", ())
        if of_environment and operator.slot_resources and of_environment != operator.slot_resources:
            raise _refused(
                self._job, ILLEGAL_ARGUMENT, "".join((TWO_RESOURCES[0], str(group), TWO_RESOURCES[1]))
            )
        resources = operator.slot_resources or of_environment
        return {
            "slot_sharing_group": group,
            "co_location_group": operator.co_location_group,
            "slot_resources": _slot_resources(resources) if resources and group is not None else None,
        }

    def _sink(self, sink: LoweredTransformation) -> dict[str, Any]:
        """Return the keys of a sink of the Sink V2 API."""
        attempts = sink.supports_concurrent_execution_attempts
        keys: dict[str, Any] = {
            "writer": {"supports_concurrent_execution_attempts": True} if attempts else {}
        }
        if sink.commits:
            keys["committer"] = {}
            if sink.compaction is not None and not self._runs_here:
                keys["pre_commit"] = _COMPACTION[sink.compaction]
        return keys


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are set."""
    return {key: value for key, value in values.items() if value is not None}


def _parallelism(operator: LoweredTransformation) -> dict[str, Any]:
    values: dict[str, Any] = {}
    if operator.parallelism != -1:
        values["parallelism"] = operator.parallelism
        if not operator.parallelism_configured:
            values["parallelism_configured"] = False
    if operator.max_parallelism > 0:
        values["max_parallelism"] = operator.max_parallelism
    return values


def _partition(partition: LoweredTransformation) -> dict[str, Any]:
    if partition.partitioner is None:
        return {"kind": str(Kind.UNION)}
    undefined = partition.exchange_mode == StreamExchangeMode.UNDEFINED
    return {
        "partitioner": partition.partitioner,
        **({} if undefined else {"exchange_mode": partition.exchange_mode}),
    }


def _slot_resources(resources: tuple[Any, ...]) -> dict[str, Any]:
    cpu_cores, heap, off_heap, managed, external = resources
    return {
        "cpu_cores": cpu_cores,
        "task_heap_memory_bytes": heap.get_bytes(),
        "task_off_heap_memory_bytes": off_heap.get_bytes(),
        "managed_memory_bytes": managed.get_bytes(),
        **({"external_resources": dict(external)} if external else {}),
    }


def _compactor(name: str, uid: str, operator: str, factory: str, **keys: Any) -> dict[str, Any]:
    return {
        "kind": "one_input",
        "name": name,
        "uid": uid,
        "operator_factory": factory,
        "operator_class": f"{_COMPACTOR}{operator}",
        **keys,
    }


_COORDINATOR, _OPERATOR = "FileSinkCompactorCoordinator", "FileSinkCompactorOperator"
_FORWARD = {"kind": "partition", "partitioner": "forward"}
_UNSET = {"parallelism_configured": False}
_COMPACTION: dict[Compaction, list[dict[str, Any]]] = {
    Compaction.ENABLED: [
        {"kind": "partition", "partitioner": "rebalance", "unaligned_checkpoints": False},
        _compactor(
            "CompactorCoordinator",
            _COORDINATOR,
            "CompactCoordinator",
            "CompactCoordinatorFactory",
            parallelism=1,
        ),
        _compactor("CompactorOperator", _OPERATOR, "CompactorOperator", "CompactorOperatorFactory", **_UNSET),
    ],
    # nothing is compacted, but files that an earlier run of the job left to compact are committed
    Compaction.DISABLED: [
        _FORWARD,
        _compactor(
            "CompactorCoordinatorPlaceHolder",
            _COORDINATOR,
            "CompactCoordinator",
            "CompactCoordinatorStateHandlerFactory",
            **_UNSET,
        ),
        _FORWARD,
        _compactor(
            "CompactorOperatorPlaceHolder",
            _OPERATOR,
            "CompactorOperator",
            "CompactorOperatorStateHandlerFactory",
            **_UNSET,
        ),
    ],
}
"""The steps between the writer and the committer of a file sink."""


# The StreamGraph of such a topology, as the planner translates it.


def generate_stream_graph(
    transformations: Sequence[LoweredTransformation],
    topology: Mapping[str, Any],
    *,
    next_id: int,
    batch: bool,
    slot_resources: Mapping[str, tuple[Any, ...]],
    runs_here: bool,
) -> GeneratedGraph:
    """Return the StreamGraph of PyFlink's list of transformations, and the topology it is planned from.

    `topology`: the keys of the job besides its transformations. `next_id`: the next id of Flink's counter,
    which virtual nodes and the operators of Sink V2 sinks take. `runs_here`: the graph that runs here, where
    sinks do not compact files. Raises JobCompileError if Flink refuses the graph.
    """
    name = topology["name"]
    writer = _Writer(name, batch=batch, slot_resources=slot_resources, runs_here=runs_here)
    writer.write(transformations)
    rows = writer.rows
    # Flink makes a virtual node for a partition without a partitioner, too, which is a union in `rows`.
    unset = sum(one.kind == "partition" and one.partitioner is None for one in writer.written)
    last_id = next_id - 1 + unset
    if last_id > max((row["node_id"] for row in rows), default=last_id):
        # Ids that the job does not have: nothing reads this one, so it is not part of the graph.
        rows.append({"id": len(rows) + 1, "kind": "union", "inputs": [1], "node_id": last_id})
    whole = {**topology, "transformations": rows}
    taken, tables, graph = remembered("stream graph", whole, lambda: _translated(name, whole))
    graph = dict(graph)
    physical = {
        node["id"]: _physical(writer.written[row - 1], node)
        for node, row in zip(graph["nodes"], tables["stream_nodes"].sort("id")["transformation"], strict=True)
    }
    graph["sinks"] = [node for node, operator in physical.items() if operator.kind == "sink"]
    resources = _group_resources(graph["nodes"], rows, slot_resources)
    if resources:
        graph["slot_sharing_group_resources"] = resources
    edges = _input_edges(graph["edges"], writer.written, tables["stream_edges"])
    return GeneratedGraph(
        stream_graph=graph,
        topology={**topology, "transformations": rows},
        physical=physical,
        edges=edges,
        next_id=last_id + 1 + taken,
    )


def _translated(
    name: str, topology: Mapping[str, Any]
) -> tuple[int, dict[str, pl.DataFrame], dict[str, Any]]:
    """Return the number of ids that the translation takes, and the StreamGraph as tables and as JSON."""
    read = read_in_process([topology])
    _require_planned(name, read.rejected.to_dicts())
    taken = ids_of_translation(read.transformations, read.job_settings)
    planned = plan_in_process(read, PlanOptions(Layer.STREAM_GRAPH))
    _require_planned(name, planned.tables["rejected"].to_pylist())
    tables = {table: from_arrow(rows) for table, rows in planned.tables.items()}
    graph = stream_graph_of_tables(tables["job_settings"], tables["stream_nodes"], tables["stream_edges"])
    return taken, tables, graph


def _require_planned(job: str, rejected: Sequence[Mapping[str, Any]]) -> None:
    for rejection in rejected:
        raise _refused(job, rejection["error"], rejection["message"])


def _physical(transformation: LoweredTransformation, node: Mapping[str, Any]) -> LoweredTransformation:
    """Return the operator of a node: the transformation, or its part if it has several."""
    if transformation.commits is not None:
        is_writer = node["operator_factory"] == OPERATOR_KINDS[Kind.WRITER].operator_factory
        return replace(
            transformation,
            id=node["id"],
            kind="one_input",
            name=node["name"],
            description=None,  # Flink drops a sink's description
            commits=None,
            steps=transformation.steps if is_writer else (),
        )
    if transformation.kind == "cache":
        kind, name = ("cache_read", CACHE_READ) if transformation.filled else ("one_input", CACHE_WRITE)
        return replace(
            transformation,
            kind=kind,
            name=name,
            inputs=[] if transformation.filled else transformation.inputs,
        )
    return transformation


def _group_resources(
    nodes: Iterable[Mapping[str, Any]],
    rows: Iterable[Mapping[str, Any]],
    slot_resources: Mapping[str, tuple[Any, ...]],
) -> dict[str, Any]:
    """Return the slot resources of the nodes' groups; an empty dict if no group has any."""
    of_rows = {row["slot_sharing_group"]: row["slot_resources"] for row in rows if "slot_resources" in row}
    known = {group: _slot_resources(resources) for group, resources in slot_resources.items() if resources}
    groups = dict.fromkeys(node["slot_sharing_group"] for node in nodes)
    return {group: found for group in groups if (found := {**known, **of_rows}.get(group))}


def _input_edges(
    edges: Iterable[Mapping[str, Any]], written: Sequence[LoweredTransformation], stream_edges: Any
) -> dict[str, InputEdge]:
    """Return the attributes of edges that the StreamGraph lacks, by edge_id."""
    partitions = {str(one.id): one for one in written if one.kind == "partition"}
    sides: dict[tuple[int, str | None], LoweredTransformation] = {}
    for one in written:
        if one.kind == "side_output":
            sides.update(((source, one.tag), one) for source in _sources_of(one))
    keys = dict(zip(stream_edges["edge_id"], stream_edges["partitioner_key"], strict=True))
    return {
        edge["edge_id"]: InputEdge(
            partition=partitions.get(keys[edge["edge_id"]].partition("#")[2]),
            side_output=sides.get((edge["source"], edge["output_tag"])),
            number=max(1, edge["type_number"]),
        )
        for edge in edges
    }


def _sources_of(side_output: LoweredTransformation) -> list[int]:
    """Return the ids of the operators above a side output."""
    found, waiting = [], list(side_output.inputs)
    while waiting:
        read = waiting.pop()
        if read.kind in ("partition", "union", "side_output") or (read.kind == "cache" and not read.filled):
            waiting += read.inputs
        else:
            found.append(read.id)
    return found


# All layers of a job that is planned or run.


def plan_job(job: Job) -> dict[str, pa.Table]:
    """Return the tables of all layers, as PyFlink submits the job.

    Raises JobCompileError with Flink's message if Flink refuses the job.
    """
    return _plan(job, topology_of(job))


def plan_to_run(job: Job) -> dict[str, pa.Table]:
    """Return the tables of all layers of the job as it runs here, with the script's parallelism even in
    BATCH mode.

    Raises JobCompileError with Flink's message if Flink refuses the job.
    """
    return _plan(job, topology_to_run(job))


def _plan(job: Job, topology: dict[str, Any]) -> dict[str, pa.Table]:
    # The script's calls have filled in the defaults of its configuration.
    options = replace(job.plan_options, until=Layer.SLOTS, job_defaults=NO_DEFAULTS)

    def plan() -> PlanResult:
        return plan_in_process([topology], options)

    # a custom planner may decide otherwise the next time
    planned = plan() if options.decided else remembered(f"all layers, {options}", topology, plan)
    _require_planned(job.name, planned.tables["rejected"].to_pylist())
    return planned.tables
