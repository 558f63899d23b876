"""JobEdges of a plan as the two ends that subtasks write to and read from."""

from collections.abc import Mapping
from typing import Any

from penstock.engine.run.runtime.runnable_nodes import NodeInput, RunnableNode
from penstock.operators.exchange.output_spec import GateSpec, OutputSpec

Rows = list[dict[str, Any]]


def readers_of(rows: Mapping[str, Rows]) -> dict[str, dict[int, tuple[int, int]]]:
    """For each data set and partition: the first subtask that reads it, and how many do."""
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


def output_spec(
    row: dict[str, Any],
    inputs: Mapping[tuple[int, int], NodeInput],
    edge_numbers: Mapping[tuple[int, int], int],
    sizes: Mapping[int, dict[str, Any]],
    readers: Mapping[str, Mapping[int, tuple[int, int]]],
    by_node: Mapping[int, RunnableNode],
    batch: bool,
    limit: int | None = None,
) -> OutputSpec:
    """A JobEdge (`row` of table job_edges) as its producer writes it."""
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


def gate_spec(
    row: dict[str, Any],
    inputs: Mapping[tuple[int, int], NodeInput],
    edge_numbers: Mapping[tuple[int, int], int],
    by_node: Mapping[int, RunnableNode],
    batch: bool,
) -> GateSpec:
    """A JobEdge as its consumer reads it."""
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
