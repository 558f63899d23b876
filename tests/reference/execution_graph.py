"""The ExecutionGraph: consumed ranges (EdgeManagerBuildUtil, VertexInputInfoComputationUtils)."""

from dataclasses import dataclass

from tests.reference.job_graph import DataSet, JobEdge, JobGraph
from tests.reference.refusal import FlinkRefusalError
from tests.reference.scheduling_regions import check_co_located_tasks
from tests.reference.slot_groups import SlotGroups

_UPPER_BOUND = 2**15


@dataclass(eq=False)
class ExecutionGraph:
    """By vertex id."""

    parallelism: dict[str, int]
    max_parallelism: dict[str, int]


def create_execution_graph(job: JobGraph, groups: SlotGroups) -> ExecutionGraph:
    execution = ExecutionGraph({}, {})
    for vertex in job.vertices.values():
        parallelism = 1 if vertex.parallelism == -1 else vertex.parallelism
        maximum = vertex.max_parallelism
        if maximum == -1:
            if parallelism > _UPPER_BOUND:
                _refuse("IllegalArgumentException", f"Operator parallelism not within bounds: {parallelism}")
            half_more = parallelism + parallelism // 2
            maximum = min(max(1 << (half_more - 1).bit_length(), 128), _UPPER_BOUND)
        if parallelism > _UPPER_BOUND:
            _refuse(
                "IllegalArgumentException",
                f"Setting parallelism is not in valid bounds (1..32768), found: {parallelism}",
            )
        execution.parallelism[vertex.id] = parallelism
        execution.max_parallelism[vertex.id] = maximum
    for vertex in job.topological_order:
        parallelism, maximum = execution.parallelism[vertex.id], execution.max_parallelism[vertex.id]
        if parallelism > maximum:
            _refuse(
                "JobException",
                f"Vertex {vertex.name}'s parallelism ({parallelism}) is higher than the max parallelism "
                f"({maximum}). Please lower the parallelism or increase the max parallelism.",
            )
    if groups.co_location:
        check_co_located_tasks(job, groups, execution.parallelism, consumed_partitions)
    return execution


def _refuse(error: str, message: str) -> None:
    raise FlinkRefusalError("execution_graph", error, message)


def consumed_partitions(
    data_set: DataSet, consumers: int, parallelism: dict[str, int]
) -> list[tuple[int, int]]:
    """Of each consumer subtask, the first and last partition it reads."""
    producers = parallelism[data_set.producer.id]
    if not data_set.pointwise:
        return [(0, producers - 1)] * consumers
    if producers >= consumers:
        return [(i * producers // consumers, (i + 1) * producers // consumers - 1) for i in range(consumers)]
    ranges = []
    for partition in range(producers):
        start, end = _consumers_of(partition, producers, consumers)
        ranges.extend([(partition, partition)] * (end - start))
    return ranges


def _consumers_of(partition: int, producers: int, consumers: int) -> tuple[int, int]:
    """The consumer subtasks [start, end) of a partition where there are fewer producers than consumers."""
    return (
        (partition * consumers + producers - 1) // producers,
        ((partition + 1) * consumers + producers - 1) // producers,
    )


def consumed_subpartitions(edge: JobEdge, execution: ExecutionGraph) -> list[int]:
    """Of each consumer subtask, the one subpartition it reads of every partition."""
    producers = execution.parallelism[edge.data_set.producer.id]
    consumers = execution.parallelism[edge.target.id]
    if not edge.data_set.pointwise:
        return list(range(consumers))
    if producers >= consumers:
        return [0] * consumers
    found: list[int] = []
    for partition in range(producers):
        start, end = _consumers_of(partition, producers, consumers)
        found.extend(i % (end - start) for i in range(start, end))
    return found
