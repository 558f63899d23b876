"""What a run that ended was, and what its subtasks did."""

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.engine.output.html_table import html_table
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.job_monitor import COUNTS, Attempt
from penstock.operators.functions.add_up_metrics import add_up_metrics, metrics_by_name
from penstock.plans.printable import MOST_OF_A_NAME, limited, printable


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
        counts = {name: sum(getattr(attempt, name) for attempt in last.values()) for name in COUNTS}
        vertex_summaries.append((vertex.chain.name, {"subtasks": len(last), "attempts": len(mine), **counts}))
    return vertex_summaries
