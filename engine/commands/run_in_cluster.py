"""`penstock run --deploy-mode cluster`: the driver runs on the cluster, too."""

from collections.abc import Mapping, Sequence

import typer

from penstock.engine.cluster_mode.cluster_submission import ClusterScript
from penstock.engine.cluster_mode.require_cluster_mode import require_cluster_mode
from penstock.engine.cluster_mode.submit_to_cluster import submit_to_cluster
from penstock.engine.clusters.cluster_kinds import Cluster
from penstock.engine.commands.given_options import given_options
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.output.say import say

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
