"""The cluster that a command's jobs run on, out of its options."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from penstock.engine.configuration.cluster_options import PARALLELISM
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.run_options import SLOT_REQUEST_TIMEOUT
from penstock.engine.output.pieces import Styled
from penstock.engine.output.print_line import print_beside_output
from penstock.engine.output.redaction import redact_value
from penstock.engine.run.clusters.session_folder import (
    SPARK_MASTER,
    Cluster,
    ClusterOptions,
    choose_cluster,
    describe_choice,
)
from penstock.engine.run.clusters.session_server import connected_to
from penstock.engine.run.clusters.start_session import EXECUTOR_CORES
from penstock.plans.errors import ConfigurationError
from penstock.plans.vocabulary import SlotSharingStrategy

# Options of a command beside settings of the configuration that say something else.


_NO_SETTINGS: Mapping[str, str] = {}


def print_overridden_settings(
    configuration: EffectiveConfiguration,
    *,
    slot_sharing: SlotSharingStrategy | None = None,
    slots_per_task_manager: int | None = None,
    task_manager_memory: str | None = None,
    parallelism: int | None = None,
    master: str | None = None,
    py_files: str | None = None,
    spark: Mapping[str, str] = _NO_SETTINGS,
) -> None:
    """Say for each option that differs from the configuration which of the two is used, and why.

    `spark`: properties that --properties-file and --conf set.
    """
    cluster = configuration.cluster
    pairs: list[tuple[str, Any, str, Any]] = [
        ("--slot-sharing", slot_sharing, "taskmanager.load-balance.mode", cluster.slot_sharing),
        ("--slots-per-task-manager", slots_per_task_manager, "taskmanager.numberOfTaskSlots", cluster.slots),
        (
            "--task-manager-memory",
            task_manager_memory,
            "taskmanager.memory.process.size",
            cluster.process_size,
        ),
        ("-p", parallelism, "parallelism.default", configuration.job_defaults.parallelism),
        ("--py-files", py_files, "python.files", configuration.scripts.get("python.files")),
        ("--master", master, "spark.master", configuration.spark.get("spark.master")),
        *(
            (f"--conf {key}", value, key, configuration.spark[key])
            for key, value in spark.items()
            if key in configuration.spark
        ),
    ]
    for option, of_command, key, configured in pairs:
        setting = configuration.settings.get(key)
        if of_command is None or setting is None or of_command == configured:
            continue
        shown = (redact_value(key, str(of_command)), redact_value(key, setting.text))
        said = f"{option} {shown[0]} is used, not {setting.key} {shown[1]} ({setting.place})"
        print_beside_output(Styled(f"{said}: options of a command win over the configuration", "dim"))


def chosen_cluster(
    master: str | None, session: str | None, conf: Mapping[str, str], *, verbose: bool
) -> Cluster:
    """The first kind of cluster that is active; `verbose` says which and why.

    Raises ConfigurationError for a session that was asked for in vain.
    """
    cluster = choose_cluster(ClusterOptions(master, session, conf))
    if verbose:
        for line in describe_choice(cluster):
            print_beside_output(f"cluster: {line}")
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
