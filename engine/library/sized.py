"""How many TaskManagers a plan's jobs need, as a library call."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.engine.library.check_arguments import text, whole_number
from penstock.engine.library.given_topologies import is_spark_frame
from penstock.engine.library.library_configuration import Config, library_configuration
from penstock.engine.output.html_table import html_table
from penstock.engine.views.size.size_cluster import (
    TaskManagers,
    chosen_task_managers,
    jobs_placed,
    size_in_json,
)
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.printable import limited, printable
from penstock.plans.tables.column_types import TOPOLOGY


class Sized(NamedTuple):
    """What jobs need of a cluster.

    `task_managers`: their slots, process_bytes and how many are available. `jobs`: an Arrow table with a row
    for each job: its slots, and the TaskManagers wanted, pending and missing in one cluster for all
    (session_…) and in one of its own (job_…). `session_cluster` and `cluster_per_job`: sums over jobs.
    """

    source: str
    task_managers: TaskManagers
    jobs: pa.Table
    session_cluster: dict[str, int]
    cluster_per_job: dict[str, int]

    def show(self) -> None:
        """Print it, as `penstock size` does."""
        from penstock.engine.views.size.tell_size import tell_cluster, tell_fleet

        tell_cluster(limited(printable(self.source)), self.task_managers)
        tell_fleet(from_arrow(self.jobs), self.task_managers)

    def __repr__(self) -> str:
        return (
            f"<penstock.Sized: {self.jobs.num_rows:,} jobs; TaskManagers pending: "
            f"{self.session_cluster['pending']:,} in a session cluster, "
            f"{self.cluster_per_job['pending']:,} in a cluster per job>"
        )

    def _repr_html_(self) -> str:
        from penstock.engine.views.size.tell_size import MODE_WORDS, totals_by_mode

        totals = totals_by_mode(from_arrow(self.jobs), self.task_managers)
        rows = [(label, *values) for label, values in totals.items()]
        return html_table(f"Size of {limited(self.source)}", ("", *MODE_WORDS), rows)


def size(
    tables: Mapping[str, Any],
    options: Mapping[str, str],
    source: str,
    slots_per_task_manager: int | None,
    task_manager_memory: str | None,
    available: int | None,
    config: Config,
) -> Sized:
    """See Plan.size."""
    slots = slots_per_task_manager
    task_managers = chosen_task_managers(
        library_configuration(config).cluster,
        options,
        None if slots is None else whole_number("slots_per_task_manager", slots),
        None if task_manager_memory is None else text("task_manager_memory", task_manager_memory, "4g"),
        None if available is None else whole_number("available", available, 0),
        "task_manager_memory",
    )
    if "required_slots" not in tables:
        raise ConfigurationError("size: the plan has no slots", 'plan until="slots", the default')
    jobs = _frame(tables["topologies"], TOPOLOGY, "name")
    placed = jobs_placed(
        jobs, _frame(tables["required_slots"], TOPOLOGY, "slot_sharing_group", "slots"), task_managers
    )
    sizes = size_in_json(placed, task_managers, None)
    arrow = placed.to_arrow(compat_level=pl.CompatLevel.oldest())
    return Sized(source, task_managers, arrow, sizes["session_cluster"], sizes["cluster_per_job"])


def _frame(table: Any, *columns: str) -> pl.DataFrame:
    chosen = table.select(*columns).toArrow() if is_spark_frame(table) else table.select(list(columns))
    return from_arrow(chosen)
