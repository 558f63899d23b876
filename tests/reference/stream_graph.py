"""The StreamGraph as plain objects, and StreamGraph.addEdgeInternal."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.reference.refusal import FlinkRefusalError
from tests.reference.settings import Settings

POINTWISE = {"ForwardPartitioner", "ForwardForUnspecifiedPartitioner", "RescalePartitioner"}
FORWARD = {"ForwardPartitioner", "ForwardForUnspecifiedPartitioner", "ForwardForConsecutiveHashPartitioner"}


@dataclass(frozen=True)
class Partitioner:
    """`key`: equal keys among the edges of one operator stand for equal partitioners."""

    name: str
    class_name: str
    key: str
    pointwise: bool
    broadcast: bool

    @property
    def forward(self) -> bool:
        return self.class_name in FORWARD


def partitioner(class_name: str, key: str | None = None) -> Partitioner:
    """A partitioner of the DataStream API by its class."""
    names = {
        "ForwardForUnspecifiedPartitioner": "FORWARD",
        "KeyGroupStreamPartitioner": "HASH",
        "CustomPartitionerWrapper": "CUSTOM",
    }
    name = names.get(class_name, class_name.removesuffix("Partitioner").upper())
    broadcast = class_name == "BroadcastPartitioner"
    return Partitioner(name, class_name, key or class_name, class_name in POINTWISE, broadcast)


@dataclass(eq=False)
class StreamEdge:
    source: int
    target: int
    type_number: int
    partitioner: Partitioner
    exchange_mode: str
    output_tag: str | None
    edge_id: str
    unique_id: int
    buffer_timeout: int
    selected_names: tuple[str, ...] = ()
    persistent_data_set: str | None = None


@dataclass(eq=False)
class StreamNode:
    id: int
    name: str
    parallelism: int
    max_parallelism: int
    invokable: str
    chaining: str | None
    parallelism_configured: bool = False
    slot_sharing_group: str = "default"
    co_location_group: str | None = None
    uid: str | None = None
    uid_hash: str | None = None
    buffer_timeout: int = -1
    source: bool = False
    legacy_source: bool = False
    yielding: bool = False
    ends_before_output: bool = False
    weights: dict[str, int] = field(default_factory=dict)
    slot_scope: set[str] = field(default_factory=set)
    in_edges: list[StreamEdge] = field(default_factory=list)
    out_edges: list[StreamEdge] = field(default_factory=list)


@dataclass(eq=False)
class StreamGraph:
    settings: Settings
    nodes: dict[int, StreamNode] = field(default_factory=dict)
    sources: list[int] = field(default_factory=list)
    edge_counts: dict[tuple[int, int], int] = field(default_factory=dict)
    head_cache: dict[int, StreamNode] = field(default_factory=dict)


@dataclass(frozen=True)
class VirtualNode:
    """One virtual node in front of one other (virtual or real) node."""

    kind: str
    upstream: int
    partitioner: Partitioner | None = None
    exchange_mode: str | None = None
    tag: str | None = None
    names: tuple[str, ...] = ()


def add_edge(
    graph: StreamGraph, virtual: Mapping[int, VirtualNode], upstream: int, downstream: int, type_number: int
) -> None:
    """Resolves virtual nodes from the consumer towards the source.

    Partitioner, tag and names nearest to the consumer win; the exchange mode is overwritten at every
    partition, so the one nearest to the source wins.
    """
    chosen: Partitioner | None = None
    exchange_mode: str | None = None
    tag: str | None = None
    names: tuple[str, ...] = ()
    while upstream in virtual:
        node = virtual[upstream]
        if node.kind == "partition":
            chosen = chosen or node.partitioner
            exchange_mode = node.exchange_mode
        elif node.kind == "side_output":
            tag = node.tag if tag is None else tag
        else:
            names = names or node.names
        upstream = node.upstream
    source, target = graph.nodes[upstream], graph.nodes[downstream]
    if chosen is None:
        chosen = _default_partitioner(graph, source, target)
    if chosen.forward and source.parallelism != target.parallelism:
        raise FlinkRefusalError(
            "stream_graph",
            "UnsupportedOperationException",
            f"Forward partitioning does not allow change of parallelism. Upstream operation: {source.name}-"
            f"{source.id} parallelism: {source.parallelism}, downstream operation: {target.name}-{target.id} "
            f"parallelism: {target.parallelism} You must use another partitioning strategy, such as "
            "broadcast, rebalance, shuffle or global.",
        )
    unique_id = graph.edge_counts.get((upstream, downstream), 0)
    graph.edge_counts[upstream, downstream] = unique_id + 1
    edge = StreamEdge(
        source=upstream,
        target=downstream,
        type_number=type_number,
        partitioner=chosen,
        exchange_mode=exchange_mode or "UNDEFINED",
        output_tag=tag,
        edge_id=(
            f"{source.name}-{upstream}_{target.name}-{downstream}_{type_number}_{chosen.name}_{unique_id}"
        ),
        unique_id=unique_id,
        buffer_timeout=source.buffer_timeout,
        selected_names=names,
    )
    source.out_edges.append(edge)
    target.in_edges.append(edge)


def _default_partitioner(graph: StreamGraph, source: StreamNode, target: StreamNode) -> Partitioner:
    if source.parallelism != target.parallelism:
        return partitioner("RebalancePartitioner")
    return partitioner("ForwardForUnspecifiedPartitioner" if graph.settings.dynamic else "ForwardPartitioner")
