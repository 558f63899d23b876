"""The settings that a new Spark gets beside its spark-defaults.conf."""

import secrets
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from penstock.engine.machine.available_memory import import_root, is_checkout
from penstock.engine.machine.state_folder import home_folder
from penstock.engine.machine.temporary_folders import temporary_folder
from penstock.engine.output.redaction import remember_secrets
from penstock.engine.spark.foresee_spark_memory import heap_mebibytes
from penstock.engine.spark.local_folders import is_local_folder_set
from penstock.engine.spark.penstock_wheel import archive_settings, write_wheel
from penstock.engine.spark.spark_conf import (
    offline_jars,
    spark_conf_dir,
    spark_conf_dir_in_use,
    spark_settings,
)
from penstock.engine.spark.submit_settings import JAVA_OPTIONS
from penstock.plans.errors import ConfigurationError

_DEPLOY_MODE = "spark.submit.deployMode"
_WITHOUT_PENSTOCK = ("yarn", "k8s://")
"""Masters whose machines need not have Penstock; workers of spark:// run what is installed there."""

_NO_HEARTBEATS = "spark.storage.blockManagerHeartbeatTimeoutMs"
"""Set for a local Spark, which is one process: a thread that waits for its heartbeats waits for itself.

Spark 4.2's thread that sends them ends with a NullPointerException (PartitionKeyedAccumulator) if it looks at
a task that is just starting, and two minutes later the only executor is removed: the job would never end.
"""

AUTHENTICATE = "spark.authenticate"
_SECRET = "spark.authenticate.secret"
_SECRET_BYTES = 32


def start_settings(master: str | None, settings: Mapping[str, str], app_name: str) -> dict[str, str]:
    """Settings of a session on `master` (None: as configured, else local[*]) with the user's `settings`.

    Raises ConfigurationError for Spark's cluster mode: the driver is this process.
    """
    conf_dir = spark_conf_dir_in_use()
    files = spark_settings(conf_dir)
    profile = files if spark_conf_dir() in conf_dir.parents else {}
    merged = {**profile, **settings, "spark.app.name": app_name}
    chosen = {**files, **settings}
    remember_secrets(chosen)
    if chosen.get(_DEPLOY_MODE, "client") != "client":
        raise ConfigurationError(
            f"{_DEPLOY_MODE}: found {chosen[_DEPLOY_MODE]}, allowed client: the driver is this process",
            "penstock run --deploy-mode cluster runs a script whose driver is on the cluster",
        )
    merged |= {key: chosen[key] for key in JAVA_OPTIONS if key in chosen}  # not by Spark: onto a command line
    merged["spark.master"] = master or chosen.get("spark.master", "local[*]")
    if jars := offline_jars():
        merged |= {"spark.jars": ",".join(map(str, jars)), "spark.jars.packages": ""}
    merged.setdefault("spark.jars.ivy", str(ivy_dir()))
    merged |= authentication(merged["spark.master"], chosen)
    remember_secrets({key: merged[key] for key in (_SECRET,) if key in merged})
    if merged["spark.master"].startswith(_WITHOUT_PENSTOCK):
        wheel = temporary_folder("wheel") / "penstock.zip"
        write_wheel(wheel)
        merged |= archive_settings(merged["spark.master"], chosen, wheel)
    if merged["spark.master"].startswith("local"):
        if "spark.driver.memory" not in chosen:
            merged["spark.driver.memory"] = f"{heap_mebibytes()}m"
        if not is_local_folder_set(chosen) and (folder := _private_local_folder()) is not None:
            merged["spark.local.dir"] = folder
        if _NO_HEARTBEATS not in chosen:
            merged[_NO_HEARTBEATS] = "7d"
        if "spark.driver.bindAddress" not in chosen and "spark.driver.host" not in chosen:
            merged |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
        if is_checkout():  # workers do not see the working directory
            merged["spark.executorEnv.PYTHONPATH"] = str(import_root())
    return merged


def authentication(master: str, chosen: Mapping[str, str]) -> dict[str, str]:
    """Settings by which Spark's processes on `master` answer only those that know the session's secret.

    Without them, Spark's driver obeys every user of the machine (StopExecutor). Spark makes the secret itself
    on local, YARN and Kubernetes; a local-cluster needs one given. Nothing is set where others would have to
    know the secret: on spark://, whose master and workers their owner configures, and on YARN with a shuffle
    service. The user's settings, `chosen`, win.
    Source: org.apache.spark.SecurityManager.initializeAuth.
    """
    if chosen.get(AUTHENTICATE, "true").strip().lower() != "true":
        return {}
    if master.startswith("local-cluster"):
        return {AUTHENTICATE: "true", _SECRET: chosen.get(_SECRET) or secrets.token_hex(_SECRET_BYTES)}
    has_service = chosen.get("spark.shuffle.service.enabled", "false").strip().lower() == "true"
    makes_secret = master.startswith(("local", "k8s://")) or (master == "yarn" and not has_service)
    return {AUTHENTICATE: "true"} if makes_secret else {}


@cache
def _private_local_folder() -> str | None:
    """Where Spark keeps shuffles, blocks and functions: for this user only, and gone when the process ends.

    None where it cannot be made: what is wrong is said of the folder that Spark takes then.
    """
    try:
        return str(temporary_folder("spark"))
    except OSError:
        return None


def ivy_dir() -> Path:
    """Where a session that Penstock starts keeps the jars it fetched: Spark's own default below HOME."""
    configured = spark_settings(spark_conf_dir_in_use()).get("spark.jars.ivy")
    return Path(configured) if configured else home_folder() / ".ivy2.5.2"
