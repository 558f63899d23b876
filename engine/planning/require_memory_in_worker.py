"""Check memory in Spark's Python workers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.plans.execution_graph.job_graph_arrays import TaskRows


def require_memory_in_worker(rows: "TaskRows") -> None:
    """Raise NotEnoughMemoryError if tasks do not fit the worker's machine: running out would end it.

    It has its own module, because workers import it before they set the number of polars' threads.
    """
    from penstock.engine.planning.memory_estimate import require_memory_for_tasks

    require_memory_for_tasks()(rows)
