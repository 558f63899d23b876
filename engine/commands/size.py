"""The command `penstock size`, which counts the TaskManagers that the jobs of a store need."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import polars as pl
import typer
from rich.table import Column

from penstock.engine.commands.chosen_cluster import print_overridden_settings
from penstock.engine.commands.key_values import ConfigDir, Define, given_configuration
from penstock.engine.commands.reads_plan import PlansToRead, only_topology, opened_plan
from penstock.engine.configuration.cluster_options import recorded_cluster
from penstock.engine.output.people import print_table
from penstock.engine.output.pieces import StyledText
from penstock.engine.output.print_line import print_line
from penstock.engine.output.write_lines import write_texts
from penstock.engine.store.plan_tables import PlanTables
from penstock.engine.views.size_cluster import (
    chosen_task_managers,
    jobs_placed,
    print_cluster,
    print_fleet_size,
    print_job_size,
    size_in_json,
)
from penstock.plans.errors import StoreError
from penstock.plans.frames.polars_frames import join_topology
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.resources.memory_and_buffers import (
    FIGURES,
    slot_network_buffers,
    task_network_buffers,
)
from penstock.plans.tables.column_types import TOPOLOGY

# The resources that plans need of a cluster, and the largest consumers of each.


MOST = 5
"""Rows of a ranking."""

_MEBIBYTE = 2**20
_NEEDED = ("job_vertices", "execution_job_vertices", "required_slots", "network_buffers", "managed_memory")


def has_resources(plan: PlanTables) -> bool:
    """Return whether the plan includes slots."""
    return plan.has(*_NEEDED)


def show_fleet_resources(plan: PlanTables) -> None:
    """Print tasks, slots, TaskManagers, buffers and memory of all jobs, and the largest of each.

    The plan's options record the TaskManagers and network defaults that it was made for.
    """
    task_manager, _ = recorded_cluster(plan.options)
    per_vertex = buffers_of_vertices(plan)
    slots_by_job = plan.table("required_slots").group_by(TOPOLOGY).agg(pl.col("slots").cast(pl.Int64).sum())
    wanted = (pl.col("slots") + task_manager.slots - 1) // task_manager.slots
    slots, task_managers = slots_by_job.select(pl.col("slots").sum(), wanted=wanted.sum()).collect().row(0)
    tasks, buffers, size = per_vertex.select(pl.col("parallelism", "buffers", "bytes").sum()).row(0)
    rows = [
        ("tasks", f"{tasks:,}"),
        ("slots", f"{slots:,}"),
        ("TaskManagers, one cluster for all jobs", f"{-(-slots // task_manager.slots):,}"),
        ("TaskManagers, one cluster per job", f"{task_managers:,}"),
        (
            "memory of TaskManagers, one cluster per job",
            _mebibytes(task_managers * task_manager.process_bytes),
        ),
        ("network buffers required, at most", f"{buffers:,}"),
        ("network memory required, at most", _mebibytes(size)),
    ]
    _print_table((f"resources ({_described(task_manager, plan.options)})", "count"), rows)
    _print_largest_groups(plan)
    _print_largest_vertices(plan, per_vertex)


def show_topology_resources(plan: PlanTables) -> None:
    """Print slots, buffers and memory of one job by slot sharing group, and whether its TaskManagers suffice.

    `plan` holds the rows of that topology only.
    """
    task_manager, network = recorded_cluster(plan.options)
    groups = slot_network_buffers(_buffers_of_tasks(plan), network=network).drop("vertices")
    slots_of_groups = plan.table("required_slots").collect()
    joined = join_topology(slots_of_groups, groups, {"slot_sharing_group": "slot_sharing_group"}, "left")
    groups_with_names = _with_names(plan, joined, "largest_vertex")
    rows = groups_with_names.sort("slots", "slot_sharing_group", descending=[True, False]).rows(named=True)
    if not rows:
        return
    _print_table(
        ("slot sharing group", "slots", "tasks", "buffers per slot", "network MiB per slot", "set by"),
        [
            (
                str(row["slot_sharing_group"]),
                f"{row['slots']:,}",
                f"{row['tasks']:,}",
                f"{row['required']:,}",
                f"{row['required_bytes'] / _MEBIBYTE:,.1f}",
                _short(row["vertex_name"]),
            )
            for row in rows
        ],
    )
    slots = sum(row["slots"] for row in rows)
    most = max(row["required_bytes"] for row in rows) * task_manager.slots
    described = _described(task_manager, plan.options)
    print_line(
        f"{slots:,} slots in {-(-slots // task_manager.slots):,} {described}; "
        f"a full one requires {_mebibytes(most)} of its {_mebibytes(task_manager.network_bytes)} "
        "network memory",
        StyledText("" if most <= task_manager.network_bytes else ", too little", "red"),
        f", {_mebibytes(task_manager.managed_bytes_per_slot)} managed memory per slot",
    )


def _described(task_manager: TaskManager, options: Mapping[str, str]) -> str:
    slots = f"{task_manager.slots} slot{'' if task_manager.slots == 1 else 's'}"
    return f"TaskManagers of {slots} and {task_manager.process_size}, {options['network']}"


def _buffers_of_tasks(plan: PlanTables) -> pl.DataFrame:
    """Return the network buffers of each task (see task_network_buffers)."""
    _, network = recorded_cluster(plan.options)
    buffers = plan.table("network_buffers").select(TOPOLOGY, "vertex", "side", *FIGURES)
    vertices = plan.table("job_vertices").select(TOPOLOGY, "vertex", "slot_sharing_group")
    return task_network_buffers(*pl.collect_all([buffers, vertices]), network=network)


def buffers_of_vertices(plan: PlanTables) -> pl.DataFrame:
    """Return parallelism, buffers of the largest task, and total buffers and bytes of each job vertex."""
    effective = plan.table("execution_job_vertices").select(TOPOLOGY, "vertex", "parallelism").collect()
    return join_topology(_buffers_of_tasks(plan), effective, {"vertex": "vertex"}).select(
        TOPOLOGY,
        "vertex",
        pl.col("parallelism").cast(pl.Int64),
        "required",
        buffers=pl.col("required") * pl.col("parallelism"),
        bytes=pl.col("required_bytes") * pl.col("parallelism"),
    )


def _print_largest_groups(plan: PlanTables) -> None:
    most = _first(plan.table("required_slots"), "slots", "slot_sharing_group").collect()
    groups = _with_names(plan, most, "largest_vertex")
    rows = [
        (row["topology"], str(row["slot_sharing_group"]), f"{row['slots']:,}", _short(row["vertex_name"]))
        for row in _first(groups.lazy(), "slots", "slot_sharing_group", "topology").collect().rows(named=True)
    ]
    if rows:
        _print_table(("most slots", "slot sharing group", "slots", "set by"), rows)


def _print_largest_vertices(plan: PlanTables, per_vertex: pl.DataFrame) -> None:
    most = _first(per_vertex.lazy(), "buffers", "vertex").collect()
    vertices = _with_names(plan, most, "vertex")
    rows = [
        (
            row["topology"],
            _short(row["vertex_name"]),
            f"{row['parallelism']:,}",
            f"{row['required']:,}",
            f"{row['buffers']:,}",
        )
        for row in _first(vertices.lazy(), "buffers", "vertex", "topology").collect().rows(named=True)
    ]
    if rows:
        _print_table(("most buffers", "vertex", "tasks", "per task", "required"), rows)


def _first(rows: pl.LazyFrame, figure: str, index: str, topology: str = TOPOLOGY) -> pl.LazyFrame:
    """Return the rows with the most of `figure`."""
    return rows.sort(figure, topology, index, descending=[True, False, False]).head(MOST)


def _with_names(plan: PlanTables, rows: pl.DataFrame, vertex: str) -> pl.DataFrame:
    """Add the names of the topology, and of the vertex in column `vertex`, to a few `rows`."""
    topologies = plan.table("topologies").select(TOPOLOGY, topology="name")
    vertices = plan.table("job_vertices").select(TOPOLOGY, pl.col("vertex").alias(vertex), vertex_name="name")
    named = rows.lazy().join(topologies, on=TOPOLOGY).join(vertices, on=[TOPOLOGY, vertex])
    return named.collect(engine="streaming")


def _mebibytes(size: int) -> str:
    return f"{size / _MEBIBYTE:,.0f} MiB"


def _short(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "…"


def _print_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    print_line()
    text = (columns[0], "set by", "vertex")
    print_table([Column(name, justify="left" if name in text else "right") for name in columns], rows)


def size_command(
    store: PlansToRead,
    slots_per_task_manager: Annotated[
        int | None,
        typer.Option(
            "--slots-per-task-manager",
            metavar="N",
            help="Slots of a TaskManager: taskmanager.numberOfTaskSlots. "
            "Default: the configured number, else the plan's.",
        ),
    ] = None,
    task_manager_memory: Annotated[
        str | None,
        typer.Option(
            "--task-manager-memory",
            metavar="M",
            help="Memory of a TaskManager's process: taskmanager.memory.process.size, such as 4g. "
            "Default: the configured size, else the plan's.",
        ),
    ] = None,
    available: Annotated[
        int | None,
        typer.Option(
            "--available",
            metavar="T",
            help="TaskManagers available in total; default: no limit. Jobs are placed in order of name, "
            "completely or not at all. A job wants TaskManagers for the slots that are not free on started "
            "ones (in a cluster of its own: for all its slots). They are pending if that many are left; "
            "otherwise some are missing and the job gets none. Totals are sums over jobs.",
        ),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology", metavar="NAME", help="Only this job, placed among all jobs, and its groups."
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON, for programs.")] = False,
) -> None:
    """Compute how many TaskManagers jobs need, in one cluster for all and in one cluster per job.

    A job needs the slots of all its slot sharing groups. JobManagers are not counted.

    Examples:
        penstock size plans
        penstock size plans --slots-per-task-manager 4 --available 10

    Exit codes:
        4: Not a store, no such version, or a damaged table.
    """
    configuration = given_configuration(config_dir, define)
    print_overridden_settings(
        configuration,
        slots_per_task_manager=slots_per_task_manager,
        task_manager_memory=task_manager_memory,
    )
    task_manager_options = (slots_per_task_manager, task_manager_memory, available, "--task-manager-memory")
    chosen_task_managers(
        configuration.cluster, {}, *task_manager_options
    )  # raises errors of usage before the store is opened
    with opened_plan(store, version, None, config_dir, define) as plan:
        task_managers = chosen_task_managers(configuration.cluster, plan.options, *task_manager_options)
        if not plan.has("required_slots"):
            raise StoreError(f"{plan.title} has no slots", "plan it again with --until slots")
        plan_of_job = None if topology is None else only_topology(plan, topology)
        placed = jobs_placed(plan, task_managers)
        if json:
            import orjson

            size = {"store": plan.label, "version": plan.version}
            size |= size_in_json(placed, task_managers, topology)
            write_texts([orjson.dumps(size).decode()], None)
            return
        print_cluster(plan.title, task_managers)
        if topology is None or plan_of_job is None:
            print_fleet_size(placed, task_managers)
        else:
            rows_of_job = placed.filter(pl.col("name") == topology).rows(named=True)
            print_job_size(topology, _groups(plan_of_job), rows_of_job, task_managers)


def _groups(plan: PlanTables) -> pl.DataFrame:
    """Return required_slots of a job, with the names of the largest vertices as `named`."""
    groups = plan.table("required_slots").with_columns(named=pl.col("largest_vertex").cast(pl.String))
    if plan.has("job_vertices"):
        vertices = plan.table("job_vertices").select("name", largest_vertex="vertex")
        groups = groups.join(vertices, on="largest_vertex", how="left")
        groups = groups.with_columns(named=pl.coalesce("name", "named"))
    return groups.collect()
