"""Small topologies for tests."""

import gzip
import json
from pathlib import Path
from typing import Any

_GOLDEN = Path(__file__).parents[2] / "golden"


def golden_files() -> list[Path]:
    """Lines and plans of the real Flink."""
    return sorted(_GOLDEN.glob("*.jsonl.gz"))


def golden_lines(from_each: int = 40) -> list[dict[str, Any]]:
    """The first lines of every golden file, parsed."""
    return [
        json.loads(line)
        for path in golden_files()
        for line in gzip.decompress(path.read_bytes()).splitlines()[:from_each]
    ]


def transformation(id_: int, kind: str = "one_input", **keys: Any) -> dict[str, Any]:
    return {"id": id_, "kind": kind, **keys}


def simple(name: Any = "job", **keys: Any) -> dict[str, Any]:
    """source -> map -> sink."""
    return {
        "name": name,
        "transformations": [
            transformation(1, "source", name="s"),
            transformation(2, inputs=[1], name="m"),
            transformation(3, "sink", inputs=[2], name="k"),
        ],
        **keys,
    }


def stream_node(id_: int, **keys: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "name": f"n{id_}",
        "parallelism": 2,
        "max_parallelism": -1,
        "parallelism_configured": False,
        "slot_sharing_group": "default",
        "co_location_group": None,
        "uid": None,
        "uid_hash": None,
        "buffer_timeout": 100,
        "chaining": "ALWAYS",
        "source": False,
        "legacy_source": False,
        "yielding": False,
        "coordinated": False,
        "invokable": "OneInputStreamTask",
        "operator_factory": "SimpleOperatorFactory",
        "input_format": False,
        "output_format": False,
        "no_output_until_end_of_input": False,
        "output_only_after_end_of_stream": False,
        "supports_concurrent_execution_attempts": True,
        "managed_memory": {},
        "slot_scope": [],
        "input_requirements": {},
        "in_edges": [],
        "out_edges": [],
        **keys,
    }


PRINTED = {
    "RescalePartitioner": "RESCALE",
    "BroadcastPartitioner": "BROADCAST",
    "BinaryHashPartitioner": "HASH[a]",
    "KeyGroupStreamPartitioner": "HASH",
    "RebalancePartitioner": "REBALANCE",
}
"""What partitioners print, by class."""


def stream_edge(source: int, target: int, **keys: Any) -> dict[str, Any]:
    """An edge, by default forward; a `partitioner_class` that is given alone has the name that it prints."""
    return {
        "edge_id": f"n{source}-{source}_n{target}-{target}_0_FORWARD_0",
        "source": source,
        "target": target,
        "type_number": 0,
        "partitioner": PRINTED.get(keys.get("partitioner_class", ""), "FORWARD"),
        "partitioner_class": "ForwardPartitioner",
        "pointwise": True,
        "broadcast": False,
        "exchange_mode": "UNDEFINED",
        "output_tag": None,
        "buffer_timeout": 100,
        "unaligned_checkpoints": False,
        "inter_inputs_keys_correlated": False,
        "intra_input_key_correlated": True,
        "chainable": True,
        **keys,
    }


def stream_graph(name: str = "graph", **keys: Any) -> dict[str, Any]:
    """1 -> 2, translated."""
    edge = stream_edge(1, 2)
    return {
        "name": name,
        "stream_graph": {
            "sources": [1],
            "sinks": [],
            "chaining_enabled": True,
            "global_exchange_mode": "ALL_EDGES_PIPELINED",
            "dynamic": False,
            "chain_different_max_parallelism": True,
            "all_vertices_in_same_slot_sharing_group": True,
            "job_type": "STREAMING",
            "vertex_description_mode": "TREE",
            "vertex_name_include_index_prefix": False,
            "checkpointing": False,
            "nodes": [
                stream_node(1, source=True, out_edges=[edge["edge_id"]]),
                stream_node(2, in_edges=[edge["edge_id"]]),
            ],
            "edges": [edge],
        },
        **keys,
    }


def every_setting() -> dict[str, Any]:
    """A topology that uses every column."""
    topology = simple(
        "every", parallelism=3, max_parallelism=77, chaining=False, config={"b": "2", "a": "1,é|"}
    )
    topology["transformations"] += [
        transformation(4, "one_input", inputs=[1], name="é|:\n\x1f", uid="u", uid_hash="ab" * 16,
                       slot_sharing_group="",
                       co_location_group="c", buffer_timeout=5, chaining="HEAD",
                       managed_memory={"OPERATOR": 7},
                       slot_scope=["STATE_BACKEND", "PYTHON"], parallelism=9, max_parallelism=10,
                       min_resources={"cpu_cores": 0.1, "task_heap_memory_bytes": 1},
                       preferred_resources={"cpu_cores": 0.3, "task_heap_memory_bytes": 1}),
        transformation(5, "partition", inputs=[4], partitioner="hash", exchange_mode="BATCH"),
        transformation(6, "side_output", inputs=[4], tag="late"),
        transformation(7, "select", inputs=[4], names=["a,b", "c"]),
        transformation(8, "union", inputs=[5, 6, 7]),
        transformation(9, "sink", inputs=[8]),
    ]  # fmt: skip
    return topology
