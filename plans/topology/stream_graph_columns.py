"""Parsed stream graphs as Arrow columns of STREAM_NODES and STREAM_EDGES."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.tables import STREAM_NODES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.transformation_columns import cells, list_array, resources_array, weights_array
from penstock.plans.vocabulary import PARTITIONER_CLASSES, TABLE_HASH_CLASS, UNSPECIFIED_FORWARD_CLASS

_STRING, _INT32, _INT64, _BOOL = pa.string(), pa.int32(), pa.int64(), pa.bool_()

_NODE_COLUMNS: dict[str, pa.DataType] = {
    "id": _INT32,
    "name": _STRING,
    "parallelism": _INT32,
    "max_parallelism": _INT32,
    "parallelism_configured": _BOOL,
    "slot_sharing_group": _STRING,
    "co_location_group": _STRING,
    "uid": _STRING,
    "uid_hash": _STRING,
    "buffer_timeout": _INT64,
    "chaining": _STRING,
    "source": _BOOL,
    "legacy_source": _BOOL,
    "yielding": _BOOL,
    "coordinated": _BOOL,
    "invokable": _STRING,
    "operator_factory": _STRING,
    "input_format": _BOOL,
    "output_format": _BOOL,
    "no_output_until_end_of_input": _BOOL,
    "supports_concurrent_execution_attempts": _BOOL,
    "among_sources": _BOOL,
    "description": _STRING,
    "keyed": _BOOL,
    "operator_class": _STRING,
    "function_class": _STRING,
    "output_type": _STRING,
    "consumes_data_set": _STRING,
    "transformation": _INT32,
}
_EDGE_COLUMNS: dict[str, pa.DataType] = {
    "source": _INT32,
    "target": _INT32,
    "in_index": _INT32,
    "out_index": _INT32,
    "type_number": _INT32,
    "unique_id": _INT32,
    "partitioner": _STRING,
    "partitioner_class": _STRING,
    "partitioner_key": _STRING,
    "pointwise": _BOOL,
    "broadcast": _BOOL,
    "exchange_mode": _STRING,
    "output_tag": _STRING,
    "selected_names": pa.list_(_STRING),
    "buffer_timeout": _INT64,
    "unaligned_checkpoints": _BOOL,
    "edge_id": _STRING,
    "persistent_data_set": _STRING,
}
_RENAMED = {"unaligned_checkpoints": "supports_unaligned_checkpoints"}
_EQUAL_IF_SAME_OBJECT = ("KeyGroupStreamPartitioner", "CustomPartitionerWrapper")
_EQUAL_BY_CLASS = frozenset(
    {*PARTITIONER_CLASSES.values(), UNSPECIFIED_FORWARD_CLASS}.difference(_EQUAL_IF_SAME_OBJECT)
)


def partitioner_key(edge: dict[str, Any], compared: bool = False) -> str:
    """A key that is equal where StreamPartitioner.equals holds among the edges of one source.

    Partitioners are equal by class, BinaryHashPartitioner also by its fields, which its name lists
    (`HASH[a, b]`). Two that hold a key selector or a user's function are equal only if those are, which a
    stream graph says only if its partitioners were `compared`: else they are taken as different, as
    separately written ones are.
    """
    partitioner_class: str = edge["partitioner_class"]
    if compared and partitioner_class not in _EQUAL_BY_CLASS:
        return f"#{edge.get('equal_partitioner', edge['edge_id'])}"
    if partitioner_class in _EQUAL_IF_SAME_OBJECT:
        return f"{partitioner_class}#{edge['edge_id']}"
    if partitioner_class == TABLE_HASH_CLASS:
        return f"{partitioner_class}#{edge['partitioner']}"
    return partitioner_class


def placed_edges(graph: dict[str, Any]) -> list[dict[str, Any]]:
    """The edges of a valid stream graph with their places in the edge lists of both ends."""
    compared = graph.get("partitioners_compared", False)
    in_index = {e: i for node in graph["nodes"] for i, e in enumerate(node["in_edges"])}
    out_index = {e: i for node in graph["nodes"] for i, e in enumerate(node["out_edges"])}
    return [
        {
            **edge,
            "in_index": in_index[edge["edge_id"]],
            "out_index": out_index[edge["edge_id"]],
            "unique_id": int(edge["edge_id"].rpartition("_")[2]),
            "partitioner_key": partitioner_key(edge, compared),
        }
        for edge in graph["edges"]
    ]


def nodes_with_sources(graph: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes of a valid stream graph, each with whether it is among the graph's `sources`."""
    sources = frozenset(graph["sources"])
    return [{**node, "among_sources": node["id"] in sources} for node in graph["nodes"]]


def stream_node_columns(nodes: Sequence[dict[str, Any]]) -> pa.StructArray:
    """Valid stream nodes as one struct array: the columns of STREAM_NODES after topology_id."""
    requirements = [
        [(int(index), need) for index, need in node["input_requirements"].items()] for node in nodes
    ]
    complex_keys = ("managed_memory", "slot_scope", "min_resources", "preferred_resources")
    values = cells(nodes, (*_NODE_COLUMNS, *complex_keys))
    columns = {key: pa.array(values[key], data_type) for key, data_type in _NODE_COLUMNS.items()}
    # StreamingJobGraphGenerator.createChain asks for either.
    columns["no_output_until_end_of_input"] = pc.or_(
        columns["no_output_until_end_of_input"],
        pa.array([node["output_only_after_end_of_stream"] for node in nodes], _BOOL),
    )
    columns |= {
        "managed_memory": weights_array(values["managed_memory"]),
        "slot_scope": list_array(values["slot_scope"], _STRING),
        "input_requirements": pa.array(requirements, pa.map_(_INT32, _STRING)),
        "min_resources": resources_array(values["min_resources"]),
        "preferred_resources": resources_array(values["preferred_resources"]),
    }
    names = [name for name in STREAM_NODES.names if name != TOPOLOGY]
    return pa.StructArray.from_arrays([columns[name] for name in names], names=names)


def stream_edge_columns(edges: Sequence[dict[str, Any]]) -> pa.StructArray:
    """Placed edges as one struct array: the columns of STREAM_EDGES after topology_id.

    Chainability is a later pass's: chainable and chained_source are false, the reasons empty.
    """
    values = cells(edges, _EDGE_COLUMNS)
    columns = {_RENAMED.get(key, key): pa.array(values[key], kind) for key, kind in _EDGE_COLUMNS.items()}
    false = pa.array([False] * len(edges), _BOOL)
    columns |= {
        "chainable": false,
        "chained_source": false,
        "not_chainable_reasons": pa.array([[]] * len(edges), pa.list_(_STRING)),
    }
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))
