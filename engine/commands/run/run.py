"""`penstock run`: a PyFlink or Penstock script on Spark."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Column

from penstock.engine.commands.given_options import given_options
from penstock.engine.commands.key_values import (
    Conf,
    ConfigDir,
    Define,
    PropertiesFile,
    given_configuration,
    given_settings,
)
from penstock.engine.commands.overridden_settings import say_what_is_overridden
from penstock.engine.commands.reads_plan import require_store
from penstock.engine.output.people import print_table_beside_output
from penstock.engine.output.say import say_beside_output

DEPLOY_MODE = "spark.submit.deployMode"
CONTEXT_SETTINGS = {"allow_interspersed_args": False, "ignore_unknown_options": True}


class DeployMode(StrEnum):
    """Where the driver of a job runs."""

    CLIENT = "client"
    CLUSTER = "cluster"


def command(
    context: typer.Context,
    script: Annotated[
        str | None,
        typer.Argument(
            metavar="SCRIPT",
            help="A Python script that uses PyFlink's or Penstock's API; may be left out with --resume.",
        ),
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
    master: Annotated[
        str | None,
        typer.Option("-m", "--master", metavar="URL", help="Spark master; default local[*]."),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            metavar="NAME",
            help="Run in this session; default: the one `session start` recorded.",
        ),
    ] = None,
    deploy_mode: Annotated[
        DeployMode | None,
        typer.Option(
            "--deploy-mode",
            help="Where the driver runs: in this command (client), or on a cluster of yarn or k8s://.",
        ),
    ] = None,
    slot_request_timeout: Annotated[
        str | None,
        typer.Option(
            "--slot-request-timeout",
            metavar="DURATION",
            help="How long a job waits for its slots, such as 30s; default 5 min.",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Say which cluster runs the jobs, and why.")
    ] = False,
    config_dir: ConfigDir = None,
    define: Define = None,
    conf: Conf = None,
    properties_file: PropertiesFile = None,
    py_files: Annotated[
        str | None,
        typer.Option(
            "--py-files", metavar="FILE,…", help="Python files, zips or folders that its functions import."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="STORE", help="Record each run, with its plan, as a version of STORE."),
    ] = None,
    detached: Annotated[
        bool,
        typer.Option(
            "-d",
            "--detached",
            help="Print the id of the (first) job and return once it is submitted; it runs on by itself.",
        ),
    ] = False,
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-dir",
            metavar="DIR",
            help="Keep what each vertex has finished in DIR, which all workers see, until its job has ended.",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="JOB",
            help="Go on with what a failed or killed job has kept; by default with its script and arguments.",
        ),
    ] = None,
    real_pyflink: Annotated[
        bool,
        typer.Option("--real-pyflink", help="Import the PyFlink that is installed."),
    ] = False,
) -> None:
    """Run SCRIPT: its streaming jobs are planned as Flink plans them, and run on Spark over bounded input.

    In the script, pyflink.common and pyflink.datastream are Penstock's own. What the script prints goes to
    standard output, progress and a summary of each run to standard error.
    """
    from penstock.engine.commands.chosen_cluster import (
        begin_on_cluster,
        chosen_cluster,
        default_parallelism,
        on_cluster,
        with_slot_request_timeout,
    )

    if script is None:
        if resume is None:
            raise typer.BadParameter("Missing argument 'SCRIPT'.")
        from penstock.engine.commands.run.resume_run import run_again

        run_again(context, resume, checkpoint_dir)
        return
    configuration = given_configuration(config_dir, define)
    if to is not None:
        require_store(to)
    spark_options = given_settings(properties_file, conf)
    say_what_is_overridden(
        configuration, parallelism=parallelism, master=master, py_files=py_files, spark=spark_options
    )
    spark = {**configuration.spark, **spark_options}
    if deploy_mode is not None:
        spark[DEPLOY_MODE] = deploy_mode.value
    if spark.get(DEPLOY_MODE, DeployMode.CLIENT) == DeployMode.CLUSTER:
        from penstock.engine.commands.run.run_in_cluster import run_in_cluster

        cluster = chosen_cluster(master, session, spark, verbose=verbose)
        run_in_cluster(context, script, arguments or [], configuration, cluster, spark)
        return
    if detached:
        from penstock.engine.commands.run.run_in_cluster import run_detached

        run_detached(given_options(context, without=("detached",)), script, arguments or [])
        return
    cluster = chosen_cluster(master, session, spark, verbose=verbose)
    from penstock.engine.run.jobs.detached_driver import as_detached_driver

    detached_driver = as_detached_driver()  # before Spark begins, which looks at the environment
    if Path(script).is_file():
        begin_on_cluster(cluster, spark, configuration.cluster.slots)

    from penstock.engine.commands.run.resume_run import script_recovery
    from penstock.engine.library.jobs_of_script import with_python_files
    from penstock.engine.library.run_script import run_script
    from penstock.engine.planning.plan_options import plan_options
    from penstock.engine.pyflink.datastream.environment_settings import EnvironmentSettings
    from penstock.engine.run.commits.acknowledge_runs import runs_acknowledged_at_end
    from penstock.engine.run.jobs.submitted_script import submitted_script
    from penstock.engine.run.runtime.collect_records import collects_closed_at_end
    from penstock.engine.run.runtime.list_jobs_of_script import list_jobs_of_script
    from penstock.engine.run.runtime.recover_jobs import use_recovery
    from penstock.engine.run.runtime.start_job import jobs_end_with_script

    settings = EnvironmentSettings(
        parallelism=default_parallelism(parallelism, configuration, cluster),
        config=with_slot_request_timeout(with_python_files(configuration, py_files), slot_request_timeout),
        plan_options=plan_options(cluster=configuration.cluster),
    )

    submitted = submitted_script(script, arguments or [], given_options(context), to, cluster)
    with (
        _told_of_runs(to),
        on_cluster(cluster, spark, configuration.cluster.slots),
        use_recovery(script_recovery(checkpoint_dir, resume)),
        runs_acknowledged_at_end(),
        list_jobs_of_script(submitted, detached_driver),
        collects_closed_at_end(),
        jobs_end_with_script(),
    ):
        run_script(script, list(arguments or []), settings, real_pyflink=real_pyflink)


@contextmanager
def _told_of_runs(to: str | None) -> Iterator[None]:
    """Each run that ends inside the block is summed up on a terminal, and recorded in the store `to`."""
    from penstock.engine.run.runtime.job_result import JobResult
    from penstock.engine.run.runtime.record_run import write_run
    from penstock.engine.run.runtime.run_control import run_listeners

    def ended(result: JobResult) -> None:
        if sys.stderr.isatty():
            _show(result)
        if to is not None:
            number = write_run(to, result)
            say_beside_output(f"job '{result.name}': version {number} of {to}")

    run_listeners.append(ended)
    try:
        yield
    finally:
        run_listeners.remove(ended)


def _show(result: object) -> None:
    from penstock.engine.run.runtime.job_result import JobResult, summaries

    assert isinstance(result, JobResult)
    counts = ("subtasks", "records in", "records out", "attempts")
    rows = [
        (name, *(f"{summary[count.replace(' ', '_')]:,}" for count in counts))
        for name, summary in summaries(result)
    ]
    columns = (Column("vertex"), *(Column(count, justify="right") for count in counts))
    print_table_beside_output(columns, rows)
    seconds = result.milliseconds / 1000
    say_beside_output(f"job '{result.name}' {result.state.lower()} in {seconds:.1f} s")
