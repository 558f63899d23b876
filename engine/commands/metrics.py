"""The command `penstock metrics`, which prints resources and sustainable rates of plans."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column

from penstock.engine.commands.reads_plan import PlansToReadOrNone, opened_plan
from penstock.engine.configuration.cluster_options import recorded_cluster
from penstock.engine.measure.bench.planners import budget_seconds
from penstock.engine.measure.calibration.runtime import STAGES, Runtime
from penstock.engine.output.people import print_table
from penstock.engine.output.print_line import print_beside_output, print_line
from penstock.engine.output.progress import progress
from penstock.engine.planning.chosen_costs import chosen_costs, require_costs
from penstock.engine.planning.print_metrics import number, print_fleet_metrics, print_topology_metrics
from penstock.engine.store.plan_tables import PlanTables
from penstock.engine.store.store_location import is_local
from penstock.plans.errors import ConfigurationError, StoreError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.metrics.operator_costs import read_costs
from penstock.plans.metrics.plan_metrics import NEEDED, Metrics, plan_metrics
from penstock.plans.metrics.rates_and_loads import CONSTANTS, Constants, read_constants
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.topologies_of_lines import topology_id


def metrics_command(
    store: PlansToReadOrNone = None,
    topology: Annotated[
        str | None,
        typer.Option("--topology", metavar="NAME", help="Show this topology, with its vertices."),
    ] = None,
    costs: Annotated[
        str | None,
        typer.Option(
            "--costs",
            metavar="COSTS",
            help="Costs of operators: a table (JSON lines, .csv, .parquet) with topology, id, selectivity, "
            "record_bytes, cpu_nanoseconds_per_record and, for sources, records_per_second; a store with "
            "runs of these jobs, which measured them; drawn by hash; or all alike. "
            "Default: the costs in the topologies, else all alike.",
        ),
    ] = None,
    constants: Annotated[
        Path | None,
        typer.Option(
            "--constants",
            metavar="FILE",
            help="Constants of the cost model, as written by --calibrate. Default: measured constants, "
            "listed in the documentation.",
        ),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            "--calibrate",
            metavar="FILE",
            help="First measure the constants on this machine with micro runs of some minutes, and write "
            "them to FILE. SOURCE may be left out.",
        ),
    ] = None,
    on: Annotated[
        Runtime | None,
        typer.Option(
            "--on",
            help="With --calibrate: flink, the MiniCluster of the real Flink (the extra flink; the default), "
            "or penstock, Penstock's own runtime on Spark.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="TIME",
            help="With --on penstock: start no micro run after this time, such as 10m.",
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="Measure on this Spark, for plans that do not fit in this process. Stores on remote file "
            "systems are always measured on Spark.",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines: one row per topology.")] = False,
) -> None:
    """Show the resources that plans need, and the rates that they sustain under a cost model.

    Without --topology, a summary over all topologies.

    Examples:
        penstock metrics plans
        penstock metrics plans --topology word-count --costs costs.csv
        penstock metrics --calibrate constants.json

    Exit codes:
        3: Costs or constants cannot be read.
        4: Not a store, no such version, or a damaged table.
    """
    if calibrate is None and (on is not None or budget is not None):
        raise ConfigurationError("--on and --budget need --calibrate FILE")
    if calibrate is not None:
        _calibrate(calibrate, on or Runtime.FLINK, budget)
    if store is None:
        if calibrate is None:
            raise ConfigurationError("SOURCE is required", "a plan store, a topology file, or a script")
        return
    constants_file = constants if constants is not None else calibrate
    terms = CONSTANTS if constants_file is None else read_constants(constants_file)
    on_spark = master is not None or not is_local(store)
    with opened_plan(store, version, topology, in_store=on_spark) as plan:
        _show(plan, costs, terms, on_spark, master, json)


def _calibrate(path: Path, runtime: Runtime, budget: str | None) -> None:
    from penstock.engine.measure.calibration.run_jobs_on_penstock import calibrate

    if budget is not None and runtime is not Runtime.PENSTOCK:
        raise ConfigurationError("--budget needs --on penstock, got --on flink")
    seconds = float("inf") if budget is None else budget_seconds(budget)
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"--calibrate {path}: folder {path.absolute().parent} does not exist")
    with progress(STAGES[runtime]) as report:
        written = calibrate(path, runtime, seconds, report)
    columns = [Column(name, justify="left" if name == "term" else "right") for name in _TERM_COLUMNS]
    print_table(columns, [
        (name, *(number(term[key]) for key in ("value", "low", "high")), term["unit"])
        for name, term in written["terms"].items()
    ])  # fmt: skip
    print_beside_output(f"{path} holds these constants; use it as --constants")


_TERM_COLUMNS = ("term", "median", "lower quartile", "upper quartile", "unit")


def _show(
    plan: PlanTables, costs: str | None, terms: Constants, on_spark: bool, master: str | None, json: bool
) -> None:
    if not plan.has(*NEEDED):
        raise StoreError(f"{plan.title} has no slots", "plan it again with --until slots")
    measured = _measure_on_spark(plan, master, costs, terms) if on_spark else _measure(plan, costs, terms)
    if plan.topology is not None and measured.plans.is_empty():
        raise StoreError(
            f"{plan.label}: {plan.topology} was refused and has no plan",
            f"penstock rejected {plan.label} shows the reason",
        )
    if json:
        for line in measured.plans.sort("name").write_ndjson().splitlines():
            print_line(line)
    elif plan.topology is None:
        print_fleet_metrics(measured.plans)
    else:
        print_topology_metrics(measured)


def _measure(plan: PlanTables, costs: str | None, terms: Constants) -> Metrics:
    tables = {name: plan.table(name).collect() for name in NEEDED}
    chosen = chosen_costs(costs, tables["topologies"])
    if (
        costs is not None
        and Path(costs).is_file()
        and read_costs(Path(costs), tables["topologies"]).is_empty()
    ):
        print_beside_output(f"{costs}: no row matches these topologies: their own or assumed costs are used")
    cluster = recorded_cluster(plan.options)
    costs_of_operators = chosen(tables["stream_nodes"], tables["stream_edges"])
    return plan_metrics(tables, costs_of_operators, cluster.task_manager, cluster.network, terms)


def _measure_on_spark(plan: PlanTables, master: str | None, costs: str | None, terms: Constants) -> Metrics:
    """Measure topologies of a store; their vertices and edges only if the plan is of one topology."""
    from pyspark.sql import functions as F

    from penstock.engine.planning.metrics_on_spark import metrics_on_spark
    from penstock.engine.spark.session import get_session
    from penstock.engine.store.open_plan import read_plan
    from penstock.engine.store.spark_tables import SparkTables
    from penstock.plans.frames.spark_schemas import free

    assert plan.stored is not None
    require_costs(costs)
    with progress(2) as report:
        report("start Spark")
        spark = get_session(master=master, app_name="penstock metrics")
        report("measure on Spark")
        tables = read_plan(SparkTables(spark, plan.stored.tables.store), plan.version, NEEDED)
        if plan.topology is not None:
            chosen = F.col(TOPOLOGY) == topology_id(plan.topology)
            tables = {name: rows.filter(chosen) for name, rows in tables.items()}
        cluster = recorded_cluster(plan.options)
        measured = metrics_on_spark(spark, tables, costs, cluster.task_manager, cluster.network, terms)
        rows = [
            from_arrow(
                (frame.limit(0) if plan.topology is None and frame is not measured.plans else frame).toArrow()
            )
            for frame in (measured.plans, measured.vertices, measured.edges)
        ]
        for frame in measured.kept:
            free(frame)
    return Metrics(*rows)
