"""The reference planner: one topology to its plan JSON, in plain Python.

A direct reading of Flink 2.3.0, for tests only; it shares no code with the planner it tests.
"""

from collections.abc import Mapping
from typing import Any

from tests.reference.chainable import is_chainable
from tests.reference.execution_graph import (
    ExecutionGraph,
    consumed_partitions,
    consumed_subpartitions,
    create_execution_graph,
)
from tests.reference.job_graph import (
    JobGraph,
    JobVertex,
    add_index_prefixes,
    create_job_graph,
    override_parallelism,
)
from tests.reference.read_stream_graph import read_stream_graph
from tests.reference.refusal import FlinkRefusalError
from tests.reference.slot_groups import SlotGroups, assign_slot_groups, operators_of
from tests.reference.slots import share_slots
from tests.reference.stream_graph import StreamGraph
from tests.reference.translate import translate


def plan(topology: Mapping[str, Any]) -> dict[str, Any]:
    """{name, stream_graph, job_graph, execution_graph, slots}, or with error_stage, error and message.

    Layers before the one at which Flink refuses the topology are kept, as the oracle keeps them.
    """
    result: dict[str, Any] = {"name": topology["name"]}
    try:
        graph = read_stream_graph(topology) if "stream_graph" in topology else translate(topology)
        result["stream_graph"] = _stream_graph_json(graph)
        job = create_job_graph(graph)
        groups = assign_slot_groups(job)
        add_index_prefixes(job)
        override_parallelism(job)
        result["job_graph"] = _job_graph_json(job, groups)
        execution = create_execution_graph(job, groups)
        result["execution_graph"] = _execution_graph_json(job, execution)
        result["slots"] = share_slots(job, groups, execution)
    except FlinkRefusalError as refusal:
        result |= {"error_stage": refusal.stage, "error": refusal.error, "message": refusal.message}
    return result


def _stream_graph_json(graph: StreamGraph) -> dict[str, Any]:
    copied = (
        "id", "name", "parallelism", "max_parallelism", "slot_sharing_group", "co_location_group", "uid",
        "uid_hash", "buffer_timeout", "chaining",
    )  # fmt: skip
    return {
        "nodes": [{key: getattr(node, key) for key in copied} for _, node in sorted(graph.nodes.items())],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "type_number": edge.type_number,
                "partitioner": edge.partitioner.name,
                "exchange_mode": edge.exchange_mode,
                "output_tag": edge.output_tag,
                "edge_id": edge.edge_id,
                "chainable": is_chainable(graph, edge),
                **({"selected_names": list(edge.selected_names)} if edge.selected_names else {}),
            }
            for _, node in sorted(graph.nodes.items())
            for edge in node.out_edges
        ],
    }


def _job_graph_json(job: JobGraph, groups: SlotGroups) -> dict[str, Any]:
    return {
        "vertices": [_vertex_json(job, groups, vertex) for vertex in job.vertices.values()],
        "topological_order": [vertex.id for vertex in job.topological_order],
    }


def _vertex_json(job: JobGraph, groups: SlotGroups, vertex: JobVertex) -> dict[str, Any]:
    nodes, chain = job.stream_graph.nodes, vertex.chain
    co_location = groups.co_location.get(vertex.id)
    return {
        "id": vertex.id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism,
        "invokable": nodes[chain.head].invokable,
        "slot_sharing_group": groups.slot_sharing[vertex.id],
        **({} if co_location is None else {"co_location_group": co_location}),
        "operator_ids": [
            [job.hashes[n].hex(), *([h.lower()] if (h := nodes[n].uid_hash) is not None else [])]
            for n in chain.nodes
        ],
        "operators": [
            {
                "node": n,
                "operator_id": job.hashes[n].hex(),
                "name": nodes[n].name,
                "chain_index": chain.chain_index[n],
                "managed_memory_fraction": groups.fractions[n],
            }
            for n in operators_of(vertex)
        ],
        "outputs": [
            {
                "id": data_set.id,
                "type": data_set.type,
                "distribution": _distribution(data_set.pointwise),
                "broadcast": data_set.broadcast,
                "consumers": len(data_set.consumers),
            }
            for data_set in vertex.data_sets.values()
        ],
        "inputs": [
            {
                "source": edge.data_set.producer.id,
                "data_set": edge.data_set.id,
                "distribution": _distribution(edge.data_set.pointwise),
                "ship_strategy": edge.ship_strategy,
                "type_number": edge.type_number,
                "forward": edge.data_set.forward,
                "broadcast": edge.data_set.broadcast,
            }
            for edge in vertex.inputs
        ],
    }


def _distribution(pointwise: bool) -> str:
    return "POINTWISE" if pointwise else "ALL_TO_ALL"


def _execution_graph_json(job: JobGraph, execution: ExecutionGraph) -> dict[str, Any]:
    return {
        "vertices": [
            {
                "id": vertex.id,
                "parallelism": execution.parallelism[vertex.id],
                "max_parallelism": execution.max_parallelism[vertex.id],
                "inputs": [
                    {
                        "data_set": edge.data_set.id,
                        "partitions_by_subtask": [
                            [[first, last]]
                            for first, last in consumed_partitions(
                                edge.data_set, execution.parallelism[vertex.id], execution.parallelism
                            )
                        ],
                        "subpartitions_by_subtask": [
                            [[index, index]] for index in consumed_subpartitions(edge, execution)
                        ],
                    }
                    for edge in vertex.inputs
                ],
            }
            for vertex in job.topological_order
        ]
    }
