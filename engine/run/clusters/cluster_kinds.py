"""The kinds of clusters, in order: the first one that is active runs the job.

Source: org.apache.flink.client.cli.CliFrontend.validateAndGetActiveCommandLine, CustomCommandLine.isActive.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.engine.machine.run_owner import describe_owner
from penstock.engine.run.clusters.session_folder import Session, latest_session, live_session

SPARK_MASTER = "spark.master"


@dataclass(frozen=True)
class Asked:
    """What a command was told of the cluster: its options, and Spark's settings without those of files of
    Spark's own.
    """

    master: str | None = None
    session: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)


class ClusterAnswer(NamedTuple):
    """Whether a kind is active, and why or why not."""

    active: bool
    why: str


@dataclass(frozen=True)
class ClusterKind:
    """A kind of cluster: when it is active, and which master or session it means then."""

    name: str
    is_active: Callable[[Asked], ClusterAnswer]
    master: Callable[[Asked], str | None] = lambda asked: None
    session: Callable[[Asked], Session | None] = lambda asked: None


@dataclass(frozen=True)
class Cluster:
    """Where the jobs of a command run: on `session`, else on `master` (None: Spark's settings say it)."""

    kind: str
    why: str
    master: str | None
    session: Session | None
    refused: tuple[str, ...] = ()  #: of the kinds before this one, why they are not active


def _master_of_command(asked: Asked) -> ClusterAnswer:
    return _given("--master", asked.master)


def _session_of_command(asked: Asked) -> ClusterAnswer:
    return _given("--session", asked.session)


def _master_of_configuration(asked: Asked) -> ClusterAnswer:
    return _given(SPARK_MASTER, asked.conf.get(SPARK_MASTER))


def _recorded_session(asked: Asked) -> ClusterAnswer:
    latest = latest_session()
    if latest is None:
        return ClusterAnswer(False, "session start has recorded none")
    if latest.state != "alive":
        state = "has ended" if latest.state == "dead" else "is not of this machine"
        return ClusterAnswer(False, f"the server of {latest.name!r}, {describe_owner(latest.owner)}, {state}")
    return ClusterAnswer(True, f"session start has recorded {latest.name!r}")


def _local(asked: Asked) -> ClusterAnswer:
    return ClusterAnswer(True, "nothing else is asked for")


def _given(option: str, value: str | None) -> ClusterAnswer:
    return (
        ClusterAnswer(False, f"{option} is not given")
        if value is None
        else ClusterAnswer(True, f"{option} is {value}")
    )


CLUSTER_KINDS = (
    ClusterKind("master", _master_of_command, master=lambda asked: asked.master),
    ClusterKind("session", _session_of_command, session=lambda asked: live_session(asked.session or "")),
    ClusterKind(
        "configured master", _master_of_configuration, master=lambda asked: asked.conf.get(SPARK_MASTER)
    ),
    ClusterKind("recorded session", _recorded_session, session=lambda asked: latest_session()),
    ClusterKind("local", _local),
)


def choose_cluster(asked: Asked) -> Cluster:
    """The first kind that is active. Raises ConfigurationError for a session that was asked for in vain."""
    refused: list[str] = []
    for kind in CLUSTER_KINDS:
        answer = kind.is_active(asked)
        if answer.active:
            return Cluster(kind.name, answer.why, kind.master(asked), kind.session(asked), tuple(refused))
        refused.append(f"{kind.name}: no, {answer.why}")
    raise AssertionError("the last kind is always active")


def describe_choice(cluster: Cluster) -> list[str]:
    """Lines for `-v`: the kinds up to the one that was chosen, each with its reason."""
    where = cluster.master or "local"
    if cluster.session is not None:
        where = f"session {cluster.session.name!r} on {cluster.session.master}"
    return [*cluster.refused, f"{cluster.kind}: yes, {cluster.why}; jobs run on {where}"]
