"""The server of a session: one Spark application that answers clients over Spark Connect, on loopback.

As org.apache.spark.sql.connect.service.SparkConnectServer does, it starts SparkConnectService on a context of
its own; from Python, so that it starts and explains itself as every local Spark of Penstock does, knows its
port, and counts the executors that have registered.
"""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine.machine.replace_file import replace_file
from penstock.engine.machine.run_owner import this_process
from penstock.engine.output.progress import Report
from penstock.engine.run.clusters.session_folder import (
    Session,
    read_token,
    remove_session,
    write_registered,
    write_session,
)
from penstock.engine.run.clusters.session_plans import PlansOfSession
from penstock.plans.errors import PenstockError

if TYPE_CHECKING:
    from penstock.engine.planning.plan_into_store import Stored, WorkOnSpark

LOOPBACK = "127.0.0.1"
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"

_SETTINGS = {
    "spark.connect.grpc.binding.address": LOOPBACK,
    "spark.connect.grpc.binding.port": "0",
    # what a killed client has left running is to end soon: clients that live attach again every few seconds
    "spark.connect.execute.reattachable.senderMaxStreamDuration": "5s",
    "spark.connect.execute.manager.detachedTimeout": "5s",
    "spark.connect.execute.manager.maintenanceInterval": "2s",
    # of all clients: files are named by their content
    "spark.sql.artifact.isolation.enabled": "false",
    # what a function does to its process (modules, environment, paths, umask) is not for the next client:
    # each task has a worker of its own, forked from a daemon that has run no function
    "spark.python.worker.reuse": "false",
    # a wide job leaves cores for those that come after it
    "spark.scheduler.mode": "FAIR",
    # results and stages of jobs that have ended
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.connect.execute.manager.abandonedTombstonesSize": "100",
    "spark.cleaner.periodicGC.interval": "2min",
}
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_YOUNG_GENERATION = "-Xmn256m"
"""Java's own choice grows with each job up to a third of the heap, and is not given back."""

_SECONDS_BETWEEN_LOOKS = 0.2


def serve(folder: Path, request: dict[str, Any]) -> None:
    """Start the session that `request` describes, and serve until its record is removed or Spark ends."""
    from pyspark import SparkContext

    from penstock.engine.spark.drop_dead_workers import drop_dead_workers
    from penstock.engine.spark.session import get_session
    from penstock.engine.spark.spark_conf import spark_conf_dir_in_use, spark_settings

    os.environ[TOKEN_VARIABLE] = read_token(folder)
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


def plan_on(spark: Any, name: str, work: "WorkOnSpark", report: Report) -> "Stored":
    """Make a plan that a client asks for; its settings are its own, and its Spark jobs the group `name`."""
    from penstock.engine.planning.plan_into_store import plan_into_store_on_spark
    from penstock.engine.spark.session import apply_settings

    def session() -> Any:
        own = spark.newSession()
        apply_settings(own, None, work.conf)
        return own

    spark.sparkContext.setJobGroup(name, "penstock plan", interruptOnCancel=True)
    return plan_into_store_on_spark(work, session, report)


def registered_slots(context: Any) -> tuple[int, int]:
    """How many TaskManagers (executors) have registered with a SparkContext, and their slots (cores)."""
    if str(context.master).startswith("local"):
        return 1, int(context.defaultParallelism)
    backend = context._jsc.sc().schedulerBackend()
    return int(backend.totalRegisteredExecutors()), int(backend.totalCoreCount())


def main() -> None:
    """`python -m penstock.engine.run.clusters.session_server FOLDER`; the request is JSON on standard input."""
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
