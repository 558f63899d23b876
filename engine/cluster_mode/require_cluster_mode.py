"""Where Spark has a cluster mode for Python: on YARN and Kubernetes."""

from penstock.engine.clusters.cluster_kinds import Cluster
from penstock.engine.output.redaction import redact
from penstock.plans.errors import ConfigurationError


def require_cluster_mode(cluster: Cluster) -> str:
    """The master on which the driver is to run. ConfigurationError where Spark cannot run it on a cluster.

    Source: org.apache.spark.deploy.SparkSubmit.prepareSubmitEnvironment.
    """
    if cluster.session is not None:
        raise ConfigurationError(
            f"deploy mode cluster: found session {cluster.session.name!r}; a session has its driver already",
            "leave out --deploy-mode, or give -m yarn or -m k8s://…",
        )
    master = cluster.master or "local"
    if master == "yarn" or master.startswith("k8s://"):
        return master
    if master.startswith("spark://"):
        raise ConfigurationError(
            f"deploy mode cluster: found {redact(master)}; Spark's standalone cluster mode takes no Python "
            "applications",
            "run the command on a machine of the cluster, detached if you like (-d), or start a session: "
            "penstock session start -m …",
        )
    raise ConfigurationError(
        f"deploy mode cluster: found master {redact(master)}, allowed yarn and k8s://…",
        "give -m yarn or -m k8s://…; a local Spark has no cluster",
    )
