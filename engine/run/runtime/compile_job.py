"""Compile a plan, and the graph it was made from, to the chains that Spark tasks run.

Nothing is decided here: vertices, chains, parallelism, partitioners and the readers of each output come from
the plan. Parts that a plan lacks (functions, selectors, types) are looked up in the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from penstock.engine.run.lowering.transformations import (
    GeneratedGraph,
    LoweredTransformation,
    Step,
    Transformation,
)
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.sink import CollectSink, Sink
from penstock.operators.exchange.blocks import GateSpec, OutputSpec
from penstock.operators.records.record_batches import PassOperator, TimestampsAndWatermarksOperator
from penstock.operators.task.build_chain import ChainedEdge, ChainSpec, OperatorSpec, chain_order
from penstock.operators.task.sink_operators import terminal_operator
from penstock.plans.errors import JobCompileError

# The nodes of a StreamGraph as they run: one operator, or the functions of a fused one.
#
# Functions that PyFlink adds and that leave records unchanged do not run; an operator that has no other
# functions passes its records on.


#: The numbers of functions other than the last one of their operator begin here.
_FIRST_PART = 1 << 40


@dataclass(frozen=True, kw_only=True)
class RunnableNode:
    """A node with its steps in order, and the number of each in its chain; the last one has the node's id."""

    node: int
    name: str
    steps: tuple[Step, ...]
    numbers: tuple[int, ...]
    inputs: int  #: their number
    source: bool
    python: bool  #: its results are encoded by their type when they leave it

    @property
    def first(self) -> int:
        """The number of the step that takes its records."""
        return self.numbers[0]

    @property
    def output_type(self) -> TypeInformation | None:
        """The type of its results."""
        return self.steps[-1].output_type


@dataclass(frozen=True, kw_only=True)
class NodeInput:
    """A stream edge, from its reader's side."""

    source: RunnableNode
    number: int  #: input of the target, from 1
    tag: str | None
    output_type: TypeInformation | None  #: type of the records on the edge
    key_selector: Callable[[Any], Any] | None
    key_type: TypeInformation | None
    custom_partitioner: Callable[[Any, int], int] | None


def _runnable_nodes(graph: GeneratedGraph) -> dict[int, RunnableNode]:
    """Return the nodes that run here, by id.

    Committers and operators that write caches do not run: the driver commits sinks and stores the records
    of cached streams. PyFlink runs the functions of a fused operator twice if a union of
    `execute_and_collect` reads the operators that were fused; the fused one then has no reader, and is left
    out here.
    """
    runnable = {}
    part = _FIRST_PART
    read = {row["source"] for row in graph.stream_graph["edges"]}
    runs = Counter(step.transformation for physical in graph.physical.values() for step in physical.steps)
    for node, physical in graph.physical.items():
        fused = physical.python is not None and len(physical.steps) > 1
        is_copy = fused and all(runs[step.transformation] > 1 for step in physical.steps)
        if not physical.steps or (is_copy and node not in read):
            continue
        steps = tuple(step for step in physical.steps if step.operator is not None)
        steps = steps or (replace(physical.steps[-1], operator=PassOperator(), pickled=None),)
        numbers = (*range(part, part + len(steps) - 1), node)
        part += len(steps)
        runnable[node] = RunnableNode(
            node=node,
            name=_name(graph, node),
            steps=_ending_in(steps, physical),
            numbers=numbers,
            inputs=len(physical.inputs),
            source="source" in physical.kind,
            python=physical.python is not None,
        )
    return runnable


def _stream_inputs(graph: GeneratedGraph, nodes: Mapping[int, RunnableNode]) -> dict[str, NodeInput]:
    """Return the edges between `nodes`, by edge_id."""
    inputs = {}
    for row in graph.stream_graph["edges"]:
        edge = graph.edges[row["edge_id"]]
        if row["source"] in nodes and row["target"] in nodes:
            source = nodes[row["source"]]
            call = None if edge.partition is None else edge.partition.partition_call
            side = edge.side_output
            inputs[row["edge_id"]] = NodeInput(
                source=source,
                number=edge.number,
                tag=None if side is None else side.tag,
                output_type=source.output_type if side is None else side.output_type,
                key_selector=None if call is None else call.key_selector,
                key_type=None if call is None else call.key_type,
                custom_partitioner=None if call is None else call.custom_partitioner,
            )
    return inputs


def _ending_in(steps: tuple[Step, ...], physical: LoweredTransformation) -> tuple[Step, ...]:
    """Return the steps, the last one with the output type of the operator."""
    last = physical.steps[-1]
    return (*steps[:-1], replace(steps[-1], output_type=last.output_type))


def _name(graph: GeneratedGraph, node: int) -> str:
    return next(str(row["name"]) for row in graph.stream_graph["nodes"] if row["id"] == node)


# The two ends of each JobEdge of a plan: the output that subtasks write, and the gate that they read.


Rows = list[dict[str, Any]]


def _readers_of(rows: Mapping[str, Rows]) -> dict[str, dict[int, tuple[int, int]]]:
    """Return by data set and partition the first subtask that reads it, and the number of its readers."""
    data_sets = {
        (row["vertex"], row["output_index"]): row["data_set_id"] for row in rows["intermediate_data_sets"]
    }
    readers: dict[str, dict[int, tuple[int, int]]] = {}
    for row in rows["intermediate_result_partitions"]:
        data_set = data_sets[row["vertex"], row["output_index"]]
        readers.setdefault(data_set, {})[row["partition"]] = (row["first_consumer"], row["subpartitions"])
    return readers


def _edge_parts(row: dict[str, Any], inputs: Mapping[tuple[int, int], NodeInput]) -> NodeInput:
    return inputs[row["target_node"], row["in_index"]]


def _output_spec(
    row: dict[str, Any],
    inputs: Mapping[tuple[int, int], NodeInput],
    edge_numbers: Mapping[tuple[int, int], int],
    sizes: Mapping[int, dict[str, Any]],
    readers: Mapping[str, Mapping[int, tuple[int, int]]],
    by_node: Mapping[int, RunnableNode],
    batch: bool,
    limit: int | None = None,
) -> OutputSpec:
    """Return the producer's end of a JobEdge (`row` of table job_edges)."""
    edge = _edge_parts(row, inputs)
    target = by_node[row["target_node"]]
    partitioner = row["ship_strategy"].lower()
    partitions = readers[row["data_set_id"]]
    producer, consumer = sizes[row["source_vertex"]], sizes[row["target_vertex"]]
    return OutputSpec(
        source_node=row["source_node"],
        tag=edge.tag,
        edge=edge_numbers[row["target_vertex"], row["input_index"]],
        partitioner=partitioner,
        type_info=edge.output_type,
        consumers=consumer["parallelism"],
        consumer_max_parallelism=consumer["max_parallelism"],
        consumer_name=target.name,
        limit=limit,
        reading=tuple(partitions[subtask] for subtask in range(producer["parallelism"])),
        key_selector=edge.key_selector,
        key_type=edge.key_type,
        custom_partitioner=edge.custom_partitioner,
        grouped=_grouped(partitioner, target, batch),
        first=_first(row, target),
    )


def _gate_spec(
    row: dict[str, Any],
    inputs: Mapping[tuple[int, int], NodeInput],
    edge_numbers: Mapping[tuple[int, int], int],
    by_node: Mapping[int, RunnableNode],
    batch: bool,
) -> GateSpec:
    """Return the consumer's end of a JobEdge (`row` of table job_edges)."""
    edge = _edge_parts(row, inputs)
    target = by_node[row["target_node"]]
    return GateSpec(
        edge=edge_numbers[row["target_vertex"], row["input_index"]],
        input_number=edge.number,
        target_node=target.first,
        type_info=edge.output_type,
        grouped=_grouped(row["ship_strategy"].lower(), target, batch),
        first=_first(row, target),
    )


def _grouped(partitioner: str, target: RunnableNode, batch: bool) -> bool:
    return batch and partitioner == "hash" and bool(getattr(target.steps[0].operator, "keyed", False))


def _first(row: dict[str, Any], target: RunnableNode) -> bool:
    return row["broadcast"] and target.inputs > 1


@dataclass(frozen=True)
class Terminal:
    """A sink, and the edge on which its rows reach the driver."""

    edge: int  #: negative
    node: int
    name: str
    sink: Any
    transformation: Transformation


@dataclass(frozen=True)
class CompiledVertex:
    """One JobVertex, and the way its input reaches it."""

    chain: ChainSpec
    vertex_id: str
    producers: tuple[int, ...]  #: vertices that its gates read, without duplicates
    forward_only: bool  #: it has one gate, and subtask i reads only subtask i: no shuffle


@dataclass(frozen=True)
class CompiledJob:
    """All vertices, producers before consumers."""

    vertices: tuple[CompiledVertex, ...]
    terminals: tuple[Terminal, ...]
    classes: Mapping[int, type] = field(default_factory=dict)  #: of the operators, by node


def compile_job(graph: GeneratedGraph, tables: Mapping[str, pa.Table], *, batch: bool) -> CompiledJob:
    """Return the tasks of a job. `graph` is the one that `tables` (all layers of one job) were planned from.

    Committers of sinks are left out: the driver commits. Raises JobCompileError if plan and graph do not
    belong together, or cannot run.
    """
    rows = {name: tables[name].to_pylist() for name in _READ}
    by_node = _runnable_nodes(graph)
    inputs = _stream_inputs(graph, by_node)
    _leave_out_committers(rows, by_node)
    stream_edges = {(edge["target"], edge["in_index"]): edge for edge in rows["stream_edges"]}
    node_inputs: dict[tuple[int, int], NodeInput] = {}
    for place, edge in stream_edges.items():
        if edge["edge_id"] not in inputs:
            raise JobCompileError(f"edge {edge['edge_id']}: the plan is not of this job")
        node_inputs[place] = inputs[edge["edge_id"]]

    order = {row["vertex"]: row["topological_order"] for row in rows["job_vertices"]}
    job_edges = sorted(rows["job_edges"], key=lambda row: (order[row["target_vertex"]], row["input_index"]))
    edge_numbers = {(row["target_vertex"], row["input_index"]): n for n, row in enumerate(job_edges)}
    sizes = {row["vertex"]: row for row in rows["execution_job_vertices"]}
    readers = _readers_of(rows)
    wants_batches = _columnar_sources(by_node, stream_edges)
    terminals = _terminals(by_node, rows["chained_operators"])
    read = {edge["source"] for edge in stream_edges.values()}
    if len(by_node.keys() - read) > 1:
        for terminal in terminals.values():
            if isinstance(terminal.sink, CollectSink):
                terminal.sink.limit = None  # an early end would deprive the other sinks of records

    vertices = []
    for vertex in sorted(rows["job_vertices"], key=lambda row: row["topological_order"]):
        key = vertex["vertex"]
        members = [row for row in rows["chained_operators"] if row["vertex"] == key]
        outgoing = [row for row in job_edges if row["source_vertex"] == key]
        outputs = tuple(
            _output_spec(
                row,
                node_inputs,
                edge_numbers,
                sizes,
                readers,
                by_node,
                batch,
                limit=_limit(row, terminals) if len(outgoing) == 1 else None,
            )
            for row in outgoing
        )
        gates = tuple(
            _gate_spec(row, node_inputs, edge_numbers, by_node, batch)
            for row in job_edges
            if row["target_vertex"] == key
        )
        operators, edges = _chain(
            members, node_inputs, stream_edges, by_node, sizes[key]["parallelism"], terminals, wants_batches
        )
        chain = ChainSpec(
            vertex=key,
            name=vertex["name"],
            parallelism=sizes[key]["parallelism"],
            max_parallelism=sizes[key]["max_parallelism"],
            operators=operators,
            edges=edges,
            outputs=outputs,
            gates=gates,
        )
        incoming = [row for row in job_edges if row["target_vertex"] == key]
        vertices.append(
            CompiledVertex(
                chain=chain,
                vertex_id=vertex["vertex_id"],
                producers=tuple(dict.fromkeys(row["source_vertex"] for row in incoming)),
                forward_only=len(incoming) == 1
                and incoming[0]["ship_strategy"] == "FORWARD"
                and sizes[incoming[0]["source_vertex"]]["parallelism"] == sizes[key]["parallelism"],
            )
        )
    classes = {
        number: type(step.operator)
        for runnable in by_node.values()
        for number, step in zip(runnable.numbers, runnable.steps, strict=True)
    }
    return CompiledJob(tuple(vertices), tuple(terminals.values()), classes)


_READ = (
    "stream_edges",
    "job_vertices",
    "chained_operators",
    "job_edges",
    "intermediate_data_sets",
    "execution_job_vertices",
    "intermediate_result_partitions",
)


def _leave_out_committers(rows: dict[str, Rows], by_node: Mapping[int, RunnableNode]) -> None:
    """Remove nodes that do not run, edges to them, and vertices that contain only such nodes."""
    rows["stream_edges"] = [row for row in rows["stream_edges"] if row["target"] in by_node]
    rows["job_edges"] = [row for row in rows["job_edges"] if row["target_node"] in by_node]
    rows["chained_operators"] = [row for row in rows["chained_operators"] if row["node"] in by_node]
    rows["job_vertices"] = [row for row in rows["job_vertices"] if row["vertex"] in by_node]


def _columnar_sources(
    by_node: Mapping[int, RunnableNode], stream_edges: Mapping[tuple[int, int], dict[str, Any]]
) -> dict[int, bool]:
    """Return for each node whether its output is record batches."""
    columnar: dict[int, bool] = {}
    for node, runnable in by_node.items():
        if runnable.source:
            readers = [
                by_node[target] for (target, _), edge in stream_edges.items() if edge["source"] == node
            ]
            wanted = bool(readers) and all(_takes_batches(reader) for reader in readers)
            source: Any = runnable.steps[0].operator
            columnar[node] = source.columnar or (source.has_batches and wanted and not _stamps(runnable))
        else:
            columnar[node] = getattr(runnable.steps[-1].operator, "columnar", False)
    return columnar


def _takes_batches(node: RunnableNode) -> bool:
    return bool(getattr(node.steps[0].operator, "columnar", False))


def _watermark_strategy(node: RunnableNode) -> Any:
    call = node.steps[0].call
    return None if call is None else call.watermark_strategy


def _stamps(node: RunnableNode) -> bool:
    strategy = _watermark_strategy(node)
    return strategy is not None and (
        strategy.timestamp_assigner is not None or strategy.out_of_orderness_milliseconds is not None
    )


def _terminals(by_node: Mapping[int, RunnableNode], members: Rows) -> dict[int, Terminal]:
    terminals: dict[int, Terminal] = {}
    for row in members:
        last = by_node[row["node"]].steps[-1]
        if isinstance(last.operator, Sink) and last.call is not None:
            started = last.operator.start(type_info=last.output_type)
            terminals[row["node"]] = Terminal(
                -1 - len(terminals), row["node"], row["name"], started, last.call
            )
    return terminals


def _limit(row: dict[str, Any], terminals: Mapping[int, Terminal]) -> int | None:
    """Return the largest number of records that the reader of a job edge takes; None if it has no limit."""
    terminal = terminals.get(row["target_node"])
    return terminal.sink.limit if terminal is not None and isinstance(terminal.sink, CollectSink) else None


def _chain(
    members: Rows,
    inputs: Mapping[tuple[int, int], NodeInput],
    stream_edges: Mapping[tuple[int, int], dict[str, Any]],
    by_node: Mapping[int, RunnableNode],
    parallelism: int,
    terminals: Mapping[int, Terminal],
    columnar: Mapping[int, bool],
) -> tuple[tuple[OperatorSpec, ...], tuple[ChainedEdge, ...]]:
    names = {row["node"]: row["name"] for row in members}
    ids = {row["node"]: (row["user_defined_operator_id"], row["operator_id"]) for row in members}
    edges = [
        ChainedEdge(
            source_node=edge["source"],
            target_node=by_node[target].first,
            input_number=inputs[target, in_index].number,
            tag=edge["output_tag"],
            encodes=by_node[edge["source"]].python,
        )
        for (target, in_index), edge in stream_edges.items()
        if edge["source"] in names and target in names and (edge["chainable"] or edge["chained_source"])
    ]
    sides: dict[int, dict[str, Any]] = {}
    for input_edge in inputs.values():
        if input_edge.tag is not None:
            sides.setdefault(input_edge.source.node, {})[input_edge.tag] = input_edge.output_type
    specs: dict[int, OperatorSpec] = {}
    for node, name in names.items():
        runnable = by_node[node]
        edges += [
            ChainedEdge(source_node=number, target_node=reader)
            for number, reader in pairwise(runnable.numbers)
        ]
        for number, step in zip(runnable.numbers, runnable.steps, strict=True):
            operator: Any = step.pickled or step.operator
            specs[number] = OperatorSpec(
                node=number,
                name=name,
                function=step.name if len(runnable.steps) > 1 else "",
                # a step that runs in two nodes of a chain, as in PyFlink, has an operator in each
                operator=operator if runnable.source else copy(operator),
                output_type=step.output_type,
                side_output_types=sides.get(number, {}),
                operator_ids=tuple(filter(None, ids[node])),
                uid=next((step.call.uid for step in runnable.steps if step.call and step.call.uid), None),
            )
        if node in terminals:
            feeding = inputs[node, 0]
            alone = len(runnable.steps) == 1
            operator = terminal_operator(
                terminals[node].edge,
                terminals[node].sink,
                feeding.output_type if alone else runnable.steps[-2].output_type,
                columnar=alone and columnar[feeding.source.node] and feeding.tag is None,
            )
            specs[node] = replace(specs[node], operator=operator)
        if runnable.source:
            source: Any = specs[node].operator
            if columnar[node]:
                source = source.batches()
            splits = tuple(map(tuple, source.splits(parallelism)))
            specs[node] = replace(specs[node], operator=source, source=True, splits=splits)
        if runnable.source and _stamps(runnable):
            # part of the source operator in Flink; here a separate operator after the reader
            specs[-node] = replace(specs[node], node=-node)
            specs[node] = OperatorSpec(
                node=node,
                name=name,
                operator=TimestampsAndWatermarksOperator(_watermark_strategy(runnable)),
                output_type=runnable.output_type,
                operator_ids=tuple(filter(None, ids[node])),
            )
            edges.append(ChainedEdge(source_node=-node, target_node=node))
    in_order = chain_order(specs, tuple(edges))
    return tuple(specs[node] for node in in_order), tuple(edges)
