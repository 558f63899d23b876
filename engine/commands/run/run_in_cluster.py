"""`penstock run --deploy-mode cluster`: the driver runs on the cluster, too."""

from collections.abc import Mapping, Sequence

import typer

from penstock.engine.commands.given_options import given_options
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.output.say import complain, say
from penstock.engine.run.cluster_mode.cluster_submission import ClusterScript
from penstock.engine.run.cluster_mode.submit_to_cluster import require_cluster_mode, submit_to_cluster
from penstock.engine.run.clusters.cluster_kinds import Cluster
from penstock.engine.run.jobs.detached_driver import start_driver
from penstock.plans.errors import InputError

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


def run_in_cluster(
    context: typer.Context,
    script: str,
    arguments: Sequence[str],
    configuration: EffectiveConfiguration,
    cluster: Cluster,
    spark: Mapping[str, str],
) -> None:
    """Submit `script`, and print the id of the application once it is submitted, or has ended well."""
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
        say(application)


# `penstock run -d`: what the command says of the driver that it starts.


def run_detached(options: Sequence[str], script: str, arguments: Sequence[str]) -> None:
    """Start a driver for `script`, and print the id of its first job once that is submitted.

    Where the driver ends before, what it has said is repeated on standard error, and its exit code is that of
    this command. InputError where the script ends well without a job.
    """
    started = start_driver(options, script, arguments)
    if started.job_id is not None:
        say(started.job_id)
        return
    if started.said.strip():
        complain(started.said.rstrip())
    if started.exit_code:
        code = started.exit_code
        raise typer.Exit(code if code > 0 else 128 - code)
    raise InputError(f"{script} has run no job", "a detached script is one that calls execute()")
