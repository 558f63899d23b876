"""The check of memory that Spark's Python workers make."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.plans.execution_graph.columnar.job_graph_arrays import TaskRows


def require_memory_in_worker(rows: "TaskRows") -> None:
    """Raise NotEnoughMemoryError for tasks that do not fit the worker's machine; running out would end it.

    In its own module, because workers import it before they have set how many threads polars may use.
    """
    from penstock.engine.planning.memory_estimate import require_memory_for_tasks

    require_memory_for_tasks()(rows)
