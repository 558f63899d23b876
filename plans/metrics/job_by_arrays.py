"""Metrics of one job for a given chaining and given slot sharing groups, over arrays."""

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from penstock.plans.custom_planners.check_answer import NEVER_CHAINED
from penstock.plans.custom_planners.find_violations import Invariant
from penstock.plans.errors import BrokenInvariantError
from penstock.plans.frames.arrays import Ints
from penstock.plans.job_graph.choose_result_partition_types import IS_CHAINED, REUSABLE
from penstock.plans.job_graph.job_graph_checks import MAX_INT
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.evaluate_arrays import (
    NUMBERS,
    WHOLE,
    Change,
    Figures,
    JobArrays,
    Memory,
    WorkingMemory,
    evaluate,
)
from penstock.plans.metrics.fill_progressively import FlowGraph, offered_arrays, room_arrays
from penstock.plans.metrics.operator_costs import selectivity_of_levels
from penstock.plans.metrics.plan_metrics import edges_of_tables, operators_of_tables, slots_of_tables
from penstock.plans.metrics.rates_and_loads import (
    Constants,
    ModelCluster,
    SortedGraph,
    copies_read,
    count_task_managers,
    graph_of_flows,
    handover_costs,
    limits_of,
    remote_shares,
    shares_of_outputs,
    sort_by_input,
)
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.resources.memory_and_buffers import (
    USE_CASES,
    NetworkOptions,
    fractions_of_slot,
    state_backend_uses_managed_memory,
)
from penstock.plans.topology.operator_rules import SLOT_SCOPE
from penstock.plans.vocabulary import BufferSide, ManagedMemoryUseCase, SlotSharingStrategy

# A job's arrays, from its plan with every operator in a vertex of its own.


Tables = Mapping[str, pl.DataFrame]


def _places_follow_groups(tables: Tables) -> bool:
    """Return whether subtask i of every vertex is in slot i of its group, and each edge has its own data set.

    `tables`: the plan of one job. This holds for jobs of static streaming graphs without co-location, chained
    sources, and pointwise edges between unequal parallelism. In such jobs, an edge's contribution to channels
    and buffers does not depend on others.
    """
    (settings,) = tables["job_settings"].select(
        "dynamic", "all_vertices_in_same_slot_sharing_group", "vertex_name_include_index_prefix"
    ).rows(named=True)  # fmt: skip
    if (
        settings["dynamic"]
        or not settings["all_vertices_in_same_slot_sharing_group"]
        or settings["vertex_name_include_index_prefix"]
    ):
        return False
    nodes, edges = tables["stream_nodes"], tables["stream_edges"]
    vertices, data_sets = tables["job_vertices"], tables["intermediate_data_sets"]
    if (
        edges["chained_source"].any()
        or (nodes["yielding"].any() and nodes["legacy_source"].any())
        or vertices["co_location_group"].is_not_null().any()
        or vertices.is_empty()
        or data_sets["result_partition_type"].is_in([kind.value for kind in REUSABLE]).any()
        or (data_sets["consumers"] > 1).any()
    ):
        return False
    parallelism = dict(nodes.select("id", "parallelism").iter_rows())
    return all(
        parallelism[source] == parallelism[target]
        for source, target in edges.filter("pointwise").select("source", "target").iter_rows()
    )


def _arrays_of_job(
    apart: Tables,
    costs: pl.DataFrame,
    task_manager: TaskManager,
    network: NetworkOptions,
    constants: Constants,
) -> tuple[JobArrays, Memory, SortedGraph] | None:
    """Return the arrays, the memory of evaluations, and nodes and edges in the order of the arrays.

    `apart`: the plan in which no edge is chained, for which _places_follow_groups holds. None if it has a
    cycle.
    """
    cluster = ModelCluster(constants, task_manager.slots, network.segment_size_bytes)
    order = sort_by_input(
        operators_of_tables(apart, costs), edges_of_tables(apart["stream_edges"], apart["topologies"])
    )
    nodes, edges = order.nodes, order.edges
    turns = _producers_first(order)
    if len(turns) < len(nodes.ids):
        return None
    shares, copies = shares_of_outputs(order), copies_read(order)
    selectivity = selectivity_of_levels(
        nodes.selectivity, nodes.levels, order.source, order.target, copies * shares
    )
    reads = np.bincount(order.target, minlength=len(nodes.ids)) > 0
    slots = slots_of_tables(apart)
    remote = remote_shares(order, slots, count_task_managers(order, slots, cluster.slots))
    handover = handover_costs(constants, cluster.buffer_bytes, nodes.record_bytes[order.source], edges)
    graph = graph_of_flows(order, slots, handover, np.where(reads, selectivity, 1.0), shares, copies, remote)
    by_name = {name: number for number, name in enumerate(_groups(apart, order).unique().sort())}
    counts = _count_per_edge(apart, order, network)
    job = JobArrays(
        order=turns,
        in_vertex=order.heads >= 0,
        group=np.array([by_name[name] for name in _groups(apart, order)], np.int64),
        levels=np.unique(nodes.tasks),
        nanoseconds=nodes.cpu_nanoseconds_per_record,
        bytes=nodes.record_bytes,
        **handover._asdict(),
        forward=edges.forward,
        execution_edges=counts["execution_edges"].to_numpy(),
        channels=counts["channels"].to_numpy(),
        buffers=counts["buffers"].to_numpy(),
        options=np.array([task_manager.slots, int(edges.alone.any())]),
    )
    return job, _memory(job, graph), order


def _producers_first(order: SortedGraph) -> Ints:
    """Return node positions, producers first, without nodes on and after a cycle."""
    waiting = np.bincount(order.target, minlength=len(order.nodes.ids)).tolist()
    readers: list[list[int]] = [[] for _ in waiting]
    for source, target in zip(order.source.tolist(), order.target.tolist(), strict=True):
        readers[source].append(target)
    turns = [node for node, count in enumerate(waiting) if count == 0]
    for node in turns:
        for reader in readers[node]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                turns.append(reader)
    return np.array(turns, np.int64)


def _groups(apart: Tables, order: SortedGraph) -> pl.Series:
    names = dict(apart["stream_nodes"].select("id", "slot_sharing_group").iter_rows())
    return pl.Series([names[node] for node in order.nodes.ids.tolist()], dtype=pl.String)


def _count_per_edge(apart: Tables, order: SortedGraph, network: NetworkOptions) -> pl.DataFrame:
    """Return execution edges, channels and network buffers of each edge, 0 if it connects no vertices."""
    tasks = apart["execution_job_vertices"].select("vertex", "parallelism")
    task_buffers = apart["network_buffers"].join(tasks, on="vertex").select(
        "vertex", "side", "index",
        buffers=pl.coalesce("announced", "required").cast(pl.Int64) * pl.col("parallelism"),
    )  # fmt: skip
    gates, partitions = (
        task_buffers.filter(pl.col("side") == side.value).drop("side") for side in BufferSide
    )
    read = pl.col("last_partition").cast(pl.Int64) - pl.col("first_partition") + 1
    parts = pl.col("last_subpartition").cast(pl.Int64) - pl.col("first_subpartition") + 1
    connected = (
        apart["execution_edges"]
        .group_by("target_vertex", "input_index")
        .agg(execution_edges=read.sum(), channels=(read * parts).sum())
    )
    edges = (
        apart["job_edges"]
        .join(connected, on=["target_vertex", "input_index"])
        .join(apart["intermediate_data_sets"].select("data_set_id", "output_index"), on="data_set_id")
        .join(gates, left_on=["target_vertex", "input_index"], right_on=["vertex", "index"])
        .join(
            partitions.rename({"buffers": "sent"}),
            left_on=["source_vertex", "output_index"],
            right_on=["vertex", "index"],
        )
        .select(
            *(pl.col(name).cast(pl.Int64) for name in ("target_node", "in_index")),
            "execution_edges",
            "channels",
            buffers=pl.col("buffers") + pl.col("sent"),
        )
    )
    keys = pl.DataFrame({"target_node": order.edges.targets, "in_index": order.edges.in_indexes})
    edge_counts = keys.join(edges, on=["target_node", "in_index"], how="left", maintain_order="left")
    return edge_counts.select(pl.col("execution_edges", "channels", "buffers").fill_null(0).cast(pl.Int64))


def _memory(job: JobArrays, graph: FlowGraph) -> Memory:
    nodes, edges = len(job.order), len(job.size)
    most = nodes * (len(job.levels) + 1)
    graph = graph._replace(
        first_kind=np.zeros(2, np.int64),
        first_member=np.zeros(most + 1, np.int64),
        members=np.zeros(most, np.int64),
        is_first=np.zeros(most, np.int64),
        **{
            name: getattr(graph, name).copy()
            for name in (
                *("heads", "seconds", "background", "sent", "leaves", "stays"),
                *("edge_seconds", "edge_background"),
            )
        },
    )
    return Memory(
        graph,
        WorkingMemory(
            by_group=np.zeros(nodes, np.int64),
            first_of_group=np.zeros(2 * nodes + 1, np.int64),
            largest=np.zeros(2 * nodes, np.int64),
            length=np.zeros(nodes, np.int64),
            task_managers=np.ones(1),
        ),
        offered_arrays(nodes, edges, 1),
        room_arrays(nodes, edges, most),
        Figures(np.zeros(len(WHOLE), np.int64), np.zeros(len(NUMBERS))),
    )


Costs = Callable[[pl.DataFrame, pl.DataFrame], pl.DataFrame]
Decisions = Mapping[str, Mapping[Any, Any]]

_CHAINING, _GROUPS = "chaining", "slot_sharing_groups"


def job_by_arrays(
    tables: Tables,
    plan_apart: Callable[[], Tables | None],
    options: PlanOptions,
    costs: Costs,
    constants: Constants,
) -> "JobByArrays | None":
    """Return the evaluator of one job, or None if its metrics depend on more than JobArrays contain.

    `tables`: Flink's plan of one job; `plan_apart`: plans it without any chain, None if it is refused (see
    _places_follow_groups).
    """
    if options.slot_sharing_strategy is not SlotSharingStrategy.LOCAL_INPUT_PREFERRED:
        return None
    if not _places_follow_groups(tables):
        return None
    apart = plan_apart()
    if apart is None or not _places_follow_groups(apart):  # edges and heads that Flink's plan lacks
        return None
    operator_costs = costs(tables["stream_nodes"], tables["stream_edges"])
    arrays = _arrays_of_job(apart, operator_costs, options.task_manager, options.network, constants)
    return None if arrays is None else JobByArrays(tables, *arrays, options, constants)


class JobByArrays:
    """Evaluates decisions about chaining and slot sharing groups. Not thread-safe."""

    def __init__(
        self,
        tables: Tables,
        job: JobArrays,
        memory: Memory,
        order: SortedGraph,
        options: PlanOptions,
        constants: Constants,
    ) -> None:
        self._job, self._memory, self._order = job, memory, order
        self._limits = limits_of(constants)
        self._segment_bytes = options.network.segment_size_bytes
        self._slots = options.task_manager.slots
        self._name: str = tables["topologies"]["name"][0]
        self._ids = order.nodes.ids.tolist()
        self._place = {node: place for place, node in enumerate(self._ids)}
        names = dict(tables["stream_nodes"].select("id", "name").iter_rows())
        self._names = [names[node] for node in self._ids]
        keys = zip(order.edges.targets.tolist(), order.edges.in_indexes.tolist(), strict=True)
        self._edge = {key: place for place, key in enumerate(keys)}
        rows = tables["stream_edges"].select(
            "target", "in_index", "out_index", "not_chainable_reasons", chained=IS_CHAINED
        )
        self._chained = np.zeros(len(self._edge), np.bool_)
        self._against: list[list[str]] = [[] for _ in self._edge]
        out: list[tuple[int, int, int]] = []
        for target, in_index, out_index, reasons, chained in rows.iter_rows():
            edge = self._edge[target, in_index]
            self._chained[edge] = chained
            self._against[edge] = [reason for reason in reasons if reason in NEVER_CHAINED]
            out.append((out_index, edge, order.target[edge]))
        self._readers: list[list[tuple[int, int]]] = [[] for _ in self._ids]
        for _, edge, target in sorted(out):
            self._readers[order.source[edge]].append((edge, int(target)))
        self._flinks_managed_bytes: int | None = None
        self._no_group = np.full(len(self._ids), -1, np.int64)
        self._managed_of_groups = ManagedMemoryOfGroups(tables, self._place, options.task_manager)
        self._group = job.group.tolist()

    def evaluate(self, decided: Decisions, new: Decisions) -> tuple[Any, ...] | None:
        """Return the values in the order of METRICS under all of `decided`; `new`: decisions not validated
        before.

        None if groups affect the division of managed memory. Raises BrokenInvariantError for an edge that may
        not be chained, and for unknown edges and vertices.
        """
        chained, groups = self._chained.copy(), self._no_group
        for key in new.get(_CHAINING, ()):
            self._require_edge(key, new[_CHAINING][key])
        for key, value in decided.get(_CHAINING, {}).items():
            chained[self._edge[key]] = value
        if _GROUPS in decided:
            groups = groups.copy()
            numbers: dict[str, int] = {}
            for vertex, name in decided[_GROUPS].items():
                place = self._place.get(vertex)
                if place is not None:
                    groups[place] = len(groups) + numbers.setdefault(str(name), len(numbers))
        changed = Change(chained, groups)
        evaluate(self._job, changed, self._limits, self._memory)
        for vertex in new.get(_GROUPS, ()):
            self._require_vertex(vertex)
        return self._row(changed)

    def _row(self, changed: Change) -> tuple[Any, ...] | None:
        figures = self._memory.figures
        (in_chains, vertices, longest, tasks, execution_edges, channels, slots, buffers, fullest, path,
         bottleneck, needed) = figures.whole.tolist()  # fmt: skip
        (exchanged, shuffled, remote, cpu_load, exchange_load, utilisation, slot_utilisation,
         network_utilisation, offered, delivered, sustained) = figures.numbers.tolist()  # fmt: skip
        managed = self._managed_bytes(changed)
        if managed is None:
            return None
        rate = sustained if 0 < sustained < inf else None
        return (
            len(self._ids), vertices, in_chains / vertices, longest, tasks, execution_edges, channels,
            slots, -(-slots // self._slots), buffers, buffers * self._segment_bytes, managed, fullest,
            fullest / (tasks / slots), path, exchanged, shuffled, remote, cpu_load, exchange_load,
            utilisation, slot_utilisation, network_utilisation, self._chained_name(bottleneck, changed),
            offered, delivered, rate, None if rate is None else rate / slots, needed,
        )  # fmt: skip

    def _managed_bytes(self, changed: Change) -> int | None:
        if changed.decided_group is self._no_group and self._flinks_managed_bytes is not None:
            return self._flinks_managed_bytes
        decided = changed.decided_group.tolist()
        groups = [own if other < 0 else other for own, other in zip(self._group, decided, strict=True)]
        managed_bytes = self._managed_of_groups.bytes_of_fullest(self._memory.graph.heads.tolist(), groups)
        if changed.decided_group is self._no_group:
            self._flinks_managed_bytes = managed_bytes
        return managed_bytes

    def _chained_name(self, place: int, changed: Change) -> str:
        """Return the name of the vertex, as StreamingJobGraphGenerator.createChainedName."""
        pieces: list[str] = []
        todo: list[int | str] = [place]
        chained = changed.chained
        while todo:
            piece = todo.pop()
            if isinstance(piece, str):
                pieces.append(piece)
                continue
            pieces.append(self._names[piece])
            below: list[int | str] = [reader for edge, reader in self._readers[piece] if chained[edge]]
            if len(below) == 1:
                todo += [below[0], " -> "]
            elif below:
                listed: list[int | str] = [" -> (", below[0]]
                for reader in below[1:]:
                    listed += [", ", reader]
                todo += reversed([*listed, ")"])
        return "".join(pieces)

    def _require_edge(self, key: tuple[int, int], chained: bool) -> None:
        edge = self._edge.get(key)
        if edge is None:
            raise BrokenInvariantError(
                f"{self._name}: {Invariant.UNKNOWN_KEY.value}: "
                f"stream_edges target {key[0]} in_index {key[1]}: "
                "found a decision about it, allowed keys of stream_edges"
            )
        if chained and self._against[edge]:
            source, target = self._order.source[edge], self._order.target[edge]
            raise BrokenInvariantError(
                f"{self._name}: {Invariant.NOT_CHAINABLE.value}: "
                f"edge {self._ids[source]} ({self._names[source]}) "
                f"to {self._ids[target]} ({self._names[target]}): "
                f"found {', '.join(self._against[edge])}, "
                "allowed no such reason on a chained edge",
                "penstock explain lists, for each reason, the change that would make the edge chainable",
            )

    def _require_vertex(self, vertex: int) -> None:
        place = self._place.get(vertex)
        if place is None or self._memory.graph.heads[place] != place:
            raise BrokenInvariantError(
                f"{self._name}: {Invariant.UNKNOWN_KEY.value}: job_vertices vertex {vertex}: "
                "found a decision about it, allowed keys of job_vertices",
                "a vertex is identified by the operator that heads its chain",
            )


# Managed memory of the fullest slot under changing slot sharing groups.


_OPERATOR = ManagedMemoryUseCase.OPERATOR
_CUT = 10**16


class _Consumer(NamedTuple):
    """A node that uses managed memory, with its weight (None if it has none) and its slot-scope use cases."""

    place: int
    weight: int | None
    scopes: frozenset[str]


class ManagedMemoryOfGroups:
    """Bytes used by operators of the fullest slot; see set_managed_memory_fractions, size_managed_memory."""

    def __init__(
        self, tables: Mapping[str, pl.DataFrame], places: Mapping[int, int], task_manager: TaskManager
    ) -> None:
        """Take `places`, the position of each node by id."""
        self._consumers = []
        rows = tables["stream_nodes"].select(
            "id",
            weighs=pl.col("managed_memory").map.len() > 0,
            weight=pl.col("managed_memory").map.get(_OPERATOR.value).fill_null(0),
            scopes="slot_scope",
        )
        for node, weighs, weight, scopes in rows.iter_rows():
            if weighs or scopes:
                self._consumers.append(_Consumer(places[node], weight if weighs else None, frozenset(scopes)))
        self._slot_bytes = float(task_manager.managed_bytes_per_slot)
        self._shares = {use_case: fractions_of_slot(use_case, task_manager) for use_case in USE_CASES}
        uses = tables["job_settings"].select(state_backend_uses_managed_memory(task_manager.state_backend))
        self._managed_state: bool = uses.item()
        self._known: dict[tuple[int, ...], int | None] = {}

    def bytes_of_fullest(self, heads: Any, group_of_head: Any) -> int | None:
        """Return the bytes, given heads and groups by position. None if weights of a group overflow."""
        members: dict[int, list[int]] = {}
        for number, consumer in enumerate(self._consumers):
            head = heads[consumer.place]
            if head >= 0:
                members.setdefault(group_of_head[head], []).append(number)
        most = 0
        for numbers in members.values():
            key = tuple(numbers)
            if key not in self._known:
                self._known[key] = self._bytes([self._consumers[number] for number in numbers])
            group_bytes = self._known[key]
            if group_bytes is None:
                return None
            most = max(most, group_bytes)
        return most

    def _bytes(self, consumers: list[_Consumer]) -> int | None:
        weights = [consumer.weight for consumer in consumers if consumer.weight is not None]
        total = sum(weights)
        if total > MAX_INT:
            return None
        scopes = [
            scope for scope in SLOT_SCOPE if any(scope.value in consumer.scopes for consumer in consumers)
        ]
        present = {*scopes, *([_OPERATOR] if weights else [])}
        if not self._managed_state:
            present.discard(ManagedMemoryUseCase.STATE_BACKEND)
        active = 0
        for use_case in USE_CASES:
            active = active * 2 + (use_case in present)
        used = sum(self._share(_OPERATOR, _cut(weight, total), active) for weight in weights if weight > 0)
        return used + sum(self._share(scope, 1.0, active) for scope in scopes)

    def _share(self, use_case: ManagedMemoryUseCase, fraction: float, active: int) -> int:
        return int(self._slot_bytes * (fraction * self._shares[use_case][active]))


def _cut(weight: int, total: int) -> float:
    """Return weight / total, truncated after the 16th decimal."""
    scaled = weight * _CUT // total
    return float(f"{scaled // _CUT}.{scaled % _CUT:016d}")
