"""The plan of a job as plan JSON (docs/plan-json.md), made in this process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.run.runtime.errors import JobCompileError
from penstock.engine.run.runtime.job import Job, topology_of
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.plan_json.columnar.to_plan_lines import to_plan_lines
from penstock.plans.plan_json.columnar.view_lines import to_execution_plan_lines
from penstock.plans.vocabulary import Layer


def job_plan(topology: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The section `stream_graph` or `job_graph` of the plan.

    Raises JobCompileError with Flink's error where Flink refuses the job.
    """
    until = Layer.STREAM_GRAPH if section == "stream_graph" else Layer.JOB_GRAPH
    tables = plan_in_process([topology], until=until).tables
    line = json.loads(to_plan_lines({name: from_arrow(table) for name, table in tables.items()})["line"][0])
    planned_section: dict[str, Any] = require_planned(topology, line)[section]
    return planned_section


def require_planned(topology: Mapping[str, Any], line: dict[str, Any]) -> dict[str, Any]:
    """The line of that topology. Raises JobCompileError with Flink's error if the line is a refusal."""
    if "error" in line:
        raise JobCompileError(
            f"job {topology['name']!r} cannot be planned ({line['error']}): {line['message']}"
        )
    return line


# Flink's JSON of a StreamGraph, for its plan visualizer.
#
# Source: org.apache.flink.streaming.api.graph.JSONGenerator.


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
