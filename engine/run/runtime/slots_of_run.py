"""A run waits for the slots that its plan wants, and has them to itself while it lasts.

Source: org.apache.flink.runtime.jobmaster.slotpool.DeclarativeSlotPoolBridge.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.engine.configuration.run_options import SLOT_REQUEST_TIMEOUT
from penstock.engine.machine.run_owner import describe_owner, liveness
from penstock.engine.run.clusters.session_folder import Session, live_session
from penstock.engine.run.clusters.show_waiting import show_waiting
from penstock.engine.run.clusters.slot_request import SlotRequest, Supply, not_available, slot_request, ticket
from penstock.engine.run.runtime.errors import JobCancelledError, JobExecutionError
from penstock.engine.run.runtime.job import Job
from penstock.engine.run.runtime.run_environment import session_of_runs
from penstock.engine.run.runtime.spark_application import is_remote

_SECONDS_BETWEEN_LOOKS = 0.05


def _is_local(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).startswith("local")


@contextmanager
def slots_of_run(
    job: Job,
    spark: SparkSession,
    tables: Mapping[str, pa.Table],
    job_id: str,
    cancel_requested: threading.Event,
) -> Iterator[None]:
    """Inside the block `job` has its slots.

    In a session they are shared with other clients' jobs, first come, first served. On a cluster of its own
    the job starts once these have registered. A local Spark has no slots: it runs the subtasks of a job
    that is wider than it has cores one after the other. Over Spark Connect nothing is known of slots.
    Raises NoResourceAvailableError after
    slot.request.timeout, and JobCancelledError.
    """
    session = session_of_runs()
    if session is None and (spark is None or is_remote(spark) or _is_local(spark)):
        yield
        return
    names = dict(
        zip(
            tables["job_vertices"]["vertex"].to_pylist(),
            tables["job_vertices"]["name"].to_pylist(),
            strict=True,
        )
    )
    request = slot_request(job_id, job.name, tables, batch=job.batch, vertices=names)
    timeout_seconds = slot_request_timeout(job.config)
    if session is None:
        _wait(request, lambda: _look_at_cluster(spark, request), timeout_seconds, cancel_requested)
        yield
        return
    with ticket(session.folder, job_id, request.slots) as own:

        def look() -> tuple[bool, Supply, int]:
            live = live_session(session.name)
            total = live.registered()["slots"]
            place = own.ask(request.slots, total)
            return place.has_slots, _session_supply(live, total - place.taken), place.before

        _wait(request, look, timeout_seconds, cancel_requested)
        try:
            yield
        except JobExecutionError as error:
            if liveness(session.owner) == "dead":
                raise JobExecutionError(
                    f"job {job.name!r} failed: the server of session {session.name!r}, "
                    f"{describe_owner(session.owner)}, has ended",
                    f"its log is {session.folder / 'log'}",
                ) from error
            raise


def slot_request_timeout(config: Mapping[str, str]) -> float:
    """Seconds that a job waits for its slots."""
    text = config.get(SLOT_REQUEST_TIMEOUT.key)
    milliseconds = SLOT_REQUEST_TIMEOUT.default if text is None else SLOT_REQUEST_TIMEOUT.parse(text)
    return float(milliseconds) / 1000


def _wait(
    request: SlotRequest,
    look: Callable[[], tuple[bool, Supply, int]],
    timeout_seconds: float,
    cancel_requested: threading.Event,
) -> None:
    """Wait until `look` says that the slots are there; the time starts again when the queue moves."""
    since, shortest = time.monotonic(), None
    with show_waiting(request) as show:
        while True:
            has_slots, supply, before = look()
            if has_slots:
                return
            if shortest is not None and before < shortest:
                since = time.monotonic()
            shortest = before
            if time.monotonic() - since >= timeout_seconds:
                raise not_available(request, supply, timeout_seconds)
            show(supply, before)
            if cancel_requested.wait(_SECONDS_BETWEEN_LOOKS):
                raise JobCancelledError(f"job {request.job!r} was cancelled; nothing of it is committed")


def _session_supply(session: Session, free: int) -> Supply:
    registered = session.registered()
    return Supply(
        f"session {session.name!r}",
        session.slots // session.slots_per_task_manager,
        registered["task_managers"],
        registered["slots"],
        max(0, free),
    )


def _look_at_cluster(spark: SparkSession, request: SlotRequest) -> tuple[bool, Supply, int]:
    from penstock.engine.run.clusters.session_server import registered_slots

    context = spark.sparkContext
    managers, slots = registered_slots(context)
    conf = context.getConf()
    each = int(conf.get("spark.executor.cores") or 0)
    asked = int(conf.get("spark.cores.max") or request.slots)
    designated = -(-asked // each) if each else max(managers, 1)
    wanted = min(request.slots, asked)
    return slots >= wanted, Supply(f"the cluster {context.master}", designated, managers, slots, slots), 0
