"""The server of a session, one Spark application that answers clients over Spark Connect, on loopback.

Like org.apache.spark.sql.connect.service.SparkConnectServer, it starts SparkConnectService on a context of
its own. It does so from Python, so that it starts and reports errors like every local Spark of Penstock,
knows its port, and counts the executors that have registered.
"""

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine.machine.folders import this_process
from penstock.engine.machine.operating_system import environment_as_before
from penstock.engine.machine.replace_file import replace_file
from penstock.engine.output.progress import Report
from penstock.engine.output.redaction import redact_value
from penstock.engine.run.clusters.session_folder import (
    Session,
    read_token,
    remove_session,
    write_registered,
    write_session,
)
from penstock.engine.run.clusters.session_plans import PlanRequest, PlansOfSession
from penstock.plans.errors import ConfigurationError, PenstockError
from penstock.plans.installation import install_command

if TYPE_CHECKING:
    from penstock.engine.planning.plan_result import PlanResult


_LOOPBACK = "127.0.0.1"
_TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"

_SETTINGS = {
    "spark.connect.grpc.binding.address": _LOOPBACK,
    "spark.connect.grpc.binding.port": "0",
    # executions of a killed client end soon; live clients attach again every few seconds
    "spark.connect.execute.reattachable.senderMaxStreamDuration": "5s",
    "spark.connect.execute.manager.detachedTimeout": "5s",
    "spark.connect.execute.manager.maintenanceInterval": "2s",
    # clients share files, which are named by their content
    "spark.sql.artifact.isolation.enabled": "false",
    # changes that a function makes to its process (modules, environment, paths, umask) must not reach the
    # next client: each task has its own worker, forked from a daemon that has run no function
    "spark.python.worker.reuse": "false",
    # a wide job leaves cores for later jobs
    "spark.scheduler.mode": "FAIR",
    # limit the results and stages of ended jobs that the server retains
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.connect.execute.manager.abandonedTombstonesSize": "100",
    "spark.cleaner.periodicGC.interval": "2min",
}
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_YOUNG_GENERATION = "-Xmn256m"
"""Java's default grows with each job up to a third of the heap, and never shrinks."""

_SECONDS_BETWEEN_LOOKS = 0.2


def serve(folder: Path, request: dict[str, Any]) -> None:
    """Start the session that `request` describes, and serve until its record is removed or Spark ends."""
    from pyspark import SparkContext

    from penstock.engine.spark.drop_dead_workers import drop_dead_workers
    from penstock.engine.spark.session import get_session
    from penstock.engine.spark.spark_conf import spark_conf_dir_in_use, spark_settings

    os.environ[_TOKEN_VARIABLE] = read_token(folder)
    java_options = {**spark_settings(spark_conf_dir_in_use()), **request["conf"]}.get(_JAVA_OPTIONS, "")
    # options of the user come later on Java's command line, and win
    conf = {**_SETTINGS, **request["conf"], _JAVA_OPTIONS: f"{_YOUNG_GENERATION} {java_options}".strip()}
    spark = get_session(master=request["master"], conf=conf, app_name=f"penstock session {request['name']}")
    context = spark.sparkContext
    service: Any = getattr(
        context._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"
    ).__getattr__("MODULE$")
    service.start(context._jsc.sc())
    session = Session(
        name=request["name"],
        master=str(context.master),
        slots=request["slots"],
        slots_per_task_manager=request["slots_per_task_manager"],
        task_manager_memory=request["task_manager_memory"],
        port=int(service.server().getPort()),
        driver_host=context.getConf().get("spark.driver.host") or "127.0.0.1",
        owner=this_process(),
        started_at=time.time_ns() // 1_000_000,
        spark_version=spark.version,
        python=os.environ["PYSPARK_PYTHON"],
        folder=folder,
    )
    seen = registered_slots(context)
    write_registered(folder, *seen)
    write_session(session)
    plans = PlansOfSession(folder, partial(plan_on, spark), context.cancelJobGroup)
    process = SparkContext._gateway.proc if SparkContext._gateway is not None else None
    while process is not None and process.poll() is None and (folder / "session.json").exists():
        plans.look()
        time.sleep(_SECONDS_BETWEEN_LOOKS)
        if session.is_local:
            drop_dead_workers(spark)
        elif (now := registered_slots(context)) != seen:
            write_registered(folder, *now)
            seen = now


def plan_on(spark: Any, name: str, asked: PlanRequest, report: Report) -> "PlanResult":
    """Make a plan that a client requests, with the client's settings; its Spark jobs are the group `name`."""
    from penstock.engine.planning.plan_on_spark import plan_on_spark
    from penstock.engine.spark.session import apply_settings

    spark.sparkContext.setJobGroup(name, "penstock plan", interruptOnCancel=True)
    report("start Spark")
    own = spark.newSession()
    apply_settings(own, None, asked.conf)
    return plan_on_spark(asked.source, asked.options, asked.out, report, spark=own, planner=asked.planner)


def registered_slots(context: Any) -> tuple[int, int]:
    """Return the numbers of TaskManagers (executors) and slots (cores) registered with a SparkContext."""
    if str(context.master).startswith("local"):
        return 1, int(context.defaultParallelism)
    backend = context._jsc.sc().schedulerBackend()
    return int(backend.totalRegisteredExecutors()), int(backend.totalCoreCount())


def main() -> None:
    """Run `python -m penstock.engine.run.clusters.session_server FOLDER`, with a JSON request on stdin."""
    folder = Path(sys.argv[1])
    request = json.load(sys.stdin)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        serve(folder, request)
    except PenstockError as error:
        with replace_file(folder / "failed") as file:
            file.write(json.dumps([error.message, error.hint, error.exit_code]).encode())
        sys.exit(error.exit_code)
    finally:
        from penstock.engine.spark.start_jvm import end_jvm

        end_jvm()
    remove_session(folder)


if __name__ == "__main__":
    main()


# The client of a session: a Spark session of this process, over Spark Connect.
#
# Spark Connect's client sends a token without TLS only to a host with the name `localhost`.


_VARIABLES = (_TOKEN_VARIABLE, "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
NO_SETTINGS: Mapping[str, str] = {}
_RETRIES, _FIRST_PAUSE_MILLISECONDS = 4, 50


_clients: list[Any] = []
"""A stack of the clients of nested blocks; the last one is current."""


def connected_session() -> Any:
    """Return the SparkSession of the current client; a new one if a script has stopped it."""
    if _clients[-1].is_stopped:
        _clients[-1] = _client(os.environ["SPARK_REMOTE"])
    return _clients[-1]


@contextmanager
def connected_to(session: Session, conf: Mapping[str, str] = NO_SETTINGS) -> Iterator[Any]:
    """Connect to `session` during the block, for PySpark's `getOrCreate` too; yield the SparkSession.

    `conf` is set in it. The client's state on the server is freed at the end of the block. Raises
    ConfigurationError if the extra is not installed, or if a setting is fixed in the session and differs.
    """
    require_connect()
    remote = f"sc://localhost:{session.port}"
    with environment_as_before(*_VARIABLES):
        os.environ.update(zip(_VARIABLES, (session.token, remote, "1"), strict=True))
        _clients.append(_client(remote))
        try:
            _apply(_clients[-1], session, conf)
            yield _clients[-1]
        finally:
            with suppress(Exception):  # a server that has ended has no state
                _clients.pop().stop()


def _client(remote: str) -> Any:
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    class Loopback(DefaultChannelBuilder):
        """Connects to the address that the server has bound, not to another address of `localhost`: a process
        of any user that listens there would get the token.
        """

        @property
        def endpoint(self) -> str:
            return f"{_LOOPBACK}:{self._port}"

    # two processes of this machine must not use a network proxy
    channel = Loopback(remote, [("grpc.enable_http_proxy", 0)])
    spark = SparkSession(channel, userId=str(os.getuid()))
    # Spark's own policy retries for ten minutes; a server on this machine answers immediately or has ended
    spark.client.set_retry_policies(
        [DefaultPolicy(max_retries=_RETRIES, initial_backoff=_FIRST_PAUSE_MILLISECONDS)]
    )
    SparkSession._set_default_and_active_session(spark)
    return spark


def _apply(spark: Any, session: Session, conf: Mapping[str, str]) -> None:
    """Set the settings that can be changed; raise ConfigurationError if a fixed one differs."""
    for key, value in conf.items():
        if key == "spark.master":
            continue
        if spark.conf.isModifiable(key):
            spark.conf.set(key, value)
        elif (current := spark.conf.get(key, None)) != value:
            raise ConfigurationError(
                f"{key} must be {redact_value(key, str(current))}, its value in session {session.name!r}, "
                f"which cannot be changed any more; got {redact_value(key, value)}",
                "set it with penstock session start",
            )


# The packages that Spark Connect needs.


_MODULES = ("grpc", "grpc_status", "google.rpc", "zstandard")
"""Modules of the packages grpcio, grpcio-status, googleapis-common-protos and zstandard."""


def require_connect() -> None:
    """Raise ConfigurationError that names the missing modules if the extra `session` is not installed."""
    missing = [name for name in _MODULES if not _is_installed(name)]
    if missing:
        raise ConfigurationError(
            f"sessions need Spark Connect: the modules {', '.join(missing)} are not installed",
            install_command("session"),
        )


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
