"""How the vertices of a job are doing, from its table `executions`."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.engine.run.jobs.job_records import JobRecord
from penstock.operators.functions.runtime_context import Metrics, add_up_metrics

# What the functions of a job have measured, as people read it.


def measured_texts(metrics: Metrics) -> Iterator[str]:
    """A line for each metric, as people read it. Names are the author's: they may hold anything."""
    for operator, values in metrics.items():
        for name, value in values.items():
            shown = f"{value:,}" if isinstance(value, int | float) else _distribution(value)
            yield f"{operator}: {name} {shown}"


def _distribution(value: Any) -> str:
    if not isinstance(value, Mapping) or not value.get("count"):
        return str(value)
    mean = value["sum"] / value["count"]
    return f"{value['min']:,} to {value['max']:,}, mean {mean:,.4g} of {value['count']:,}"


_DECISIVE = ("FAILED", "CANCELING", "CANCELED", "INITIALIZING", "RUNNING")
"""The first of these that a subtask is in is the state of its vertex."""


_OF_EXECUTIONS = (
    *("vertex", "subtask", "attempt_number", "state", "host"),
    *("records_in", "records_out", "bytes_in", "bytes_out", "failure", "metrics"),
)
"""Columns that are read; timestamps would take pandas, whose import takes long."""


@dataclass(frozen=True, kw_only=True)
class VertexState:
    """A vertex; counts are those of the latest attempt of each subtask."""

    vertex: int
    name: str
    parallelism: int
    state: str  #: ExecutionState
    subtasks: dict[str, int]  #: how many are in each ExecutionState
    attempts: int  #: that ran
    records_in: int
    records_out: int
    bytes_in: int
    bytes_out: int
    failures: tuple[str, ...]  #: of all attempts
    kept: bool  #: an earlier run has done it: it was not run
    metrics: dict[str, dict[str, Any]]  #: what functions have measured, by operator and name


def vertex_states(record: JobRecord) -> list[VertexState]:
    """The vertices of a job in topological order. InputError where its tables cannot be read.

    Source: org.apache.flink.runtime.executiongraph.ExecutionJobVertex.getAggregateJobVertexState.
    """
    table = record.table("executions")
    columns = [name for name in _OF_EXECUTIONS if name in table.column_names]
    executions = table.select(columns).to_pylist()
    executions.sort(key=lambda row: (row["vertex"], row["subtask"], row["attempt_number"]))
    sizes = {row["vertex"]: row["parallelism"] for row in record.table("execution_job_vertices").to_pylist()}
    vertices = record.table("job_vertices").to_pylist()
    vertices_so_far = []
    for vertex in sorted(vertices, key=lambda row: row["topological_order"]):
        mine = [row for row in executions if row["vertex"] == vertex["vertex"]]
        latest = {row["subtask"]: row for row in mine}.values()
        states = Counter(row["state"] for row in latest)
        done = record.state == "FINISHED" or vertex["vertex"] in record.submitted.kept_vertices
        kept = done and not mine
        vertices_so_far.append(
            VertexState(
                vertex=vertex["vertex"],
                name=vertex["name"],
                parallelism=sizes[vertex["vertex"]],
                state="FINISHED" if kept else _aggregate_state(states, sizes[vertex["vertex"]]),
                subtasks=dict(states),
                attempts=sum(row["host"] is not None for row in mine),
                records_in=sum(row["records_in"] or 0 for row in latest),
                records_out=sum(row["records_out"] or 0 for row in latest),
                bytes_in=sum(row["bytes_in"] or 0 for row in latest),
                bytes_out=sum(row["bytes_out"] or 0 for row in latest),
                failures=tuple(dict.fromkeys(row["failure"] for row in mine if row["failure"])),
                kept=kept,
                metrics=add_up_metrics(json.loads(row.get("metrics") or "{}") for row in latest),
            )
        )
    return vertices_so_far


def _aggregate_state(states: Counter[str], parallelism: int) -> str:
    decisive = next((state for state in _DECISIVE if states[state]), None)
    if decisive is not None:
        return decisive
    if states["FINISHED"]:
        return "FINISHED" if states["FINISHED"] == parallelism else "RUNNING"
    return "CREATED"
