"""What a restore needs to know of a planned job: its tasks, and the operators in them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import polars as pl

from plans.columnar.frames import join_topology
from plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from plans.tables.column_types import TOPOLOGY

JOB_COLUMNS = {
    "topologies": (TOPOLOGY, "name"),
    "job_vertices": (TOPOLOGY, "vertex", "vertex_id", "max_parallelism", "topological_order"),
    "execution_job_vertices": (TOPOLOGY, "vertex", "parallelism", "max_parallelism"),
    "chained_operators": (
        TOPOLOGY,
        "vertex",
        "node",
        "operator_id",
        "user_defined_operator_id",
        "operator_order",
    ),
}
"""The columns that jobs_to_restore reads, by table."""


class Operator(NamedTuple):
    """An operator of a chain. `order`: its position among the ids of its vertex; None: not among them."""

    node: int
    operator_id: str
    user_defined_operator_id: str | None
    order: int | None


class Task(NamedTuple):
    """A job vertex. `max_parallelism` is the effective one; `derives_it`: the author has set none."""

    vertex_id: str
    parallelism: int
    max_parallelism: int
    derives_it: bool
    operators: list[Operator]

    @property
    def operator_ids(self) -> Iterator[tuple[str, str | None]]:
        """(generated, user-defined) of its operators, as JobVertex.getOperatorIDs: no chained sources."""
        listed = (operator for operator in self.operators if operator.order is not None)
        for operator in sorted(listed, key=lambda operator: operator.order or 0):
            yield operator.operator_id, operator.user_defined_operator_id


Job = list[Task]
"""The tasks of a job in topological order."""


def jobs_to_restore(tables: Mapping[str, pl.DataFrame]) -> dict[str, Job]:
    """Planned topologies by name; `tables` hold JOB_COLUMNS."""
    vertices = join_topology(
        tables["job_vertices"].rename({"max_parallelism": "given_max_parallelism"}),
        tables["execution_job_vertices"].select(JOB_COLUMNS["execution_job_vertices"]),
        {"vertex": "vertex"},
    ).sort(TOPOLOGY, "topological_order")
    names = dict(tables["topologies"].select(TOPOLOGY, "name").iter_rows())
    jobs: dict[str, Job] = {name: [] for name in names.values()}
    tasks: dict[tuple[int, int], Task] = {}
    chosen = vertices.select(
        TOPOLOGY, "vertex", "vertex_id", "parallelism", "max_parallelism", "given_max_parallelism"
    )
    for topology, vertex, vertex_id, parallelism, max_parallelism, given in chosen.iter_rows():
        task = Task(vertex_id, parallelism, max_parallelism, given == NOT_DECIDED, [])
        tasks[topology, vertex] = task
        jobs[names[topology]].append(task)
    operators = tables["chained_operators"].select(JOB_COLUMNS["chained_operators"])
    for topology, vertex, *operator in operators.iter_rows():
        tasks[topology, vertex].operators.append(Operator(*operator))
    return jobs
