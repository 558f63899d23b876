"""Slot sharing groups, co-location groups, managed memory fractions (setSlotSharing, setCoLocation)."""

from collections import Counter
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal

from tests.reference.job_graph import JobGraph, JobVertex
from tests.reference.refusal import FlinkRefusalError
from tests.reference.union_find import UnionFind

MUST_BE_PIPELINED = ("PIPELINED", "PIPELINED_BOUNDED")


@dataclass(eq=False)
class SlotGroups:
    """By vertex id; a group is a small integer. `fractions`: node id to use case to fraction."""

    slot_sharing: dict[str, int] = field(default_factory=dict)
    co_location: dict[str, int] = field(default_factory=dict)
    fractions: dict[int, dict[str, float]] = field(default_factory=dict)


def assign_slot_groups(job: JobGraph) -> SlotGroups:
    groups = SlotGroups()
    region_of = pipelined_regions(job)
    numbers: dict[tuple[str, str], int] = {}
    for head, vertex in job.vertices.items():
        name = job.stream_graph.nodes[head].slot_sharing_group
        if name != "default" and job.has_hybrid:
            raise FlinkRefusalError(
                "job_graph",
                "IllegalStateException",
                "hybrid shuffle mode currently does not support setting non-default slot sharing group.",
            )
        per_region = name == "default" and not job.stream_graph.settings.one_slot_sharing_group
        key = (name, region_of[vertex.id] if per_region else "")
        groups.slot_sharing[vertex.id] = numbers.setdefault(key, len(numbers))
    _assign_co_location(job, groups)
    _set_managed_memory_fractions(job, groups)
    return groups


def pipelined_regions(job: JobGraph) -> dict[str, str]:
    """Vertex id to the id of one vertex of its logical pipelined region."""
    regions = UnionFind(v.id for v in job.topological_order)
    for vertex in job.topological_order:
        for edge in vertex.inputs:
            if edge.data_set.type in MUST_BE_PIPELINED:
                regions.union(edge.data_set.producer.id, vertex.id)
    return {v.id: regions.find(v.id) for v in job.topological_order}


def _assign_co_location(job: JobGraph, groups: SlotGroups) -> None:
    first: dict[str, tuple[int, int]] = {}
    for head, vertex in job.vertices.items():
        key = job.stream_graph.nodes[head].co_location_group
        if key is None:
            continue
        slot_sharing = groups.slot_sharing[vertex.id]
        of_group, number = first.setdefault(key, (slot_sharing, len(first)))
        if of_group != slot_sharing:
            raise FlinkRefusalError(
                "job_graph",
                "IllegalStateException",
                "Cannot co-locate operators from different slot sharing groups",
            )
        groups.co_location[vertex.id] = number


def _set_managed_memory_fractions(job: JobGraph, groups: SlotGroups) -> None:
    """Every operator gets a fraction for every use case of its slot sharing group."""
    nodes = job.stream_graph.nodes
    members: dict[int, list[int]] = {}
    for vertex in job.vertices.values():
        operators = members.setdefault(groups.slot_sharing[vertex.id], [])
        operators.extend(operators_of(vertex))
    for operators in members.values():
        total: Counter[str] = Counter()
        for n in operators:
            total.update(nodes[n].weights)
        slot_scope = sorted({use for n in operators for use in nodes[n].slot_scope})
        for n in operators:
            weights = nodes[n].weights
            fractions = {use: _rounded_down(weights.get(use, 0), total[use]) for use in sorted(total)}
            fractions |= {use: float(use in nodes[n].slot_scope) for use in slot_scope}
            groups.fractions[n] = fractions


def operators_of(vertex: JobVertex) -> list[int]:
    """Head first, then the others by id; chained sources too."""
    chain = vertex.chain
    return [chain.head, *sorted(n for n in (*chain.sources, *chain.nodes) if n != chain.head)]


def _rounded_down(weight: int, total: int) -> float:
    quotient = Decimal(weight) / Decimal(total)
    return float(quotient.quantize(Decimal(1).scaleb(-16), rounding=ROUND_DOWN))
