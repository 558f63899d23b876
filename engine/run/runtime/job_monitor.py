"""What the subtasks of a job report: every attempt with its states, records and failure, as it happens.

Source: org.apache.flink.runtime.executiongraph.{ExecutionGraph.updateState,Execution}.
"""

import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeGuard

import pyarrow as pa

from penstock.engine.output.html_table import html_table
from penstock.engine.output.redaction import redact
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.listen_to_reports import ReportServer
from penstock.operators.functions.add_up_metrics import add_up_metrics, metrics_by_name
from penstock.operators.task.report import ReportAddress
from penstock.plans.installation import own_version
from penstock.plans.printable import MOST_OF_A_NAME, limited, printable
from penstock.plans.tables import TABLES
from penstock.plans.vocabulary import ExecutionState


@dataclass
class Attempt:
    """One Execution: what is known of it."""

    vertex: int
    subtask: int
    attempt_number: int
    state: ExecutionState = ExecutionState.CREATED
    state_timestamps: dict[str, int] = field(default_factory=dict)  #: milliseconds since the epoch
    records_in: int = 0
    records_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    host: str | None = None
    failure: dict[str, str] | None = None
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)  #: by operator and name, at its end
    lost_at: int | None = None  #: when it hung up without having said how it ended

    def enter(self, state: ExecutionState, at: int | None = None) -> None:
        """Record a state; a final one stays."""
        if self.state not in FINAL_STATES:
            self.state = state
            self.state_timestamps.setdefault(state.value, at or now())


FINAL_STATES = frozenset({ExecutionState.FINISHED, ExecutionState.FAILED, ExecutionState.CANCELED})
_COUNTS = ("records_in", "records_out", "bytes_in", "bytes_out")
"""The counts that an attempt reports."""

FAILURE = ("error", "traceback", "frames", "operator", "record", "cause", "during", "hint")
"""The texts that an attempt reports of a failure."""

MOST_ATTEMPTS = 10_000
"""Limit for one subtask. Spark makes up to spark.task.maxFailures in each attempt of the stage."""

_STATES = frozenset(state.value for state in ExecutionState)
_LONGEST_HOST = 255
_LAST_TIME = 253_402_300_800_000
"""Milliseconds from the epoch to the year 10,000."""


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class JobMonitor:
    """Listens to the subtasks of one job; a context manager.

    `on_change` is called, from another thread, soon after reports. `earlier`: attempts of the same job before
    it was started again; the numbers of attempts go on from there.
    """

    def __init__(
        self,
        parallelism: Mapping[int, int],
        host: str,
        on_change: Callable[["JobMonitor"], None] = lambda monitor: None,
        earlier: Sequence[Attempt] = (),
    ) -> None:
        self.parallelism = dict(parallelism)
        self.attempts = {
            (attempt.vertex, attempt.subtask, attempt.attempt_number): attempt for attempt in earlier
        }
        self._earlier = frozenset(self.attempts)
        following = {key[:2]: key[2] + 1 for key in sorted(self._earlier)}
        #: By vertex: what the numbers of each subtask's attempts begin with.
        self.first_attempts = {
            vertex: tuple(following.get((vertex, subtask), 0) for subtask in range(count))
            for vertex, count in parallelism.items()
        }
        self._lock = threading.Lock()
        self._token = secrets.token_hex(16)
        self._server = ReportServer(host, self._token, self._take, self._hung_up, lambda: on_change(self))
        for vertex, count in parallelism.items():
            for subtask in range(count):
                first = self.first_attempts[vertex][subtask]
                self._attempt(vertex, subtask, first).enter(ExecutionState.CREATED)

    def __enter__(self) -> "JobMonitor":
        """Start listening."""
        self._server.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        """Stop listening."""
        self._server.__exit__(*raised)

    @property
    def address(self) -> ReportAddress:
        """The address and token that subtasks report with."""
        host, port = self._server.address
        return ReportAddress(host=host, port=port, token=self._token)

    def submitted(self, here: int | None = None) -> None:
        """The job is with Spark's scheduler; the driver is the only subtask of the vertex `here`."""
        self._all(ExecutionState.SCHEDULED)
        if here is not None:
            attempt = self.attempts[here, 0, 0]
            attempt.host = os.uname().nodename
            for state in (ExecutionState.DEPLOYING, ExecutionState.INITIALIZING, ExecutionState.RUNNING):
                attempt.enter(state)

    def count_here(self, here: int, writers: Collection[int]) -> None:
        """The vertex that the driver is has got what `writers`, whose only reader it is, have put out."""
        self.attempts[here, 0, 0].records_in = sum(self.summary(writer)["records_out"] for writer in writers)

    def cancelling(self) -> None:
        """The job is being cancelled."""
        self._all(ExecutionState.CANCELING)

    def ended(self, *, finished: bool) -> None:
        """Spark's job has ended: attempts that said nothing of their end are told by how it ended."""
        self.catch_up()
        with self._lock:
            for attempt in self.attempts.values():
                if attempt.state not in FINAL_STATES:
                    attempt.enter(ExecutionState.FINISHED if finished else ExecutionState.CANCELED)

    def catch_up(self) -> None:
        """Take in what subtasks have reported by now."""
        self._server.drain()

    def first_failure(self) -> Attempt | None:
        """The attempt that failed first."""
        failed = [attempt for attempt in self._attempts_of_this_start() if attempt.failure is not None]
        return min(failed, key=lambda by_time: by_time.state_timestamps.get("FAILED", 0), default=None)

    def first_lost(self, seconds: float = 2.0) -> Attempt | None:
        """The attempt that first hung up without a last report; waits up to `seconds` for one that does."""
        until = time.monotonic() + seconds
        while True:
            with self._lock:
                lost = [attempt for attempt in self._attempts_of_this_start() if attempt.lost_at is not None]
            if lost or time.monotonic() > until:
                return min(lost, key=lambda attempt: attempt.lost_at or 0, default=None)
            time.sleep(0.02)

    def summary(self, vertex: int) -> dict[str, int]:
        """Totals of a vertex: finished subtasks, attempts, records and bytes of the attempts that count."""
        with self._lock:
            mine = [attempt for attempt in self.attempts.values() if attempt.vertex == vertex]
            last: dict[int, Attempt] = {}
            for attempt in sorted(mine, key=lambda of_vertex: of_vertex.attempt_number):
                last[attempt.subtask] = attempt
            counts = {name: sum(getattr(latest, name) for latest in last.values()) for name in _COUNTS}
            done = sum(latest.state is ExecutionState.FINISHED for latest in last.values())
            return {"finished": done, "attempts": len(mine), **counts}

    def snapshot(self) -> list[Attempt]:
        """Copies of all attempts, by vertex, subtask and number."""
        with self._lock:
            return [
                replace(attempt, state_timestamps=dict(attempt.state_timestamps))
                for _, attempt in sorted(self.attempts.items())
            ]

    def _attempts_of_this_start(self) -> list[Attempt]:
        return [attempt for key, attempt in self.attempts.copy().items() if key not in self._earlier]

    def _all(self, state: ExecutionState) -> None:
        with self._lock:
            for attempt in self.attempts.values():
                attempt.enter(state)

    def _attempt(self, vertex: int, subtask: int, number: int) -> Attempt:
        key = (vertex, subtask, number)
        if key not in self.attempts:
            self.attempts[key] = Attempt(vertex, subtask, number)
        return self.attempts[key]

    def _hung_up(self, report: Mapping[str, Any]) -> None:
        """The connection whose last report is `report` has ended."""
        with self._lock:
            attempt = self._attempt(report["vertex"], report["subtask"], report["attempt_number"])
            if attempt.state not in FINAL_STATES:
                attempt.lost_at = now()

    def _take(self, report: Mapping[str, Any]) -> bool:
        """Take a report in; False where it does not say of which attempt. The rest is used if it fits."""
        vertex, subtask, number = (report.get(key) for key in ("vertex", "subtask", "attempt_number"))
        if not (_is_count(vertex) and _is_count(subtask) and _is_count(number)):
            return False
        if subtask >= self.parallelism.get(vertex, 0) or number >= MOST_ATTEMPTS:
            return False
        with self._lock:
            attempt = self._attempt(vertex, subtask, number)
            for name in _COUNTS:
                if _is_count(report.get(name)):
                    setattr(attempt, name, report[name])
            if isinstance(metrics := report.get("metrics"), dict):
                attempt.metrics = {
                    name: values for name, values in metrics.items() if isinstance(values, dict)
                }
            if isinstance(host := report.get("host"), str):
                attempt.host = host[:_LONGEST_HOST]
            if isinstance(state := report.get("state"), str) and state in _STATES:
                if state == ExecutionState.FAILED:
                    attempt.failure = {
                        "error": "",
                        "traceback": "",
                        **{key: report[key] for key in FAILURE if isinstance(report.get(key), str)},
                    }
                at = report.get("at")
                attempt.enter(ExecutionState(state), at if _is_count(at) and at < _LAST_TIME else None)
        return True


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 1 << 63


# What a run that ended was, and what its subtasks did.


@dataclass(repr=False)
class JobResult:
    """The result of a job that finished."""

    job_id: str
    name: str
    batch: bool
    state: str  #: JobStatus: FINISHED, FAILED or CANCELED
    failure: str | None
    started_at: int  #: milliseconds since the epoch
    milliseconds: int
    attempts: list[Attempt]
    tables: dict[str, pa.Table]  #: the plan that ran
    compiled: CompiledJob
    options: dict[str, str] = field(default_factory=dict)  #: of the plan, as a store records them
    collected: dict[int, list[Any]] = field(default_factory=dict)  #: by `Transformation.created`

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """What functions have measured, by operator and name, over all subtasks.

        Counters, meters and gauges are added up; of a distribution there are `sum`, `count`, `min` and `max`.
        """
        last = {
            (last_of_subtask.vertex, last_of_subtask.subtask): last_of_subtask
            for last_of_subtask in self.attempts
        }  # attempts are in order
        return add_up_metrics(attempt.metrics for attempt in last.values())

    def accumulators(self) -> dict[str, Any]:
        """The metrics by their own names, over all operators, as Flink has accumulators."""
        return metrics_by_name(self.metrics)

    def __repr__(self) -> str:
        return f"<penstock job {self._ended()}>"

    def _repr_html_(self) -> str:
        counts = ("subtasks", "records_in", "records_out", "attempts")
        rows = [(name, *(f"{summary[count]:,}" for count in counts)) for name, summary in summaries(self)]
        columns = ("vertex", *(count.replace("_", " ") for count in counts))
        return html_table(f"job {self._ended()}", columns, rows)

    def _ended(self) -> str:
        name, vertices = limited(printable(self.name), MOST_OF_A_NAME), len(self.compiled.vertices)
        return f"{name}: {self.state} in {self.milliseconds / 1000:.1f} s, {vertices:,} vertices"


def summaries(result: JobResult) -> list[tuple[str, dict[str, int]]]:
    """Each vertex in topological order: name, and its subtasks, attempts, records and bytes in and out."""
    vertex_summaries = []
    for vertex in result.compiled.vertices:
        mine = [attempt for attempt in result.attempts if attempt.vertex == vertex.chain.vertex]
        last = {attempt.subtask: attempt for attempt in mine}  # attempts are in order
        counts = {name: sum(getattr(attempt, name) for attempt in last.values()) for name in _COUNTS}
        vertex_summaries.append((vertex.chain.name, {"subtasks": len(last), "attempts": len(mine), **counts}))
    return vertex_summaries


# A run as rows of tables: its executions and its summary.


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
