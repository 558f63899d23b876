"""Submits a script in cluster mode by spark-submit, and repeats what that says."""

import os
import re
import subprocess

from penstock.engine.machine.temporary_folders import temporary_folder
from penstock.engine.output.redaction import redact
from penstock.engine.output.say import complain
from penstock.engine.run.cluster_mode.cluster_submission import ClusterScript, write_submission
from penstock.engine.run.clusters.cluster_kinds import Cluster
from penstock.engine.spark.find_java import require_java
from penstock.engine.spark.spark_conf import spark_conf_dir, spark_conf_dir_in_use
from penstock.engine.spark.spawn_jvm import spark_submit
from penstock.plans.errors import ConfigurationError, PenstockError

_APPLICATION = re.compile(r"\b(application_\d+_\d+)\b|\bsubmission ID (\S+)")
_STACK = re.compile(r"\s+(at [\w.$/<>]+\(.*\)|\.\.\. \d+ more)")
_FAILURE = 'Exception in thread "main" '


def submit_to_cluster(script: ClusterScript) -> str | None:
    """Submit `script`, and unless it is detached, wait until its application has ended; the id of that.

    Raises ConfigurationError and InputError for what cannot be submitted, PenstockError where spark-submit
    fails or the application does. None where spark-submit names no application.
    """
    folder = temporary_folder("submission")
    submission = write_submission(folder, script)
    require_java()
    application, reason, last = None, "", ""
    with subprocess.Popen(
        [spark_submit(), *submission.arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(),
    ) as process:
        assert process.stdout is not None
        for raw in process.stdout:
            line = raw.decode(errors="replace").rstrip()
            if not line or _STACK.fullmatch(line):
                continue
            if match := _APPLICATION.search(line):
                application = match[1] or match[2]
            if line.startswith(_FAILURE):
                reason = line.removeprefix(_FAILURE)
            last = line
            complain(line)
    if process.returncode:
        failed = f"application {application}" if application else "spark-submit"
        said = redact(f"cluster mode on {script.master}: {failed} has failed: {reason or last}")
        raise PenstockError(said, _hint(script.master, application))
    return application


def _hint(master: str, application: str | None) -> str:
    if application is None:
        return "can the cluster be reached from here?"
    if master == "yarn":
        return f"yarn logs -applicationId {application} shows what the driver has said"
    return f"kubectl logs {application.rpartition(':')[2]} shows what the driver has said"


def _environment() -> dict[str, str]:
    """The environment of spark-submit, with a log that names the application and its states."""
    log4j = (spark_conf_dir() / "submission.log4j2.properties").as_uri()
    options = [os.environ.get("SPARK_SUBMIT_OPTS", ""), f"-Dlog4j2.configurationFile={log4j}"]
    return {
        **os.environ,
        "SPARK_CONF_DIR": str(spark_conf_dir_in_use()),
        "SPARK_SUBMIT_OPTS": " ".join(filter(None, options)),
    }


# Where Spark has a cluster mode for Python: on YARN and Kubernetes.


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
