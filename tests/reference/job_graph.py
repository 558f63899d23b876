"""The JobGraph: vertices, edges, data sets, topological order (StreamingJobGraphGenerator, JobGraph)."""

import re
from dataclasses import dataclass, field

from tests.reference.chains import Chain, chained_name, create_chains
from tests.reference.dynamic_parallelism import convert_partitioners, set_dynamic_parallelism
from tests.reference.hashes import operator_hashes
from tests.reference.outputs import HYBRID, Output, operator_outputs
from tests.reference.refusal import FlinkRefusalError
from tests.reference.settings import backlog_interval, check_pausing_of_sources
from tests.reference.stream_graph import StreamEdge, StreamGraph


@dataclass(eq=False)
class JobEdge:
    data_set: "DataSet"
    target: "JobVertex"
    ship_strategy: str
    type_number: int


@dataclass(eq=False)
class DataSet:
    id: str
    type: str
    producer: "JobVertex"
    pointwise: bool
    broadcast: bool
    forward: bool
    consumers: list[JobEdge] = field(default_factory=list)


@dataclass(eq=False)
class JobVertex:
    id: str
    name: str
    chain: Chain
    parallelism: int
    max_parallelism: int
    inputs: list[JobEdge] = field(default_factory=list)
    data_sets: dict[str, DataSet] = field(default_factory=dict)


@dataclass(eq=False)
class JobGraph:
    """`vertices`: head id to vertex, in creation order."""

    stream_graph: StreamGraph
    hashes: dict[int, bytes]
    vertices: dict[int, JobVertex]
    topological_order: list[JobVertex]
    has_hybrid: bool


def create_job_graph(graph: StreamGraph) -> JobGraph:
    backlog_interval(graph.settings, "job_graph")
    hashes = operator_hashes(graph)
    _validate(graph)
    chains = create_chains(graph)
    _refuse_empty_strings(graph, chains)
    if graph.settings.dynamic:
        convert_partitioners(graph, chains)
        set_dynamic_parallelism(graph, chains)
    vertices = {}
    for head, chain in chains.items():
        node = graph.nodes[head]
        name = chained_name(graph, chain)
        vertices[head] = JobVertex(hashes[head].hex(), name, chain, node.parallelism, node.max_parallelism)
    outputs: dict[StreamEdge, Output] = {}
    for head, chain in chains.items():
        for edges in chain.non_chained_edges.values():
            outputs |= operator_outputs(graph, hashes[head], edges)
    has_hybrid = any(o.type in HYBRID for o in outputs.values())
    for vertex in vertices.values():
        for edge in vertex.chain.out_edges:
            _connect(graph, vertex, vertices[edge.target], edge, outputs[edge])
    if has_hybrid and not graph.settings.batch:
        raise FlinkRefusalError(
            "job_graph",
            "IllegalStateException",
            "hybrid shuffle mode only supports batch job, please set execution.runtime-mode to BATCH",
        )
    order = _sort_topologically(list(vertices.values()))
    return JobGraph(graph, hashes, vertices, order, has_hybrid)


def add_index_prefixes(job: JobGraph) -> None:
    """addVertexIndexPrefixInVertexName."""
    if job.stream_graph.settings.index_prefix:
        for index, vertex in enumerate(job.topological_order):
            vertex.name = f"[vertex-{index}]{vertex.name}"


def override_parallelism(job: JobGraph) -> None:
    """Dispatcher.applyParallelismOverrides."""
    given = job.stream_graph.settings.overrides
    pairs = [entry.split(":") for entry in given.split(",") if entry]
    if any(len(pair) != 2 for pair in pairs):
        key = "pipeline.jobvertex-parallelism-overrides"
        message = f"Could not parse value '{given}' for key '{key}'."
        raise FlinkRefusalError("job_graph", "IllegalArgumentException", message)
    overrides = dict(pairs)
    for vertex in job.vertices.values():
        text = overrides.get(vertex.id)
        if text is None:
            continue
        if not re.fullmatch("[-+]?[0-9]+", text) or not -(2**31) <= int(text) < 2**31:
            raise FlinkRefusalError("job_graph", "NumberFormatException", f'For input string: "{text}"')
        if int(text) < 1 and int(text) != -1:
            message = "The parallelism must be at least one, or -1 (unset)."
            raise FlinkRefusalError("job_graph", "IllegalArgumentException", message)
        vertex.parallelism = int(text)


def _validate(graph: StreamGraph) -> None:
    settings = graph.settings
    if settings.checkpointing and settings.unaligned and not settings.force_unaligned:
        edges = (e for n in graph.nodes.values() for e in n.out_edges)
        if any(e.partitioner.class_name == "CustomPartitionerWrapper" for e in edges):
            raise FlinkRefusalError(
                "job_graph",
                "UnsupportedOperationException",
                "Unaligned checkpoints are currently not supported for custom partitioners, as rescaling is "
                "not guaranteed to work correctly.\nThe user can force Unaligned Checkpoints by using "
                "'execution.checkpointing.unaligned.forced'",
            )
    check_pausing_of_sources(settings)


def _refuse_empty_strings(graph: StreamGraph, chains: dict[int, Chain]) -> None:
    """OperatorIDPair, made for every operator but chained sources."""
    for chain in chains.values():
        for node in (graph.nodes[n] for n in chain.nodes):
            for what, text in (("name", node.name), ("uid", node.uid)):
                if text == "":
                    message = f"Empty string operator {what} is not allowed"
                    raise FlinkRefusalError("job_graph", "IllegalArgumentException", message)


def _connect(
    graph: StreamGraph, vertex: JobVertex, target: JobVertex, edge: StreamEdge, output: Output
) -> None:
    if output.type == "BLOCKING" and edge.buffer_timeout != -1:
        raise FlinkRefusalError("job_graph", "UnsupportedOperationException", _no_buffer_timeout(graph, edge))
    chosen = output.partitioner
    data_set_id = output.data_set.hex()
    found = (chosen.pointwise, chosen.broadcast, chosen.class_name == "ForwardPartitioner")
    data_set = vertex.data_sets.setdefault(data_set_id, DataSet(data_set_id, output.type, vertex, *found))
    for what, given, expected in zip(
        ("distribution pattern", "broadcast type", "forward type"),
        found,
        (data_set.pointwise, data_set.broadcast, data_set.forward),
        strict=True,
    ):
        if given != expected:
            raise FlinkRefusalError("job_graph", "IllegalStateException", f"Incompatible {what}.")
    job_edge = JobEdge(data_set, target, chosen.name, edge.type_number)
    target.inputs.append(job_edge)
    data_set.consumers.append(job_edge)


def _no_buffer_timeout(graph: StreamGraph, edge: StreamEdge) -> str:
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    tag = "null" if edge.output_tag is None else f"OutputTag(Long, {edge.output_tag})"
    return (
        f"only canBePipelinedConsumed partition support buffer timeout {edge.buffer_timeout} for src "
        f"operator in edge ({source.name}-{source.id} -> {target.name}-{target.id}, "
        f"typeNumber={edge.type_number}, outputPartitioner={edge.partitioner.name}, "
        f"exchangeMode={edge.exchange_mode}, bufferTimeout={edge.buffer_timeout}, outputTag={tag}, "
        f"uniqueId={edge.unique_id}). \nPlease either disable buffer timeout (via -1) or use the "
        "canBePipelinedConsumed partition."
    )


def _sort_topologically(vertices: list[JobVertex]) -> list[JobVertex]:
    """JobGraph.getVerticesSortedTopologicallyFromSources: depth first from each vertex that is placed."""
    open_inputs = {v.id: len(v.inputs) for v in vertices}
    order = [v for v in vertices if not v.inputs]
    placed = {v.id for v in order}
    for vertex in order:
        for edge in _consumers(vertex):
            open_inputs[edge.target.id] -= 1
    for position in range(len(vertices)):
        stack = [iter(_consumers(order[position]))]
        while stack:
            edges = (e for e in stack[-1] if e.target.id not in placed and open_inputs[e.target.id] == 0)
            target = next((e.target for e in edges), None)
            if target is None:
                stack.pop()
                continue
            order.append(target)
            placed.add(target.id)
            consumers = _consumers(target)
            for consumer in consumers:
                open_inputs[consumer.target.id] -= 1
            stack.append(iter(consumers))
    return order


def _consumers(vertex: JobVertex) -> list[JobEdge]:
    return [edge for data_set in vertex.data_sets.values() for edge in data_set.consumers]
