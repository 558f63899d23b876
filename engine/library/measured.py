"""Compute metrics of plans by a library call."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pyarrow as pa
from polars import selectors

from penstock.engine.configuration.cluster_options import recorded_cluster
from penstock.engine.library.check_arguments import arguments_of_call, path, text
from penstock.engine.library.given_topologies import costs_named, is_spark_frame
from penstock.engine.library.planned_graphs import with_names
from penstock.engine.output.pieces import html_table
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.store.plan_tables import PlanTables
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.plan_metrics import NEEDED
from penstock.plans.metrics.rates_and_loads import CONSTANTS, Constants, constants_of, read_constants
from penstock.plans.printable import limited, printable
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer, SlotSharingStrategy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.engine.planning.changed_metrics import Change, ChangedJob, ChangedMetrics


# Jobs of a plan whose decisions may change, each prepared at its first use.


_MOST_PREPARED = 64
"""The newest jobs, which stay prepared."""


class ChangedJobs:
    """The jobs of a plan, prepared for PlanMetrics.after."""

    def __init__(self, plan: PlanTables, costs: Any, constants: Constants) -> None:
        """Take the plan and `costs` (see ChosenCosts)."""
        self._plan, self._options = plan, plan.options
        self._costs, self._constants = costs, constants
        self._jobs: dict[str | None, ChangedJob] = {}

    def after(self, change: "Change", topology: str | None) -> "ChangedMetrics":
        """See PlanMetrics.after."""
        if topology is not None:
            text("topology", topology, "my job")
        job = self._jobs.get(topology)
        if job is None:
            job = self._prepared(topology)
            if len(self._jobs) >= _MOST_PREPARED:
                del self._jobs[next(iter(self._jobs))]
            self._jobs[topology] = job
        return job.after({}, change)

    def _prepared(self, topology: str | None) -> "ChangedJob":
        from penstock.engine.planning.changed_metrics import ChangedJob, Setting

        if "planner" in self._options:
            raise ConfigurationError(
                f"after() needs Flink's plan, got one by {limited(printable(self._options['planner']))}",
                "plan without a custom planner, and pass its decisions as a change",
            )
        options = {**plan_options().recorded, **self._options}
        cluster = recorded_cluster(options)
        sharing = SlotSharingStrategy(options["slot_sharing"])
        cluster_options = PlanOptions(Layer.SLOTS, sharing, cluster.network, cluster.task_manager)
        key = self._topology(topology)
        job_tables = {
            name: self._plan.table(name).filter(pl.col(TOPOLOGY) == key).collect()
            for name in self._plan.tables
            if name != "rejected"
        }
        return ChangedJob(job_tables, Setting(cluster_options, self._costs, self._constants))

    def _topology(self, name: str | None) -> int:
        topologies = self._plan.frame("topologies", TOPOLOGY, "name")
        if name is not None:
            topologies = topologies.filter(pl.col("name") == name)
            if topologies.is_empty():
                raise ConfigurationError(f"topology {limited(printable(name))} has no plan")
        elif len(topologies) != 1:
            raise ConfigurationError(
                f"topology is required: the plan has {len(topologies):,} topologies",
                "name one of them" if len(topologies) else "the table rejected has the reasons",
            )
        key: int = topologies[TOPOLOGY][0]
        return key


# Metrics of all plans, and of one job after a change.


class PlanMetrics(NamedTuple):
    """Resources and sustained rates of plans under a cost model.

    All tables have the topology's name in `topology`; they are Arrow tables, or DataFrames as the plan's
    tables are.

    Attributes:
        plans: One row per topology, with the metrics of docs/costs-and-metrics.md.
        vertices: Load and utilisation of each job vertex.
        edges: The rate of each stream edge, records a second.
        release: Releases what Spark caches for the tables.
        jobs: Answers `after`.
    """

    plans: Any
    vertices: Any
    edges: Any
    release: Callable[[], None]
    jobs: ChangedJobs | None = None

    @property
    def summary(self) -> pa.Table:
        """One row for each metric: sum, mean, smallest, median, 95th percentile and largest."""
        from penstock.plans.metrics.plan_metrics import fleet_metrics

        return fleet_metrics(self._plans()).to_arrow(compat_level=pl.CompatLevel.oldest())

    def after(self, change: "Change", topology: str | None = None) -> "ChangedMetrics":
        """Compute the metrics of a job after a change of decisions, as planning and measuring it again would.

        Chaining and slot sharing groups of most streaming jobs are evaluated without planning.

        Args:
            change: By decision, the new values for edges (target, in_index), operators, vertices and tasks:
                {"chaining": {(4, 0): False}}.
            topology: Name of the job; may be omitted if there is only one.

        Returns:
            ChangedMetrics: The metrics; its `after` goes on from there.

        Raises:
            ConfigurationError: The change is invalid, the plan is of a custom planner, or only Spark has the
                tables.
            BrokenInvariantError: A rule of Flink's forbids the change.

        Examples:
            >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
            >>> metrics = penstock.plan({"name": "a", "transformations": [source, sink]}).metrics("alike")
            >>> metrics.after({"chaining": {(2, 0): False}}).vertices
            2
        """
        if self.jobs is None:
            raise ConfigurationError(
                "after() needs Arrow tables, got tables of Spark",
                "write the plan to a store, and use the result of read_plan",
            )
        return self.jobs.after(change, topology)

    def show(self) -> None:
        """Print it, as `penstock metrics` does."""
        from penstock.engine.planning.print_metrics import print_fleet_metrics

        print_fleet_metrics(self._plans())

    def _plans(self) -> pl.DataFrame:
        if not is_spark_frame(self.plans):
            return from_arrow(self.plans)
        from penstock.engine.run.runtime.spark_application import in_running_session

        with in_running_session(self.plans.sparkSession, "summary"):
            return from_arrow(self.plans.toArrow())

    def __repr__(self) -> str:
        many = "" if is_spark_frame(self.plans) else f": {self.plans.num_rows:,} topologies"
        return f"<penstock.PlanMetrics{many}>"

    def _repr_html_(self) -> str:
        if is_spark_frame(self.plans):
            return html_table("Metrics", ("table",), [("plans",), ("vertices",), ("edges",)])
        from penstock.engine.planning.print_metrics import number

        columns = ("metric", "mean", "smallest", "median", "p95", "largest")
        rows = [
            (row["metric"], *(number(row[name]) for name in columns[1:])) for row in self.summary.to_pylist()
        ]
        return html_table(f"Metrics of {self.plans.num_rows:,} topologies", columns, rows)


def measure(
    plan: PlanTables, costs: Any, constants: Any = None, spark: "SparkSession | None" = None
) -> PlanMetrics:
    """See Plan.metrics. `spark`: a session for the results, which become DataFrames."""
    from penstock.engine.planning.chosen_costs import chosen_costs
    from penstock.plans.metrics.plan_metrics import plan_metrics

    terms = _terms(constants)
    _require_tables(plan.tables)
    cluster = recorded_cluster({**plan_options().recorded, **plan.options})
    with costs_named(costs) as named:
        frames = {name: plan.table(name).collect() for name in NEEDED}
        with arguments_of_call():
            chosen = chosen_costs(named, frames["topologies"])
    operator_costs = chosen(frames["stream_nodes"], frames["stream_edges"])
    metrics = plan_metrics(frames, operator_costs, cluster.task_manager, cluster.network, terms)
    arrow = [frame.to_arrow(compat_level=pl.CompatLevel.oldest()) for frame in metrics]
    names = {"topologies": frames["topologies"].to_arrow(compat_level=pl.CompatLevel.oldest())}
    plans, vertices, edges = _with_names(names, *arrow)
    if spark is not None:
        named_frames = [from_arrow(rows) for rows in (plans, vertices, edges)]
        plans, vertices, edges = metrics_as_dataframes(spark, named_frames)
    return PlanMetrics(plans, vertices, edges, lambda: None, ChangedJobs(plan, chosen, terms))


def _with_names(tables: Mapping[str, Any], plans: Any, vertices: Any, edges: Any) -> tuple[Any, ...]:
    """Return the tables of metrics with the topology's name in the same column as in `nodes` and `edges`."""
    without = plans.drop("name") if is_spark_frame(plans) else plans.drop_columns(["name"])
    return tuple(with_names(tables, rows) for rows in (without, vertices, edges))


def metrics_as_dataframes(spark: "SparkSession", metrics: Iterable[pl.DataFrame]) -> list[Any]:
    """Return the results of plan_metrics as DataFrames with the types of Spark's own passes."""
    plans, *others = metrics
    frames = [plans.with_columns(selectors.integer().cast(pl.Int64)), *others]
    return [spark.createDataFrame(frame.to_arrow(compat_level=pl.CompatLevel.oldest())) for frame in frames]


def _require_tables(tables: Collection[str]) -> None:
    if missing := [name for name in NEEDED if name not in tables]:
        raise ConfigurationError(f"metrics() needs the table {missing[0]}", 'plan until="slots", the default')


def _terms(constants: Any) -> Constants:
    if constants is None:
        return CONSTANTS
    with arguments_of_call():
        if isinstance(constants, Mapping):
            return constants_of(constants, "constants")
        return read_constants(Path(path("constants", constants)))


def measure_on_spark(
    tables: Mapping[str, Any], options: Mapping[str, str], costs: Any, constants: Any = None
) -> PlanMetrics:
    """See Plan.metrics, for tables that are DataFrames."""
    from penstock.engine.planning.metrics_on_spark import metrics_on_spark
    from penstock.engine.spark.session import use_this_python
    from penstock.plans.frames.spark_schemas import free

    terms = _terms(constants)
    _require_tables(tables)
    cluster = recorded_cluster({**plan_options().recorded, **options})
    needed = {name: tables[name] for name in NEEDED}
    spark = use_this_python(tables["topologies"].sparkSession)
    with costs_named(costs) as named:
        metrics = metrics_on_spark(spark, needed, named, cluster.task_manager, cluster.network, terms)

    def release() -> None:
        for kept in metrics.kept:
            free(kept)

    plans, vertices, edges = _with_names(tables, metrics.plans, metrics.vertices, metrics.edges)
    return PlanMetrics(plans, vertices, edges, release)
