"""A run as rows of tables: its executions and its summary."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

import pyarrow as pa

from penstock.engine.output.redaction import redact
from penstock.engine.run.runtime.job_result import JobResult
from penstock.plans.installation import own_version
from penstock.plans.tables import TABLES


def tables_of_run(result: JobResult) -> dict[str, pa.Table]:
    """Tables `executions` and `runs` of plans.tables, for one run.

    Source of attempt ids: org.apache.flink.runtime.executiongraph.ExecutionAttemptID.toString.
    """
    (topology_id,) = result.tables["topologies"]["topology_id"].to_pylist()
    vertex_ids = {vertex.chain.vertex: vertex.vertex_id for vertex in result.compiled.vertices}
    executions = [
        {
            "topology_id": topology_id,
            "vertex": attempt.vertex,
            "subtask": attempt.subtask,
            "attempt_number": attempt.attempt_number,
            "attempt_id": f"{result.job_id}_{vertex_ids[attempt.vertex]}"
            f"_{attempt.subtask}_{attempt.attempt_number}",
            "state": attempt.state.value,
            "state_timestamps": [(state, _time(at)) for state, at in attempt.state_timestamps.items()],
            "host": attempt.host,
            **{
                name: getattr(attempt, name) if attempt.host else None
                for name in ("records_in", "records_out", "bytes_in", "bytes_out")
            },
            "failure": _redacted(
                _failure_text(attempt.failure, "cause") or _failure_text(attempt.failure, "error")
            ),
            "failed_operator": _failure_text(attempt.failure, "operator"),
            "failed_record": _redacted(_failure_text(attempt.failure, "record")),
            "metrics": json.dumps(attempt.metrics, default=str, sort_keys=True) if attempt.metrics else None,
        }
        for attempt in result.attempts
    ]
    run = {
        "topology_id": topology_id,
        "run_id": result.job_id,
        "name": result.name,
        "state": result.state,
        "runtime_mode": "BATCH" if result.batch else "STREAMING",
        "started_at": _time(result.started_at),
        "milliseconds": result.milliseconds,
        "vertices": len(result.compiled.vertices),
        "subtasks": sum(vertex.chain.parallelism for vertex in result.compiled.vertices),
        "attempts": sum(attempt.host is not None for attempt in result.attempts),
        "failure": result.failure,
    }
    return {
        "executions": pa.Table.from_pylist(executions, TABLES["executions"]),
        "runs": pa.Table.from_pylist([run], TABLES["runs"]),
    }


def write_run(store: str, result: JobResult) -> int:
    """The number of the new version of `store` that holds the run and the plan it ran; StoreError."""
    from penstock.engine.store.delta_rs_tables import DeltaRsTables
    from penstock.engine.store.write_plan import write_version

    return write_version(
        DeltaRsTables(store),
        {**result.tables, **tables_of_run(result)},
        planner_version=own_version(),
        options={**result.options, "run": result.job_id},
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _failure_text(failure: Mapping[str, str] | None, key: str) -> str | None:
    return None if failure is None else failure.get(key)


def _redacted(text: str | None) -> str | None:
    return None if text is None else redact(text)
