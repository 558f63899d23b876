"""The jobs of a plan whose decisions may change, each prepared when it is first asked for."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from penstock.engine.configuration.recorded_cluster import recorded_cluster
from penstock.engine.library.check_arguments import text
from penstock.engine.planning.changed_metrics import Change, ChangedMetrics
from penstock.engine.planning.plan_options import plan_options
from penstock.plans.columnar.frames import from_arrow
from penstock.plans.errors import ConfigurationError
from penstock.plans.layers import Choices
from penstock.plans.metrics.exchange_costs import Constants
from penstock.plans.printable import limited, printable
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import SlotSharingStrategy

if TYPE_CHECKING:
    from penstock.engine.planning.changed_job import ChangedJob


_KEPT = 64
"""Jobs that stay prepared, the newest."""


class ChangedJobs:
    """What Measured.after asks."""

    def __init__(
        self, tables: Mapping[str, Any], options: Mapping[str, str], costs: Any, constants: Constants
    ) -> None:
        """`tables`: Arrow's; `options` of the plan, as a store records them; `costs` (see ChosenCosts)."""
        self._tables, self._options = tables, options
        self._costs, self._constants = costs, constants
        self._jobs: dict[str | None, ChangedJob] = {}

    def after(self, change: Change, topology: str | None) -> ChangedMetrics:
        """See Measured.after."""
        job = self._jobs.get(topology)
        if job is None:
            job = self._prepared(topology)
            if len(self._jobs) >= _KEPT:
                del self._jobs[next(iter(self._jobs))]
            self._jobs[topology] = job
        return job.after(Change(), change)

    def _prepared(self, topology: str | None) -> "ChangedJob":
        from penstock.engine.planning.changed_job import ChangedJob, Setting

        if "planner" in self._options:
            raise ConfigurationError(
                f"after: found a plan by {limited(printable(self._options['planner']))}, allowed Flink's",
                "plan without a planner, and give its decisions as a change",
            )
        options = {**plan_options().recorded, **self._options}
        cluster = recorded_cluster(options)
        choices = Choices(SlotSharingStrategy(options["slot_sharing"]), cluster.network, cluster.task_manager)
        key = self._topology(topology)
        frames = {name: from_arrow(rows) for name, rows in self._tables.items()}
        of_job = {
            name: rows.filter(pl.col(TOPOLOGY) == key) for name, rows in frames.items() if name != "rejected"
        }
        return ChangedJob(of_job, Setting(choices, self._costs, self._constants))

    def _topology(self, name: str | None) -> int:
        topologies = from_arrow(self._tables["topologies"])
        if name is not None:
            wanted = text("topology", name, "my job")
            topologies = topologies.filter(pl.col("name") == wanted)
            if topologies.is_empty():
                raise ConfigurationError(f"topology: found no plan of {limited(printable(wanted))}")
        elif len(topologies) != 1:
            raise ConfigurationError(
                f"topology: found {len(topologies):,} planned topologies", "name one of them"
            )
        key: int = topologies[TOPOLOGY][0]
        return key
