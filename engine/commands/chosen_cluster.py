"""Choose the cluster for a command's jobs from its options."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock.engine.configuration.cluster_options import PARALLELISM
from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.run_options import SLOT_REQUEST_TIMEOUT
from penstock.engine.output.pieces import StyledText
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

if TYPE_CHECKING:
    from penstock.engine.run.runtime.run_context import SessionSettings

# Options of a command that override settings of the configuration.


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
    """Print a message for each option that overrides a different value in the configuration.

    `spark` holds the properties that --properties-file and --conf set.
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
    for option, given, key, configured in pairs:
        setting = configuration.settings.get(key)
        if given is None or setting is None or given == configured:
            continue
        shown = (redact_value(key, str(given)), redact_value(key, setting.text))
        message = f"{option} {shown[0]} is used, not {setting.key} {shown[1]} ({setting.place})"
        print_beside_output(StyledText(f"{message}: options of a command override the configuration", "dim"))


def chosen_cluster(
    master: str | None, session: str | None, conf: Mapping[str, str], *, verbose: bool
) -> Cluster:
    """Return the first kind of cluster that is active; if `verbose`, print which and why.

    Raises ConfigurationError if the requested session cannot be used.
    """
    cluster = choose_cluster(ClusterOptions(master, session, conf))
    if verbose:
        for line in describe_choice(cluster):
            print_beside_output(f"cluster: {line}")
    return cluster


def default_parallelism(
    parallelism: int | None, configuration: EffectiveConfiguration, cluster: Cluster
) -> int | None:
    """Return the command's parallelism, or in a session its number of slots, for jobs that set none."""
    if parallelism is not None or cluster.session is None or PARALLELISM.key in configuration.settings:
        return parallelism
    return cluster.session.slots


def with_slot_request_timeout(options: dict[str, str], timeout: str | None) -> dict[str, str]:
    """Add the timeout of the command to `options`. Raises ConfigurationError if it is not a duration."""
    if timeout is None:
        return options
    try:
        SLOT_REQUEST_TIMEOUT.parse(timeout)
    except ValueError as error:
        raise ConfigurationError(
            f"--slot-request-timeout {timeout}: {error}", "give a duration such as 30 s or 5 min"
        ) from None
    return {**options, SLOT_REQUEST_TIMEOUT.key: timeout}


def begin_on_cluster(cluster: Cluster, conf: Mapping[str, str], slots_per_task_manager: int | None) -> None:
    """Start the JVM of the first job while the script is read, if the JVM belongs to this process."""
    if cluster.session is None and (cluster.master or conf.get(SPARK_MASTER, "local")).startswith("local"):
        from penstock.engine.spark.session import begin_session

        begin_session(master=cluster.master, conf=_conf(conf, slots_per_task_manager))


@contextmanager
def on_cluster(
    cluster: Cluster, conf: Mapping[str, str], slots_per_task_manager: int | None = None
) -> Iterator["SessionSettings"]:
    """Connect to the session of `cluster`, if it is one; yield the settings of jobs that run on `cluster`.

    `conf`: Spark's settings. `slots_per_task_manager`, if configured, is the number of cores of an executor
    unless `conf` sets it.
    """
    from penstock.engine.run.runtime.run_context import SessionSettings

    if cluster.session is None:
        yield SessionSettings(cluster.master, _conf(conf, slots_per_task_manager))
        return
    with connected_to(cluster.session, conf):
        yield SessionSettings(conf=conf, session=cluster.session)


def _conf(conf: Mapping[str, str], slots_per_task_manager: int | None) -> dict[str, str]:
    cores = {} if slots_per_task_manager is None else {EXECUTOR_CORES: str(slots_per_task_manager)}
    return {**cores, **conf}
