"""The cluster that a command's jobs run on, out of its options."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.job_options import PARALLELISM
from penstock.engine.configuration.run_options import SLOT_REQUEST_TIMEOUT
from penstock.engine.output.say import say_beside_output
from penstock.engine.run.clusters.cluster_kinds import (
    SPARK_MASTER,
    Asked,
    Cluster,
    choose_cluster,
    describe_choice,
)
from penstock.engine.run.clusters.connect_to_session import connected_to
from penstock.engine.run.clusters.session_request import EXECUTOR_CORES
from penstock.plans.errors import ConfigurationError


def chosen_cluster(
    master: str | None, session: str | None, conf: Mapping[str, str], *, verbose: bool
) -> Cluster:
    """The first kind of cluster that is active; `verbose` says which and why.

    Raises ConfigurationError for a session that was asked for in vain.
    """
    cluster = choose_cluster(Asked(master, session, conf))
    if verbose:
        for line in describe_choice(cluster):
            say_beside_output(f"cluster: {line}")
    return cluster


def default_parallelism(
    parallelism: int | None, configuration: EffectiveConfiguration, cluster: Cluster
) -> int | None:
    """The parallelism of jobs that say none: that of the command, or in a session, its slots."""
    if parallelism is not None or cluster.session is None or PARALLELISM.key in configuration.settings:
        return parallelism
    return cluster.session.slots


def with_slot_request_timeout(options: dict[str, str], timeout: str | None) -> dict[str, str]:
    """`options` with the timeout of the command. ConfigurationError if that is no duration."""
    if timeout is None:
        return options
    try:
        SLOT_REQUEST_TIMEOUT.parse(timeout)
    except ValueError as error:
        raise ConfigurationError(
            f"--slot-request-timeout {timeout}: {error}", "as in 30 s or 5 min"
        ) from None
    return {**options, SLOT_REQUEST_TIMEOUT.key: timeout}


def begin_on_cluster(cluster: Cluster, conf: Mapping[str, str], slots_per_task_manager: int | None) -> None:
    """Spawn the JVM that the first job will need, if it is this process's own, while the script is read."""
    if cluster.session is None and (cluster.master or conf.get(SPARK_MASTER, "local")).startswith("local"):
        from penstock.engine.spark.session import begin_session

        begin_session(master=cluster.master, conf=_conf(conf, slots_per_task_manager))


@contextmanager
def on_cluster(
    cluster: Cluster, conf: Mapping[str, str], slots_per_task_manager: int | None = None
) -> Iterator[None]:
    """Jobs inside the block run on `cluster`, with Spark's settings `conf`.

    `slots_per_task_manager`, if configured, are the cores of an executor, where `conf` says nothing else.
    """
    from penstock.engine.run.runtime.run_environment import use_session_settings

    if cluster.session is None:
        with use_session_settings(cluster.master, _conf(conf, slots_per_task_manager)):
            yield
        return
    with connected_to(cluster.session, conf), use_session_settings(None, conf, cluster.session):
        yield


def _conf(conf: Mapping[str, str], slots_per_task_manager: int | None) -> dict[str, str]:
    cores = {} if slots_per_task_manager is None else {EXECUTOR_CORES: str(slots_per_task_manager)}
    return {**cores, **conf}
