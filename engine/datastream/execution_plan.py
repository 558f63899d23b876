"""Flink's JSON of a StreamGraph, for its plan visualizer.

Source: org.apache.flink.streaming.api.graph.JSONGenerator.
"""

from __future__ import annotations

import json

from penstock.engine.datastream.job_plan import require_planned
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.runtime.job import Job, topology_of
from penstock.plans.columnar.frames import from_arrow
from penstock.plans.plan_json.columnar.view_lines import to_execution_plan_lines
from penstock.plans.vocabulary import Layer


def execution_plan_json(job: Job) -> str:
    """Nodes in the order of their ids, sinks last: id, type, pact, contents, parallelism, predecessors.

    Raises JobCompileError where Flink refuses the job.
    """
    topology = topology_of(job)
    tables = plan_in_process([topology], until=Layer.STREAM_GRAPH).tables
    lines = to_execution_plan_lines({name: from_arrow(table) for name, table in tables.items()})
    plan = require_planned(topology, json.loads(lines["line"][0]))["execution_plan"]
    nodes = job.lowered.submitted.physical
    for node in plan["nodes"]:
        node["contents"] = nodes[node["id"]].description or node["contents"]
    return json.dumps(plan, indent=2, ensure_ascii=False)
