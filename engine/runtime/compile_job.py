"""Compiles a plan, and the transformations it was made from, to what Spark tasks run.

Nothing is decided here: vertices, chains, parallelism, partitioners and who reads what are the plan's. What
the plan does not know (functions, selectors, types) is looked up in the transformations.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.engine.runtime.compile_edges import Rows, gate_spec, output_spec, readers_of
from penstock.engine.runtime.errors import JobCompileError
from penstock.engine.runtime.resolve_inputs import StreamInput, inputs_of
from penstock.engine.runtime.transformations import VIRTUAL_KINDS, Transformation
from penstock.operators.connectors.sink import CollectSink, Sink
from penstock.operators.kinds import OPERATOR_KINDS
from penstock.operators.records.timestamps_and_watermarks import TimestampsAndWatermarksOperator
from penstock.operators.task.build_chain import chain_order
from penstock.operators.task.chain_spec import ChainedEdge, ChainSpec, OperatorSpec
from penstock.operators.task.sink_operators import CommitterOperator, terminal_operator

_COMMITTER = OPERATOR_KINDS["committer"].operator_factory


@dataclass(frozen=True)
class Terminal:
    """A sink, and the edge by which its rows reach the driver."""

    edge: int  #: negative
    node: int
    name: str
    sink: Any
    transformation: Transformation


@dataclass(frozen=True)
class CompiledVertex:
    """One JobVertex, and how its input reaches it."""

    chain: ChainSpec
    vertex_id: str
    producers: tuple[int, ...]  #: vertices that its gates read, each once
    forward_only: bool  #: one gate, and subtask i reads subtask i alone: no shuffle


@dataclass(frozen=True)
class CompiledJob:
    """All vertices, producers before consumers."""

    vertices: tuple[CompiledVertex, ...]
    terminals: tuple[Terminal, ...]


def compile_job(
    transformations: Sequence[Transformation], tables: Mapping[str, pa.Table], *, batch: bool
) -> CompiledJob:
    """What runs. `transformations`: those that `tables` (all layers of one job) were planned from, in order.

    Raises JobCompileError where plan and transformations do not belong together, or cannot run.
    """
    rows = {name: tables[name].to_pylist() for name in _READ}
    by_node = {row["id"]: transformations[row["transformation"] - 1] for row in rows["stream_nodes"]}
    committers = {row["id"] for row in rows["stream_nodes"] if row["operator_factory"] == _COMMITTER}
    inputs = {
        node: [StreamInput(one, None, None, 1)] if node in committers else inputs_of(one)
        for node, one in by_node.items()
    }
    nodes = {one.created: node for node, one in by_node.items() if node not in committers}
    stream_edges = {(edge["target"], edge["in_index"]): edge for edge in rows["stream_edges"]}
    given: dict[tuple[int, int], StreamInput] = {}
    for (target, in_index), edge in stream_edges.items():
        found = inputs[target][in_index]
        if nodes[found.source.created] != edge["source"]:
            raise JobCompileError(f"edge {edge['edge_id']}: the plan is not of these transformations")
        given[target, in_index] = found

    order = {row["vertex"]: row["topological_order"] for row in rows["job_vertices"]}
    job_edges = sorted(rows["job_edges"], key=lambda row: (order[row["target_vertex"]], row["input_index"]))
    edge_numbers = {(row["target_vertex"], row["input_index"]): n for n, row in enumerate(job_edges)}
    sizes = {row["vertex"]: row for row in rows["execution_job_vertices"]}
    readers = readers_of(rows)
    wants_batches = _columnar_sources(by_node, stream_edges)
    wants_batches |= dict.fromkeys(committers, False)
    written = [row for row in rows["chained_operators"] if row["node"] not in committers]
    terminals = _terminals(by_node, written)
    read = {edge["source"] for edge in stream_edges.values()}
    if len(inputs.keys() - read) > 1:
        for terminal in terminals.values():
            if isinstance(terminal.sink, CollectSink):
                terminal.sink.limit = None  # ending early would take records from the other ends

    vertices = []
    for vertex in sorted(rows["job_vertices"], key=lambda row: row["topological_order"]):
        key = vertex["vertex"]
        members = [row for row in rows["chained_operators"] if row["vertex"] == key]
        outgoing = [row for row in job_edges if row["source_vertex"] == key]
        outputs = tuple(
            output_spec(
                row,
                given,
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
            gate_spec(row, given, edge_numbers, by_node, batch)
            for row in job_edges
            if row["target_vertex"] == key
        )
        operators, edges = _chain(
            members,
            committers,
            given,
            stream_edges,
            by_node,
            sizes[key]["parallelism"],
            terminals,
            wants_batches,
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
    return CompiledJob(tuple(vertices), tuple(terminals.values()))


_READ = (
    "stream_nodes",
    "stream_edges",
    "job_vertices",
    "chained_operators",
    "job_edges",
    "intermediate_data_sets",
    "execution_job_vertices",
    "intermediate_result_partitions",
)


def _columnar_sources(
    by_node: Mapping[int, Transformation], stream_edges: Mapping[tuple[int, int], dict[str, Any]]
) -> dict[int, bool]:
    """For each node, whether it puts out record batches."""
    columnar: dict[int, bool] = {}
    for node, one in by_node.items():
        if one.kind in VIRTUAL_KINDS:
            continue
        if "source" in one.kind:
            readers = [
                by_node[target] for (target, _), edge in stream_edges.items() if edge["source"] == node
            ]
            wanted = bool(readers) and all(_takes_batches(reader) for reader in readers)
            stamped = getattr(one, "watermark_strategy", None) is not None and _stamps(one)
            source: Any = one.operator
            columnar[node] = source.columnar or (source.has_batches and wanted and not stamped)
        else:
            columnar[node] = getattr(one.operator, "columnar", False)
    return columnar


def _takes_batches(one: Transformation) -> bool:
    return bool(getattr(one.operator, "columnar", False))


def _stamps(one: Transformation) -> bool:
    strategy = one.watermark_strategy
    return strategy is not None and (
        strategy.timestamp_assigner is not None or strategy.out_of_orderness_milliseconds is not None
    )


def _terminals(by_node: Mapping[int, Transformation], members: Rows) -> dict[int, Terminal]:
    found: dict[int, Terminal] = {}
    for row in members:
        one = by_node[row["node"]]
        if isinstance(one.operator, Sink):
            started = one.operator.start(type_info=one.output_type)
            found[row["node"]] = Terminal(-1 - len(found), row["node"], row["name"], started, one)
    return found


def _limit(row: dict[str, Any], terminals: Mapping[int, Terminal]) -> int | None:
    """How many records the reader of a job edge takes at most."""
    terminal = terminals.get(row["target_node"])
    return terminal.sink.limit if terminal is not None and isinstance(terminal.sink, CollectSink) else None


def _chain(
    members: Rows,
    committers: Collection[int],
    given: Mapping[tuple[int, int], StreamInput],
    stream_edges: Mapping[tuple[int, int], dict[str, Any]],
    by_node: Mapping[int, Transformation],
    parallelism: int,
    terminals: Mapping[int, Terminal],
    columnar: Mapping[int, bool],
) -> tuple[tuple[OperatorSpec, ...], tuple[ChainedEdge, ...]]:
    names = {row["node"]: row["name"] for row in members}
    edges = [
        ChainedEdge(
            source_node=edge["source"],
            target_node=target,
            input_number=given[target, in_index].number,
            tag=edge["output_tag"],
        )
        for (target, in_index), edge in stream_edges.items()
        if edge["source"] in names and target in names and (edge["chainable"] or edge["chained_source"])
    ]
    sides: dict[int, dict[str, Any]] = {}
    for found in given.values():
        if found.tag is not None:
            node = next(n for n, one in by_node.items() if one is found.source)
            sides.setdefault(node, {})[str(found.tag.tag)] = found.tag.output_type
    specs: dict[int, OperatorSpec] = {}
    for node, name in names.items():
        one = by_node[node]
        source = "source" in one.kind
        operator: Any = CommitterOperator() if node in committers else one.pickled or one.operator
        if source and columnar[node]:
            operator = operator.batches()
        if node in terminals:
            feeding = given[node, 0]
            gives = columnar[next(n for n, other in by_node.items() if other is feeding.source)]
            operator = terminal_operator(
                terminals[node].edge,
                terminals[node].sink,
                (feeding.tag or feeding.source).output_type,
                columnar=gives and feeding.tag is None,
            )
        specs[node] = OperatorSpec(
            node=node,
            name=name,
            operator=operator,
            output_type=one.output_type,
            side_output_types=sides.get(node, {}),
            source=source,
            splits=tuple(map(tuple, operator.splits(parallelism))) if source else (),
        )
        if source and _stamps(one):
            # in Flink part of the source operator; here an operator of its own after the reader
            specs[node] = replace(specs[node], node=-node)
            specs[-node], specs[node] = (
                specs[node],
                OperatorSpec(
                    node=node,
                    name=name,
                    operator=TimestampsAndWatermarksOperator(one.watermark_strategy),
                    output_type=one.output_type,
                ),
            )
            edges.append(ChainedEdge(source_node=-node, target_node=node))
    in_order = chain_order(specs, tuple(edges))
    return tuple(specs[node] for node in in_order), tuple(edges)
