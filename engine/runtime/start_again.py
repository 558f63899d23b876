"""A job that fails is started again, as its restart strategy says.

Source: org.apache.flink.runtime.executiongraph.failover.ExecutionFailureHandler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock.engine.commits.earlier_runs import say
from penstock.engine.runtime.errors import JobCancelledError, JobExecutionError
from penstock.engine.runtime.job_monitor import Attempt, JobMonitor, now
from penstock.engine.runtime.restart_backoff import Backoff

Result = TypeVar("Result")


class Control(Protocol):
    """What is read and set of a run while it lasts."""

    cancel_requested: threading.Event
    state: str
    monitor: JobMonitor | None


def start_again_after_failures(
    backoff: Backoff,
    control: Control,
    name: str,
    spark: SparkSession,
    start: Callable[[list[Attempt]], Result],
) -> Result:
    """What `start` gives, called with the attempts so far as often as `backoff` allows.

    Only failures while the job `name` runs are mended so: JobCompileError, and an end of Spark itself, are
    not. Raises what the last start raises, and JobCancelledError where the run is cancelled between two.
    """
    earlier: list[Attempt] = []
    restarts = 0
    while True:
        try:
            return start(earlier)
        except JobExecutionError as error:
            delay = backoff(now())
            if delay is None or not _is_running(spark):
                raise
            restarts += 1
            cause = error.message.splitlines()[0]
            say(f"{cause}; it starts again in {delay / 1000:g} s (restart {restarts})")
        control.state = "RESTARTING"
        if control.monitor is not None:
            earlier = control.monitor.snapshot()
        if control.cancel_requested.wait(delay / 1000):
            raise JobCancelledError(f"job {name!r} was cancelled; nothing of it is committed")


def _is_running(spark: SparkSession) -> bool:
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except AttributeError:  # a session of several clients, which has no context here
        return True
    except (Py4JError, OSError):
        return False
