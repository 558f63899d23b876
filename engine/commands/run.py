"""The command `penstock run`, which runs a PyFlink or Penstock script on Spark."""

import os
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Column

from penstock.engine.commands.chosen_cluster import print_overridden_settings
from penstock.engine.commands.key_values import (
    Conf,
    ConfigDir,
    Define,
    PropertiesFile,
    given_configuration,
    given_settings,
)
from penstock.engine.commands.reads_plan import require_store
from penstock.engine.commands.skip_typers_checks import given_options
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.output.people import print_table_beside_output
from penstock.engine.output.print_line import print_beside_output, print_error, print_line
from penstock.engine.output.redaction import REDACTED, redact
from penstock.engine.run.clusters.cluster_submission import (
    ClusterScript,
    require_cluster_mode,
    submit_to_cluster,
)
from penstock.engine.run.clusters.session_folder import Cluster
from penstock.engine.run.runtime.job_records import SubmittedJob, start_driver
from penstock.engine.run.runtime.kept_script import find_kept, new_script
from penstock.plans.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from penstock.engine.run.runtime.job_monitor import JobResult
    from penstock.engine.run.runtime.recover_jobs import ScriptRecovery


# `penstock run --deploy-mode cluster`: run the driver on the cluster too.


_OF_THE_CLIENT = (
    "master",
    "session",
    "deploy_mode",
    "detached",
    "config_dir",
    "define",
    "conf",
    "properties_file",
    "py_files",
)


def _run_in_cluster(
    context: typer.Context,
    script: str,
    arguments: Sequence[str],
    configuration: EffectiveConfiguration,
    cluster: Cluster,
    spark: Mapping[str, str],
) -> None:
    """Submit `script`, and print the application's id once it is submitted, or has finished successfully."""
    application = submit_to_cluster(
        ClusterScript(
            require_cluster_mode(cluster),
            script,
            arguments,
            given_options(context, without=_OF_THE_CLIENT),
            configuration,
            spark,
            context.params["py_files"],
            context.params["detached"],
        )
    )
    if application is not None:
        print_line(application)


# `penstock run -d`: start a driver, and report on it.


def _run_detached(options: Sequence[str], script: str, arguments: Sequence[str]) -> None:
    """Start a driver for `script`, and print the id of its first job once that is submitted.

    If the driver ends before that, repeat its output on standard error and exit with its exit code. Raises
    InputError if the script succeeds without a job.
    """
    started = start_driver(options, script, arguments)
    if started.job_id is not None:
        print_line(started.job_id)
        return
    if started.said.strip():
        print_error(started.said.rstrip())
    if started.exit_code:
        code = started.exit_code
        raise typer.Exit(code if code > 0 else 128 - code)
    raise InputError(f"{script} has run no job", "a detached script must call execute()")


# `penstock run --resume`: continue from the checkpoint of an earlier run.


def _script_recovery(checkpoint_dir: str | None, resume: str | None) -> "ScriptRecovery | None":
    """Return the checkpoint settings for jobs of a script; None if they neither save nor resume.

    This process claims the checkpoint. Raises InputError if there is nothing to resume, or another process
    uses it, and ConfigurationError if `checkpoint_dir` is not writable.
    """
    from penstock.engine.run.runtime.recover_jobs import ScriptRecovery

    if resume is not None:
        script, record = find_kept(resume, checkpoint_dir)
        script.claim()
        return ScriptRecovery(script, resume if record is None else record.job_id)
    return None if checkpoint_dir is None else ScriptRecovery(new_script(checkpoint_dir))


def _run_again(context: typer.Context, resume: str, checkpoint_dir: str | None) -> None:
    """Run the script of job `resume` again, in the same folder, with the same arguments and options.

    Options given now override them. Raises ConfigurationError if some were secrets, which are not saved.
    """
    _, record = find_kept(resume, checkpoint_dir)
    if record is None or record.submitted.script is None:
        raise ConfigurationError(
            f"job {resume} is not listed, so its script is unknown", "give the script and its arguments"
        )
    job = record.submitted
    if any(REDACTED in text for text in (*job.options, *job.arguments)):
        raise ConfigurationError(
            f"job {record.job_id} was given secrets, which are not saved",
            "give the script again, with its arguments and options",
        )
    if job.working_folder is not None:
        os.chdir(job.working_folder)
    options = [
        *(option for option in job.options if not option.startswith("--resume=")),
        *given_options(context),
    ]
    arguments = [*options, "--", str(job.script), *job.arguments]
    with context.command.make_context(context.info_name, arguments, parent=context.parent) as again:
        context.command.invoke(again)


# Facts that all jobs of a script share, as `penstock run` submits it.


_KINDS = (("spark://", "standalone"), ("yarn", "yarn"), ("k8s://", "kubernetes"))
_LOCAL = "local[*]"


def _submitted_script(
    script: str,
    arguments: Sequence[str],
    options: Sequence[str],
    store: str | None,
    cluster: Cluster,
) -> SubmittedJob:
    """Return a job with script, arguments, options without secrets, and cluster, but without id and name.

    `options` are the options of the command.
    """
    session = cluster.session
    url = (cluster.master if session is None else session.master) or _LOCAL
    kind = next((kind for start, kind in _KINDS if url.startswith(start)), "local")
    return SubmittedJob(
        job_id="",
        name="",
        script=script,
        arguments=tuple(map(redact, arguments)),
        options=tuple(map(redact, options)),
        working_folder=os.getcwd(),
        cluster_kind=kind if session is None else "session",
        master=redact(url),
        session=None if session is None else session.name,
        store=None if store is None else redact(store),
    )


DEPLOY_MODE = "spark.submit.deployMode"
CONTEXT_SETTINGS = {"allow_interspersed_args": False, "ignore_unknown_options": True}


class DeployMode(StrEnum):
    """Values of --deploy-mode, the place where the driver of a job runs."""

    CLIENT = "client"
    CLUSTER = "cluster"


def run_command(
    context: typer.Context,
    script: Annotated[
        str | None,
        typer.Argument(
            metavar="SCRIPT",
            help="A Python script that uses PyFlink's or Penstock's API; optional with --resume.",
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
            help="Run in this session; default: the session recorded by `session start`.",
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
            help="Longest wait of a job for its slots, such as 30s; default 5 min.",
        ),
    ] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Print which cluster runs the jobs, and why.")
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
            help="Print the id of the (first) job and return once it is submitted; it keeps running.",
        ),
    ] = False,
    checkpoint_dir: Annotated[
        str | None,
        typer.Option(
            "--checkpoint-dir",
            metavar="DIR",
            help="Save the results of finished vertices in DIR, which all workers see, until the job ends.",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="JOB",
            help="Resume a failed or killed job from its checkpoint; default: its script and arguments.",
        ),
    ] = None,
    real_pyflink: Annotated[
        bool,
        typer.Option("--real-pyflink", help="Import the installed PyFlink."),
    ] = False,
) -> None:
    """Run SCRIPT: its streaming jobs are planned as Flink plans them, and run on Spark over bounded input.

    In the script, pyflink.common and pyflink.datastream are Penstock's own. The script's output goes to
    standard output, progress and a summary of each run to standard error.

    Examples:
        penstock run word_count.py
        penstock run -p 4 --to plans word_count.py --input words.txt
        penstock run -d word_count.py
        penstock run --checkpoint-dir /data/kept word_count.py

    Exit codes:
        1: The script or a job failed.
        2: An option is wrong, or Spark cannot start.
        3: There is no such script.
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

        _run_again(context, resume, checkpoint_dir)
        return
    configuration = given_configuration(config_dir, define)
    if to is not None:
        require_store(to)
    spark_options = given_settings(properties_file, conf)
    print_overridden_settings(
        configuration, parallelism=parallelism, master=master, py_files=py_files, spark=spark_options
    )
    spark = {**configuration.spark, **spark_options}
    if deploy_mode is not None:
        spark[DEPLOY_MODE] = deploy_mode.value
    if spark.get(DEPLOY_MODE, DeployMode.CLIENT) == DeployMode.CLUSTER:
        cluster = chosen_cluster(master, session, spark, verbose=verbose)
        _run_in_cluster(context, script, arguments or [], configuration, cluster, spark)
        return
    if detached:
        _run_detached(given_options(context, without=("detached",)), script, arguments or [])
        return
    cluster = chosen_cluster(master, session, spark, verbose=verbose)
    from penstock.engine.run.runtime.job_records import as_detached_driver

    detached_driver = as_detached_driver()  # before Spark starts and reads the environment
    if Path(script).is_file():
        begin_on_cluster(cluster, spark, configuration.cluster.slots)

    from penstock.engine.library.run_script import run_script, with_python_files
    from penstock.engine.planning.plan_options import plan_options
    from penstock.engine.run.runtime.list_jobs_of_script import list_jobs_of_script, running_script
    from penstock.engine.run.runtime.run_context import EnvironmentSettings, RunContext

    settings = EnvironmentSettings(
        parallelism=default_parallelism(parallelism, configuration, cluster),
        config=with_slot_request_timeout(with_python_files(configuration, py_files), slot_request_timeout),
        plan_options=plan_options(cluster=configuration.cluster),
    )

    submitted = _submitted_script(script, arguments or [], given_options(context), to, cluster)
    with on_cluster(cluster, spark, configuration.cluster.slots) as session_settings:
        run_context = RunContext(
            settings=settings,
            spark=session_settings,
            recovery=_script_recovery(checkpoint_dir, resume),
            run_listeners=[partial(_report_run, to)],
        )
        with list_jobs_of_script(run_context, submitted, detached_driver), running_script(run_context):
            run_script(script, list(arguments or []), run_context, real_pyflink=real_pyflink)


def _report_run(to: str | None, result: "JobResult") -> None:
    """Print a summary of a run that has ended, and record it in the store `to`."""
    from penstock.engine.run.runtime.job_monitor import write_run

    if sys.stderr.isatty():
        _show(result)
    if to is not None:
        number = write_run(to, result)
        print_beside_output(f"job '{result.name}': version {number} of {to}")


def _show(result: "JobResult") -> None:
    from penstock.engine.run.runtime.job_monitor import summaries

    counts = ("subtasks", "records in", "records out", "attempts")
    rows = [
        (name, *(f"{summary[count.replace(' ', '_')]:,}" for count in counts))
        for name, summary in summaries(result)
    ]
    columns = (Column("vertex"), *(Column(count, justify="right") for count in counts))
    print_table_beside_output(columns, rows)
    seconds = result.milliseconds / 1000
    print_beside_output(f"job '{result.name}' {result.state.lower()} in {seconds:.1f} s")
