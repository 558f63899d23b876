"""Results of library calls, with the plans of many topologies as tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, cast

import polars as pl
import pyarrow as pa

from penstock.engine.library import measured, planned_graphs
from penstock.engine.library.check_arguments import (
    Config,
    library_configuration,
    path,
    require_store,
    text,
    whole_number,
)
from penstock.engine.library.given_topologies import is_spark_frame
from penstock.engine.library.measured import PlanMetrics
from penstock.engine.library.planned_graphs import Graph
from penstock.engine.output.pieces import html_table
from penstock.engine.output.print_line import print_line
from penstock.engine.store.plan_tables import PlanTables, rows_of_topology, scan_spark_rows
from penstock.engine.store.store_tables import VersionNumber
from penstock.engine.views.size_cluster import (
    TaskManagers,
    chosen_task_managers,
    jobs_placed,
    size_in_json,
)
from penstock.plans.custom_planners.find_violations import STAGE, find_violations
from penstock.plans.errors import BrokenInvariantError, ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.printable import MOST_OF_A_NAME, limited, printable
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer, LayerName, TableName

__all__ = ["Plan", "check"]

# Explain a plan by a library call.


class Explained(NamedTuple):
    """Why edges of a topology are chained or not, and the origin of ids, slot sharing groups and slots.

    Attributes:
        topology: Name of the topology.
        edges: Dicts with source, target, chained, not_chained_because, partitioner, all conditions of
            chaining with their values, and the result that the edge reads.
        operators: Dicts with the ids and groups of operators.
        slots: One dict per slot sharing group.
        whole: Whether neither an edge nor an operator was chosen.
    """

    topology: str
    edges: list[dict[str, Any]]
    operators: list[dict[str, Any]]
    slots: list[dict[str, Any]]
    whole: bool

    def show(self) -> None:
        """Print it, as `penstock explain` does."""
        from penstock.engine.views.explain_plan import print_explanation

        print_explanation(self._asdict(), whole=self.whole)

    def __repr__(self) -> str:
        chained = sum(edge["chained"] for edge in self.edges)
        name = limited(printable(self.topology))
        return f"<penstock.Explained {name!r}: {chained:,} of {len(self.edges):,} edges chained>"

    def _repr_html_(self) -> str:
        rows = [
            (
                edge["source"]["name"],
                edge["target"]["name"],
                "yes" if edge["chained"] else "no",
                edge["not_chained_because"],
                "" if edge["result"] is None else edge["result"]["type"],
            )
            for edge in self.edges
        ]
        columns = ("source", "target", "chained", "why not", "result")
        return html_table(f"Edges of {self.topology}", columns, rows)


def explain(plan: PlanTables, edge: Any, operator: str | None, topology: str | None) -> Explained:
    """See Plan.explain."""
    from penstock.engine.views.draw.drawn_plan import plan_of_topology
    from penstock.engine.views.explain_plan import ExplainedPlan, explain_plan

    wanted = None if topology is None else text("topology", topology, "my job")
    named = None if operator is None else text("operator", operator, "Sink: alerts")
    ends = None if edge is None else _ends(edge)
    if named is not None and ends is not None:
        raise ConfigurationError("edge and operator cannot be combined", "name one of them")
    if not plan.has("stream_edges"):
        raise ConfigurationError("explain() needs a plan with a stream graph", "leave until out")
    explained = explain_plan(ExplainedPlan(plan_of_topology(plan, wanted)), named, ends)
    return Explained(**explained, whole=named is None and ends is None)


def _ends(edge: Any) -> tuple[str, str]:
    if not isinstance(edge, list | tuple) or len(edge) != 2 or not all(isinstance(end, str) for end in edge):
        raise ConfigurationError(
            "edge must be the names of two operators", 'explain(("Source: clicks", "Count"))'
        )
    return edge[0], edge[1]


# A store of plans.


class Version(NamedTuple):
    """One version of a store.

    Attributes:
        number: From 1.
        published_at: When it was written, a datetime in UTC.
        planner_version: The version of Penstock that planned; None if unknown.
        topologies: Planned topologies.
        rejected: Rejected topologies.
        tables: Names of its tables.
        options: Options of the plan, by name.
    """

    number: int
    published_at: datetime
    planner_version: str | None
    topologies: int
    rejected: int
    tables: tuple[TableName, ...]
    options: Mapping[str, str]


class Store(NamedTuple):
    """A store of plans.

    Attributes:
        path: Path or URI of the store.
        versions: `Version`s, oldest first, as they were when the store was opened.
    """

    path: str
    versions: tuple[Version, ...]

    def __repr__(self) -> str:
        newest = self.versions[-1]
        return (
            f"<penstock.Store {shown_path(self.path)}: {len(self.versions):,} versions; the newest, "
            f"{newest.number}: {newest.topologies:,} planned, {newest.rejected:,} rejected topologies>"
        )

    def _repr_html_(self) -> str:
        rows = [
            (f"{v.number:,}", f"{v.published_at:%Y-%m-%d %H:%M:%S}", f"{v.topologies:,}", f"{v.rejected:,}")
            for v in reversed(self.versions)
        ]
        columns = ("version", "published (UTC)", "planned", "rejected")
        return html_table(f"Penstock store {shown_path(self.path)}", columns, rows)


def path_of_store(store: Any) -> str:
    """Return the path of a Store, or a path itself. Raises ConfigurationError."""
    return store.path if isinstance(store, Store) else path("store", store)


def shown_path(path: str) -> str:
    """Return a path as it appears in a repr."""
    return limited(printable(path), MOST_OF_A_NAME)


# Compute the number of TaskManagers for a plan's jobs.


class ClusterSize(NamedTuple):
    """The TaskManagers that jobs need.

    Attributes:
        source: The plan that was sized, as a text.
        task_managers: The size of a TaskManager: `slots` and `process_bytes`; and `available`, the number of
            them, None without a limit.
        jobs: An Arrow table with one row per job: its slots, and the TaskManagers wanted, pending and missing
            in one cluster for all (session_…) and in a cluster of its own (job_…), as
            docs/slots-and-memory.md defines them.
        session_cluster: A dict of sums over all jobs in one cluster: jobs that were placed, their slots, and
            TaskManagers wanted, pending and missing.
        cluster_per_job: The same sums over one cluster per job.
    """

    source: str
    task_managers: TaskManagers
    jobs: pa.Table
    session_cluster: dict[str, int]
    cluster_per_job: dict[str, int]

    def show(self) -> None:
        """Print it, as `penstock size` does."""
        from penstock.engine.views.size_cluster import print_cluster, print_fleet_size

        print_cluster(limited(printable(self.source)), self.task_managers)
        print_fleet_size(from_arrow(self.jobs), self.task_managers)

    def __repr__(self) -> str:
        return (
            f"<penstock.ClusterSize: {self.jobs.num_rows:,} jobs; TaskManagers pending: "
            f"{self.session_cluster['pending']:,} in a session cluster, "
            f"{self.cluster_per_job['pending']:,} in a cluster per job>"
        )

    def _repr_html_(self) -> str:
        from penstock.engine.views.size_cluster import MODE_WORDS, totals_by_mode

        totals = totals_by_mode(from_arrow(self.jobs), self.task_managers)
        rows = [(label, *values) for label, values in totals.items()]
        return html_table(f"Size of {limited(self.source)}", ("", *MODE_WORDS), rows)


def size(
    plan: PlanTables,
    slots_per_task_manager: int | None,
    task_manager_memory: str | None,
    available: int | None,
    config: Config,
) -> ClusterSize:
    """See Plan.size."""
    slots = slots_per_task_manager
    task_managers = chosen_task_managers(
        library_configuration(config).cluster,
        plan.options,
        None if slots is None else whole_number("slots_per_task_manager", slots),
        None if task_manager_memory is None else text("task_manager_memory", task_manager_memory, "4g"),
        None if available is None else whole_number("available", available, 0),
        "task_manager_memory",
    )
    if not plan.has("required_slots"):
        raise ConfigurationError("size() needs a plan with slots", 'plan until="slots", the default')
    placed = jobs_placed(plan, task_managers)
    sizes = size_in_json(placed, task_managers, None)
    arrow = placed.to_arrow(compat_level=pl.CompatLevel.oldest())
    return ClusterSize(plan.label, task_managers, arrow, sizes["session_cluster"], sizes["cluster_per_job"])


if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


class Tables(Mapping[TableName, T], Generic[T]):
    """Name to table; a table is made when it is first asked for. Type checkers know the names."""

    def __init__(
        self,
        names: Iterable[str],
        table: Callable[[str], T],
        known: Mapping[str, T] | None = None,
        spark: "SparkSession | None" = None,
    ) -> None:
        """Take the session `spark` of tables that are DataFrames."""
        existing = set(names)
        self._names = tuple(cast(TableName, name) for name in TABLES if name in existing)
        self._table = table
        self._made: dict[str, T] = dict(known or {})
        self._spark = spark

    def __getitem__(self, name: TableName) -> T:
        if name not in self._names:
            raise ConfigurationError(f"the table must be one of {', '.join(self._names)}, got {name!r}")
        with running_session(self._spark, f"tables[{name!r}]"):
            if name not in self._made:
                self._made[name] = self._table(name)
            return self._made[name]

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def get(self, name: TableName, default: Any = None) -> Any:
        """The table, or `default` if there is none of that name."""
        return self[name] if name in self._names else default

    def __repr__(self) -> str:
        return f"<{len(self)} tables: {', '.join(self)}>"

    def _ipython_key_completions_(self) -> list[TableName]:
        return list(self)


def dataframe_of_table(spark: Any, name: str, table: pa.Table) -> Any:
    """Return a table of a plan as a DataFrame of `spark`, with the declared columns, in one partition."""
    from penstock.plans.frames.spark_schemas import spark_schema

    schema = spark_schema(name)
    # PySpark casts, and rejects null for a struct whose fields are declared as not null.
    rows = spark.createDataFrame(table, _with_nulls(schema)).coalesce(1)
    return rows.select(*(rows[field.name].alias(field.name, metadata=field.metadata) for field in schema))


def _with_nulls(kind: Any) -> Any:
    """Return the type with nullable values at any depth."""
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _with_nulls(field.dataType)) for field in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(_with_nulls(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _with_nulls(kind.valueType))
    return kind


def table_of_dataframe(name: str, rows: Any) -> pa.Table:
    """Collect a table of a plan."""
    return to_arrow(from_arrow(rows.toArrow()), name)


def running_session(spark: "SparkSession | None", call: str) -> AbstractContextManager[None]:
    """See in_running_session; without a session, nothing is checked."""
    if spark is None:
        return nullcontext()
    from penstock.engine.run.runtime.spark_application import in_running_session

    return in_running_session(spark, call)


def by_text(tables: Tables[Any]) -> Mapping[str, Any]:
    """Return the tables for code in which their names are any strings."""
    return cast(Mapping[str, Any], tables)


class Plan(Generic[T]):
    """The plans of all topologies of an input, or of one version of a store.

    Attributes:
        tables: Table by name (docs/tables.md): Arrow tables, or DataFrames if a session was given. A table is
            made when it is first asked for.
        inputs: Topologies that came in; inputs == planned + rejected.
        planned: Topologies that are in all tables but `rejected`.
        rejected: Rows of tables["rejected"], each with its reasons.
        source: Who planned and why, or the version that was read.
        options: Options of the plan as a store records them, by name.
        planner_version: The version of Penstock that planned; None if a store does not record it.
        ignored: A frame of the columns given as `ignore`, and `name`; None without such columns. `nodes`,
            `edges` and `partitions` have these columns beside the topology's name.

    Examples:
        >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
        >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]})
        >>> plan
        <penstock.Plan: 1 planned, 0 rejected of 1 topologies; 21 tables; planner process: in this process>
    """

    def __init__(
        self,
        tables: Tables[T],
        inputs: int,
        planned: int,
        rejected: int,
        source: str,
        *,
        options: Mapping[str, str],
        planner_version: str | None,
        write: Callable[[str], VersionNumber],
        release: Callable[[], None] = lambda: None,
        ignored: Any = None,
        arrow: "Tables[pa.Table] | None" = None,
        spark: "SparkSession | None" = None,
    ) -> None:
        """Take the session `spark` of tables that are DataFrames, and the same tables in `arrow`, if any."""
        self.tables, self._arrow, self._spark = tables, arrow, spark
        self.inputs, self.planned, self.rejected = inputs, planned, rejected
        self.source, self.ignored = source, ignored
        self.options, self.planner_version = dict(options), planner_version
        self._write, self._release = write, release

    def nodes(self, layer: Layer | LayerName | None = None) -> T:
        """The nodes of a layer of all topologies.

        Args:
            layer: topology (transformations), stream_graph (operators), job_graph (vertices) or
                execution_graph (subtasks); None: the last of these that the plan has. Slots have no nodes:
                see tables["required_slots"] and tables["execution_slot_sharing_groups"].

        Returns:
            An Arrow table or DataFrame: the columns of the table `transformations`, `stream_nodes`,
            `job_vertices` or `execution_vertices` (docs/tables.md), and the topology's name in `topology`.

        Raises:
            ConfigurationError: There is no such layer, or the plan ends before it.

        Examples:
            >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
            >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]}, parallelism=2)
            >>> plan.nodes("job_graph").select(["topology", "parallelism"]).to_pylist()
            [{'topology': 'a', 'parallelism': 2}]
            >>> plan.nodes("execution_graph").num_rows
            2
        """
        with running_session(self._spark, "nodes"):
            return cast(T, planned_graphs.nodes(by_text(self.tables), layer, self.ignored))

    def edges(self, layer: Layer | LayerName | None = None) -> T:
        """The edges of a layer of all topologies.

        Args:
            layer: As for `nodes`.

        Returns:
            An Arrow table or DataFrame: the columns of the table `stream_edges`, with
            `not_chainable_reasons`, `job_edges` or `execution_edges` (docs/tables.md), and the topology's
            name in `topology`; of the topology layer, `source`, `target` and `in_index`. An edge of the
            execution graph names the range of partitions that a subtask reads.

        Raises:
            ConfigurationError: There is no such layer, or the plan ends before it.

        Examples:
            >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
            >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]})
            >>> plan.edges("stream_graph").select(["source", "target", "partitioner"]).to_pylist()
            [{'source': 1, 'target': 2, 'partitioner': 'FORWARD'}]
        """
        with running_session(self._spark, "edges"):
            return cast(T, planned_graphs.edges(by_text(self.tables), layer, self.ignored))

    def partitions(self, layer: Layer | LayerName | None = None) -> T:
        """The outputs of vertices: data sets of the job graph, or partitions of the execution graph.

        Args:
            layer: job_graph or execution_graph; None: the last one that the plan has.

        Returns:
            An Arrow table or DataFrame: the columns of the table `intermediate_data_sets` or
            `intermediate_result_partitions` (docs/tables.md), and the topology's name in `topology`.

        Raises:
            ConfigurationError: The layer has no outputs, or the plan ends before it.
        """
        with running_session(self._spark, "partitions"):
            return cast(T, planned_graphs.partitions(by_text(self.tables), layer, self.ignored))

    def graph(self, layer: Layer | LayerName | None = None) -> Graph[T]:
        """The graph of a layer, all topologies together.

        Args:
            layer: As for `nodes`.

        Returns:
            Graph: `vertices` with a column `id`, `edges` with `src` and `dst`, as GraphFrames takes them.

        Raises:
            ConfigurationError: There is no such layer, or the plan ends before it.

        Examples:
            >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
            >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]})
            >>> len(plan.graph("stream_graph").to_networkx().edges)
            1
        """
        with running_session(self._spark, "graph"):
            return planned_graphs.graph(by_text(self.tables), layer, self.ignored)

    def explain(
        self,
        edge: tuple[str, str] | None = None,
        *,
        operator: str | None = None,
        topology: str | None = None,
    ) -> Explained:
        """Explain why edges are chained or not, and where operator ids, groups and slots come from.

        Args:
            edge: Only the edges between these two operators: (source, target), each by name, uid, operator id
                or node number.
            operator: Only this operator and its edges, named as above.
            topology: Name of the topology; may be omitted if there is only one.

        Returns:
            Explained: `edges`, `operators` and `slots`, each a list of records.

        Raises:
            ConfigurationError: There is no such topology, operator or edge, or only Spark has the tables.

        Examples:
            >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
            >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]})
            >>> [edge["chained"] for edge in plan.explain().edges]
            [True]
        """
        return explain(plan_tables(self, "explain"), edge, operator, topology)

    def size(
        self,
        *,
        slots_per_task_manager: int | None = None,
        task_manager_memory: str | None = None,
        available: int | None = None,
        config: Config = None,
    ) -> ClusterSize:
        """Compute how many TaskManagers the jobs need, in one cluster for all and in one cluster per job.

        Args:
            slots_per_task_manager: 1 to 2**31 - 1; default: as the plan was made for.
            task_manager_memory: Process size of a TaskManager, such as "4g"; default: as the plan was made
                for.
            available: TaskManagers that may be started in all, 0 or more; default: no limit.
            config: Options by key, or a directory of YAML files; arguments win.

        Returns:
            ClusterSize: `jobs` has one row per job; `session_cluster["wanted"]` is the number of TaskManagers
            in one cluster for all.

        Raises:
            ConfigurationError: An argument is invalid.

        Examples:
            >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
            >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]}, parallelism=4)
            >>> plan.size(slots_per_task_manager=2).jobs.column("slots").to_pylist()
            [4]
        """
        _, spark = self._at_hand()
        with running_session(spark, "size"):
            return size(
                plan_tables(self),
                slots_per_task_manager,
                task_manager_memory,
                available,
                config,
            )

    def metrics(self, costs: Any = None, constants: Any = None) -> PlanMetrics:
        """Compute the resources that plans need, and the rates that they sustain under a cost model.

        Args:
            costs: Operator costs: a frame or a file (JSON lines, .csv, .parquet) with the columns topology (a
                name), id, selectivity, record_bytes, cpu_nanoseconds_per_record and, for sources,
                records_per_second; a store with runs of these jobs; "drawn" (by a hash) or "alike". Default:
                as topologies state them, else all alike.
            constants: Constants of the cost model (docs/cost-model.md): a dict by name, or a file that
                `penstock metrics --calibrate` has written.

        Returns:
            PlanMetrics: `plans` has one row per topology, `vertices` one per job vertex, `edges` one per
            stream edge.

        Raises:
            ConfigurationError: An argument is invalid.
            InputError: A file of costs or constants cannot be read.
            StoreError: The store of runs cannot be read.

        Examples:
            >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
            >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]})
            >>> plan.metrics("alike").plans.select(["topology", "tasks", "slots"]).to_pylist()
            [{'topology': 'a', 'tasks': 1, 'slots': 1}]
        """
        tables, spark = self._at_hand()
        with running_session(self._spark, "metrics"):
            if spark is not None:
                return measured.measure_on_spark(tables, self.options, costs, constants)
            return measured.measure(plan_tables(self), costs, constants, self._spark)

    def show(self, rows: int = 20) -> None:
        """Print the number of topologies and the first rejected ones.

        Args:
            rows: Rejected topologies to print, 0 or more; default 20.

        Examples:
            >>> penstock.plan({"name": "a", "transformations": [{"id": 1, "kind": "sink"}]}).show()
            0 planned, 1 rejected of 1 topologies...
              a: MissingKey: transformation 1: ...
        """
        print_line(f"{self._counted()}; {limited(self.source)}")
        print_line(f"tables: {', '.join(self.tables)}")
        if self.rejected:
            columns = ("name", "error", "message")
            tables, _ = self._at_hand()
            for row in _first_rows(tables["rejected"], columns, rows):
                print_line("  " + ": ".join(limited("; ".join(str(cell).splitlines())) for cell in row))

    def write(self, store: Any) -> VersionNumber:
        """Write the plan as a new version of a store.

        Args:
            store: A path, or a `Store` from `open_store`. A new path becomes a store.

        Returns:
            VersionNumber: The number of the version, from 1. If the newest version holds the same topologies,
            planned in the same way, nothing is written: the number is its own, and `unchanged` is true.

        Raises:
            StoreError: The path cannot become a store.
            MachineError: No space, or no permission.

        Examples:
            >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
            >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]})
            >>> int(plan.write("plans")), int(plan.write("plans"))
            (1, 1)
        """
        from penstock.engine.store.delta_table import shared_tables

        place = path_of_store(store)
        _, spark = self._at_hand()
        with running_session(spark, "write"), shared_tables():
            require_store(place)
            return self._write(place)

    def release(self) -> None:
        """Release what Spark caches for the tables.

        DataFrames cannot be read afterwards; Arrow tables remain.
        """
        self._release()

    def __repr__(self) -> str:
        source = limited(printable(self.source))
        return f"<penstock.Plan: {self._counted()}; {len(self.tables)} tables; {source}>"

    def _repr_html_(self) -> str:
        known = self.tables if self._arrow is None else self._arrow
        rows = [(name, _rows(known, name)) for name in self.tables]
        return html_table(f"{self._counted()}; {limited(self.source)}", ("table", "rows"), rows)

    def _at_hand(self) -> "tuple[Mapping[str, Any], SparkSession | None]":
        """Return tables that are readable without a session, else the DataFrames and their session."""
        return (by_text(self.tables), self._spark) if self._arrow is None else (by_text(self._arrow), None)

    def _counted(self) -> str:
        return f"{self.planned:,} planned, {self.rejected:,} rejected of {self.inputs:,} topologies"


def arrow_tables(plan: Plan[Any], call: str) -> Mapping[str, Any]:
    """Return the Arrow tables of a plan. Raises ConfigurationError if only Spark has the tables."""
    tables, spark = plan._at_hand()
    if spark is not None:
        raise ConfigurationError(
            f"{call}() needs Arrow tables, got tables of Spark",
            "write the plan to a store, and use the result of read_plan",
        )
    return tables


def plan_tables(plan: Plan[Any], call: str | None = None) -> PlanTables:
    """Return a plan as views take it. For a `call` that needs Arrow tables: same error as arrow_tables."""
    tables, spark = plan._at_hand() if call is None else (arrow_tables(plan, call), None)

    @cache
    def scan(name: str, topology: str | None) -> pl.LazyFrame:
        if spark is None:
            return rows_of_topology(from_arrow(tables[name]).lazy(), name, topology)
        return scan_spark_rows(tables[name], name, topology)

    return PlanTables(
        plan.source, tuple(tables), scan, plan.options, plan.planner_version, plan.planned, plan.rejected
    )


def _rows(tables: Tables[Any], name: str) -> str:
    """Return the number of rows of a table, if it is known without work."""
    table = tables._made.get(name)
    return "" if table is None or is_spark_frame(table) else f"{table.num_rows:,}"


def _first_rows(table: Any, columns: tuple[str, ...], count: int) -> list[tuple[Any, ...]]:
    if is_spark_frame(table):
        table = table.select(*columns).limit(count).toArrow()
    return [tuple(row.values()) for row in table.select(list(columns)).slice(0, count).to_pylist()]


# Check the invariants of a plan by a library call, for tests.


_SHOWN = 10


def check(plan: Plan) -> Plan:
    """Check that a plan keeps the invariants of every plan, for tests of custom planners.

    The invariants are listed in docs/custom-planners.md: each operator is in one vertex, chains are
    connected, each task is in one slot, ids are unique, edges name existing nodes, and so on. A topology that
    was rejected because of a planner's decision breaks one, too.

    Args:
        plan: A plan with Arrow tables.

    Returns:
        Plan: The same plan.

    Raises:
        BrokenInvariantError: Lists the broken invariants with their topologies, the first ten of many.
        ConfigurationError: Only Spark has the tables.

    Examples:
        >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
        >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]})
        >>> penstock.check(plan).planned
        1
    """
    if not isinstance(plan, Plan):
        raise ConfigurationError(
            f"plan must be a Plan from penstock.plan or read_plan, got {type(plan).__name__}"
        )
    arrow = arrow_tables(plan, "check")
    for name in arrow.keys() & TABLES.keys():
        if missing := [column for column in TABLES[name].names if column not in arrow[name].column_names]:
            raise BrokenInvariantError(f"table {name}: column {missing[0]} is missing")
    tables = {name: from_arrow(table) for name, table in arrow.items()}
    rejected = tables["rejected"]
    rejected = rejected.filter(rejected["error_stage"] == STAGE).sort("name")
    names = dict(tables["topologies"].select(TOPOLOGY, "name").iter_rows())
    violations = [
        f"{name}: {'; '.join(message.splitlines())}"
        for name, message in rejected.select("name", "message").iter_rows()
    ]
    violations += [
        f"{names.get(row[TOPOLOGY], row[TOPOLOGY])}: {row['error']}: {row['location']}: "
        f"got {row['found']}; must be {row['allowed']}"
        for row in find_violations(tables).iter_rows(named=True)
    ]
    if violations:
        shown = "".join(f"\n  {limited(printable(violation), 500)}" for violation in violations[:_SHOWN])
        more = f"\n  and {len(violations) - _SHOWN:,} more" if len(violations) > _SHOWN else ""
        raise BrokenInvariantError(f"{len(violations):,} violations of invariants of plans:{shown}{more}")
    return plan
