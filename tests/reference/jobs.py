"""JobGraphs of the reference planner, for tests of later layers: of topologies, by hand, and random ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from tests.reference.chains import Chain
from tests.reference.execution_graph import ExecutionGraph
from tests.reference.job_graph import (
    DataSet,
    JobEdge,
    JobGraph,
    JobVertex,
    add_index_prefixes,
    create_job_graph,
    override_parallelism,
)
from tests.reference.read_stream_graph import read_stream_graph
from tests.reference.settings import settings_of_transformations
from tests.reference.slot_groups import SlotGroups, assign_slot_groups
from tests.reference.stream_graph import StreamGraph
from tests.reference.translate import translate


@dataclass(eq=False)
class PlannedJob:
    job: JobGraph
    groups: SlotGroups
    execution: ExecutionGraph


class Edge(NamedTuple):
    """`source` and `target`: places in topological order."""

    source: int
    target: int
    type: str = "PIPELINED_BOUNDED"
    pointwise: bool = False


def job_of_topology(topology: Mapping[str, Any]) -> PlannedJob:
    """Raises FlinkRefusalError where Flink refuses the StreamGraph or JobGraph; checks no later layer."""
    job = create_job_graph(read_stream_graph(topology) if "stream_graph" in topology else translate(topology))
    groups = assign_slot_groups(job)
    add_index_prefixes(job)
    override_parallelism(job)
    parallelism = {v.id: 1 if v.parallelism == -1 else v.parallelism for v in job.topological_order}
    return PlannedJob(job, groups, ExecutionGraph(parallelism, {}))


def make_job(
    parallelisms: Sequence[int],
    edges: Iterable[Edge] = (),
    *,
    slot_sharing: Mapping[int, int] | None = None,
    co_location: Mapping[int, int] | None = None,
    heads: Sequence[int] | None = None,
) -> PlannedJob:
    """Vertices in topological order; groups by place, slot sharing group 0 where none is given.

    The edges of a target are in the order of its gates.
    """
    order = [
        JobVertex(f"{head:04}", f"v{head}", Chain(head), parallelism, -1)
        for head, parallelism in zip(heads or range(len(parallelisms)), parallelisms, strict=True)
    ]
    for source, target, kind, pointwise in edges:
        producer, consumer = order[source], order[target]
        name = f"{producer.id}-{len(producer.data_sets)}"
        data_set = producer.data_sets[name] = DataSet(name, kind, producer, pointwise, False, False)
        edge = JobEdge(data_set, consumer, "SHIP", 0)
        data_set.consumers.append(edge)
        consumer.inputs.append(edge)
    groups = SlotGroups(
        {vertex.id: (slot_sharing or {}).get(i, 0) for i, vertex in enumerate(order)},
        {order[i].id: group for i, group in (co_location or {}).items()},
    )
    execution = ExecutionGraph({vertex.id: vertex.parallelism for vertex in order}, {})
    settings = settings_of_transformations({"name": "job", "transformations": []}, unbounded=False)
    vertices = {vertex.chain.head: vertex for vertex in order}
    return PlannedJob(JobGraph(StreamGraph(settings), {}, vertices, order, False), groups, execution)


_TYPES = (
    ("PIPELINED_BOUNDED",),
    ("PIPELINED_BOUNDED", "PIPELINED_BOUNDED", "BLOCKING"),
    ("PIPELINED", "BLOCKING"),
    ("HYBRID_FULL", "PIPELINED_BOUNDED"),
)


def random_job(seed: int, size: int, *, most_subtasks: int = 40, only_pointwise: bool = False) -> PlannedJob:
    """About anything that tasks can be connected and grouped like, most of which no topology leads to.

    Deterministic in its arguments. Heads of chains are numbered in no order. With `only_pointwise`, edges
    that are not pipelined close a cycle of regions now and then.
    """
    rng = Random(f"{seed} {size} {most_subtasks}")
    palette = [rng.randint(1, most_subtasks) for _ in range(rng.choice((1, 2, 2, 4)))]
    pointwise, types = rng.choice((0.1, 0.6, 1, 1)), rng.choice(_TYPES)
    if only_pointwise:
        pointwise, types = 1, _TYPES[1]
    slot_sharing_groups, co_located = rng.choice((1, 1, 2, 3)), rng.choice((0, 0, 0, 0.2, 0.6))
    slot_sharing = {i: rng.randrange(slot_sharing_groups) for i in range(size)}
    return make_job(
        [rng.choice(palette) for _ in range(size)],
        [
            Edge(rng.randrange(max(t - 5, 0), t), t, rng.choice(types), rng.random() < pointwise)
            for t in range(1, size)
            for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3)))
        ],
        slot_sharing=slot_sharing,
        co_location={
            i: 2 * g + rng.randrange(2) for i, g in slot_sharing.items() if rng.random() < co_located
        },
        heads=rng.sample(range(1, 3 * size + 1), size),
    )
