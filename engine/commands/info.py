"""The command `penstock info`, which prints the plan of a script without running it."""

from typing import Annotated, Any

import typer
from rich.table import Column

from penstock.engine.commands.chosen_cluster import print_overridden_settings
from penstock.engine.commands.key_values import ConfigDir, Define, given_configuration
from penstock.engine.commands.reads_plan import JobOption, require_store
from penstock.engine.output.people import print_table
from penstock.engine.output.print_line import print_line
from penstock.engine.output.write_lines import write_texts

CONTEXT_SETTINGS = {"allow_interspersed_args": False, "ignore_unknown_options": True}


def info_command(
    script: Annotated[
        str | None,
        typer.Argument(metavar="SCRIPT", help="A Python script that uses PyFlink's or Penstock's API."),
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="Passed to the script as sys.argv.")
    ] = None,
    parallelism: Annotated[
        int | None,
        typer.Option(
            "-p",
            "--parallelism",
            min=1,
            help="Default parallelism of its jobs; default: the number of cores.",
        ),
    ] = None,
    config_dir: ConfigDir = None,
    define: Define = None,
    json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON lines, one per job.")] = False,
    execution_plan: Annotated[
        bool,
        typer.Option("--execution-plan", help="Flink's JSON of the StreamGraph, for its visualizer."),
    ] = False,
    to: Annotated[
        str | None, typer.Option("--to", metavar="STORE", help="Write the plans as a new version of STORE.")
    ] = None,
    api: Annotated[
        bool, typer.Option("--api", help="List which of PyFlink's names are supported, and exit.")
    ] = False,
    job: JobOption = None,
    real_pyflink: Annotated[
        bool,
        typer.Option("--real-pyflink", help="Import the installed PyFlink."),
    ] = False,
) -> None:
    """Run SCRIPT and show the plan of each job that it executes; nothing runs on Spark.

    Its jobs have no results here: a script that needs them may fail after a job, which is reported.

    Examples:
        penstock info word_count.py
        penstock info -p 4 word_count.py

    Exit codes:
        1: The script failed, or executes no job.
        3: There is no such script.
    """
    if api:
        from penstock.engine.pyflink_names.modules import support_table

        write_texts(support_table(), None)
        return
    if script is None:
        raise typer.BadParameter("SCRIPT is required", param_hint="SCRIPT")
    from penstock.engine.library.run_script import (
        chosen_job,
        jobs_of_script,
        print_failure_of_script,
        print_lost_settings,
    )
    from penstock.engine.planning.plan_options import plan_options
    from penstock.engine.run.runtime.run_context import EnvironmentSettings

    configuration = given_configuration(config_dir, define)
    if to is not None:
        require_store(to)
    print_overridden_settings(configuration, parallelism=parallelism)
    settings = EnvironmentSettings(
        parallelism=parallelism,
        config=configuration.scripts,
        plan_options=plan_options(cluster=configuration.cluster),
    )
    captured_jobs = jobs_of_script(script, list(arguments or []), settings, real_pyflink=real_pyflink)
    captured = captured_jobs.jobs if job is None else [chosen_job(captured_jobs, job, script)]
    print_failure_of_script(captured_jobs)
    for captured_job in captured:
        print_lost_settings(captured_job)
    if execution_plan:
        from penstock.engine.pyflink.datastream.environment_sources import execution_plan_json

        write_texts([execution_plan_json(captured_job) for captured_job in captured], None)
        return
    from penstock.engine.run.lowering.plan_job import plan_job

    plans = [plan_job(captured_job) for captured_job in captured]
    if json:
        write_texts([_json_line(tables) for tables in plans], None)
    else:
        for tables in plans:
            _show(tables)
    if to is not None:
        _store(to, captured)


def _json_line(tables: dict[str, Any]) -> str:
    from penstock.plans.frames.polars_frames import from_arrow
    from penstock.plans.plan_json.to_plan_lines import to_plan_lines

    return str(to_plan_lines({name: from_arrow(table) for name, table in tables.items()})["line"][0])


def _show(tables: dict[str, Any]) -> None:
    (job,) = tables["topologies"].to_pylist()
    sizes = {row["vertex"]: row for row in tables["execution_job_vertices"].to_pylist()}
    names = {row["vertex"]: row["name"] for row in tables["job_vertices"].to_pylist()}
    inputs: dict[int, list[str]] = {}
    for edge in sorted(tables["job_edges"].to_pylist(), key=lambda row: row["input_index"]):
        source = sizes[edge["source_vertex"]]
        inputs.setdefault(edge["target_vertex"], []).append(
            f"{edge['ship_strategy']} from {names[edge['source_vertex']]} ({source['parallelism']})"
        )
    in_order = sorted(tables["job_vertices"].to_pylist(), key=lambda vertex: vertex["topological_order"])
    rows = [
        (
            row["name"],
            str(sizes[row["vertex"]]["parallelism"]),
            str(sizes[row["vertex"]]["max_parallelism"]),
            inputs.get(row["vertex"], []),
        )
        for row in in_order
    ]
    slots = sum(row["slots"] for row in tables["required_slots"].to_pylist())
    subtasks = sum(size["parallelism"] for size in sizes.values())
    print_line(f"job '{job['name']}': {len(names)} vertices, {subtasks} subtasks, {slots} slots")
    numbers = (Column("parallelism", justify="right"), Column("max", justify="right"))
    print_table((Column("vertex"), *numbers, Column("inputs")), rows)


def _store(to: str, jobs: list[Any]) -> None:
    from penstock.engine.planning.plan_in_process import plan_in_process
    from penstock.engine.run.lowering.transformations import topology_of

    stored = plan_in_process([topology_of(job) for job in jobs], jobs[0].plan_options, to)
    print_line(f"version {stored.version} of {to}")
