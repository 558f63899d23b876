"""`penstock size`: how many TaskManagers the jobs of a store need."""

from typing import Annotated

import polars as pl
import typer

from penstock.engine.commands.chosen_cluster import say_what_is_overridden
from penstock.engine.commands.key_values import ConfigDir, Define, given_configuration
from penstock.engine.commands.reads_plan import PlansToRead, called, chosen_plan, reads_plan
from penstock.engine.output.write_lines import write_texts
from penstock.engine.store.open_plan import StoredPlan, open_plan
from penstock.engine.views.size.size_cluster import (
    chosen_task_managers,
    jobs_placed,
    size_in_json,
    tell_cluster,
    tell_fleet,
    tell_job,
)
from penstock.plans.errors import StoreError
from penstock.plans.tables.column_types import TOPOLOGY


@reads_plan()
def command(
    store: PlansToRead,
    slots_per_task_manager: Annotated[
        int | None,
        typer.Option(
            "--slots-per-task-manager",
            metavar="N",
            help="Slots of a TaskManager: taskmanager.numberOfTaskSlots. "
            "Default: as the configuration says, else as the plan was made for.",
        ),
    ] = None,
    task_manager_memory: Annotated[
        str | None,
        typer.Option(
            "--task-manager-memory",
            metavar="M",
            help="Memory of a TaskManager's process: taskmanager.memory.process.size, such as 4g. "
            "Default: as the configuration says, else as the plan was made for.",
        ),
    ] = None,
    available: Annotated[
        int | None,
        typer.Option(
            "--available",
            metavar="T",
            help="TaskManagers available in all; default: no limit. Jobs are placed in order of name, whole "
            "or not at all. A job wants TaskManagers for the slots that are not free on those already "
            "started (in a cluster of its own: for all its slots). They are pending if that many are left; "
            "otherwise some are missing and the job gets none. Totals are sums over jobs.",
        ),
    ] = None,
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology", metavar="NAME", help="Only this job, placed among all of them, and its groups."
        ),
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="V", help="Default: the newest.")
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
    json: Annotated[bool, typer.Option("--json", help="One line of JSON, for programs.")] = False,
) -> None:
    """Say how many TaskManagers the jobs of a store need, in one cluster for all and in one cluster per job.

    A job needs the slots of all its slot sharing groups (see place_jobs for how it gets them). JobManagers
    are not counted.
    """
    configuration = given_configuration(config_dir, define)
    say_what_is_overridden(
        configuration,
        slots_per_task_manager=slots_per_task_manager,
        task_manager_memory=task_manager_memory,
    )
    task_manager_options = (slots_per_task_manager, task_manager_memory, available, "--task-manager-memory")
    chosen_task_managers(
        configuration.cluster, {}, *task_manager_options
    )  # errors of usage, before the store is opened
    plan = open_plan(store, version)
    chosen = plan.version
    task_managers = chosen_task_managers(configuration.cluster, chosen.options, *task_manager_options)
    if not plan.has("required_slots"):
        raise StoreError(
            f"{called(store)} version {chosen.version} has no slots", "plan it again with --until slots"
        )
    its_plan = None if topology is None else chosen_plan(store, chosen.version, topology)
    # Topologies that are planned: others never run.
    jobs = plan.table("topologies").select(TOPOLOGY, "name").collect()
    required = plan.table("required_slots").select(TOPOLOGY, "slot_sharing_group", "slots").collect()
    placed = jobs_placed(jobs, required, task_managers)
    if json:
        import orjson

        said = {"store": called(store), "version": chosen.version}
        said |= size_in_json(placed, task_managers, topology)
        write_texts([orjson.dumps(said).decode()], None)
        return
    tell_cluster(f"{called(store)} version {chosen.version}", task_managers)
    if topology is None or its_plan is None:
        tell_fleet(placed, task_managers)
    else:
        of_it = placed.filter(pl.col("name") == topology).rows(named=True)
        tell_job(topology, _groups(its_plan), of_it, task_managers)


def _groups(plan: StoredPlan) -> pl.DataFrame:
    """required_slots of a job, with the names of largest vertices as `named`."""
    groups = plan.table("required_slots").with_columns(named=pl.col("largest_vertex").cast(pl.String))
    if plan.has("job_vertices"):
        vertices = plan.table("job_vertices").select("name", largest_vertex="vertex")
        groups = groups.join(vertices, on="largest_vertex", how="left")
        groups = groups.with_columns(named=pl.coalesce("name", "named"))
    return groups.collect()
