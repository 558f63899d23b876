"""Scheduling regions, and that co-located tasks must be in one (DefaultExecutionTopology)."""

from collections.abc import Callable

from tests.reference.job_graph import DataSet, JobGraph
from tests.reference.refusal import FlinkRefusalError
from tests.reference.slot_groups import MUST_BE_PIPELINED, SlotGroups, pipelined_regions
from tests.reference.union_find import UnionFind

Task = tuple[str, int]
Ranges = Callable[[DataSet, int, dict[str, int]], list[tuple[int, int]]]


def check_co_located_tasks(
    job: JobGraph, groups: SlotGroups, parallelism: dict[str, int], consumed_partitions: Ranges
) -> None:
    """Raises FlinkRefusalError."""
    tasks = scheduling_regions(job, parallelism, consumed_partitions)
    region_of_constraint: dict[tuple[int, int], Task] = {}
    for vertex_id, group in groups.co_location.items():
        for i in range(parallelism[vertex_id]):
            region = tasks.find((vertex_id, i))
            if region_of_constraint.setdefault((group, i), region) != region:
                raise FlinkRefusalError(
                    "execution_graph",
                    "IllegalStateException",
                    "co-located tasks must be in the same pipelined region",
                )


def scheduling_regions(
    job: JobGraph, parallelism: dict[str, int], consumed_partitions: Ranges
) -> UnionFind[Task]:
    """Tasks of one region are one set.

    A logical region with an all-to-all edge inside is one scheduling region; in others the subtasks form
    regions of their own (SchedulingPipelinedRegionComputeUtil), merged where blocking edges close a cycle.
    """
    logical = pipelined_regions(job)
    whole = {
        logical[v.id]
        for v in job.topological_order
        for e in v.inputs
        if not e.data_set.pointwise and logical[e.data_set.producer.id] == logical[v.id]
    }
    tasks = UnionFind((v.id, i) for v in job.topological_order for i in range(parallelism[v.id]))
    for vertex in job.topological_order:
        if logical[vertex.id] in whole:
            for i in range(parallelism[vertex.id]):
                tasks.union((logical[vertex.id], 0), (vertex.id, i))
    blocking: list[tuple[Task, Task]] = []
    for vertex in job.topological_order:
        for edge in vertex.inputs:
            producer = edge.data_set.producer.id
            if logical[vertex.id] in whole or logical[producer] != logical[vertex.id]:
                continue
            ranges = consumed_partitions(edge.data_set, parallelism[vertex.id], parallelism)
            for i, (first, last) in enumerate(ranges):
                for partition in range(first, last + 1):
                    if edge.data_set.type in MUST_BE_PIPELINED:
                        tasks.union((producer, partition), (vertex.id, i))
                    else:
                        blocking.append(((producer, partition), (vertex.id, i)))
    _merge_cycles(tasks, blocking)
    return tasks


def _merge_cycles(tasks: UnionFind[Task], blocking: list[tuple[Task, Task]]) -> None:
    """Unites the strongly connected regions (Kosaraju, with stacks of its own)."""
    forward: dict[Task, list[Task]] = {}
    backward: dict[Task, list[Task]] = {}
    for a, b in blocking:
        source, target = tasks.find(a), tasks.find(b)
        forward.setdefault(source, []).append(target)
        backward.setdefault(target, []).append(source)
    finished: list[Task] = []
    seen: set[Task] = set()
    for start, first_targets in forward.items():
        if start in seen:
            continue
        seen.add(start)
        stack = [(start, iter(first_targets))]
        while stack:
            region, targets = stack[-1]
            unseen = next((t for t in targets if t not in seen), None)
            if unseen is None:
                finished.append(region)
                stack.pop()
            else:
                seen.add(unseen)
                stack.append((unseen, iter(forward.get(unseen, ()))))
    assigned: set[Task] = set()
    for root in reversed(finished):
        pending = [root] if root not in assigned else []
        assigned.add(root)
        while pending:
            region = pending.pop()
            tasks.union(root, region)
            for source in backward.get(region, ()):
                if source not in assigned:
                    assigned.add(source)
                    pending.append(source)
