"""Flink's JSON of a StreamGraph, for its plan visualizer.

Source: org.apache.flink.streaming.api.graph.JSONGenerator.
"""

from __future__ import annotations

import json
from typing import Any

from engine.datastream.job_plan import job_plan
from engine.runtime.job import Job, topology_of


def execution_plan_json(job: Job) -> str:
    """Nodes in the order of their ids, sinks last: id, type, pact, contents, parallelism, predecessors.

    Raises JobCompileError where Flink refuses the job.
    """
    graph = job_plan(topology_of(job), "stream_graph")
    by_id = dict(enumerate(job.transformations, 1))
    inputs: dict[int, list[dict[str, Any]]] = {}
    for edge in sorted(graph["edges"], key=lambda edge: (edge["target"], edge["type_number"])):
        inputs.setdefault(edge["target"], []).append(
            # JSONGenerator counts the entry before it asks whether it is the first: all are "second".
            {"id": edge["source"], "ship_strategy": edge["partitioner"], "side": "second"}
        )
    nodes = []
    for node in sorted(graph["nodes"], key=lambda node: (by_id[node["id"]].kind == "sink", node["id"])):
        one = by_id[node["id"]]
        row: dict[str, Any] = {
            "id": node["id"],
            "type": node["name"],
            "pact": _pact(one.kind),
            "contents": one.description or node["name"],
            "parallelism": node["parallelism"],
        }
        if row["pact"] != "Data Source":
            row["predecessors"] = inputs.get(node["id"], [])
        nodes.append(row)
    return json.dumps({"nodes": nodes}, indent=2, ensure_ascii=False)


def _pact(kind: str) -> str:
    if kind in ("source", "legacy_source"):
        return "Data Source"
    return "Data Sink" if kind == "sink" else "Operator"
