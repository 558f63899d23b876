"""The state of a run while it lasts and its cancellation."""

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from penstock.engine.output.redaction import redact
from penstock.engine.run.runtime.job_monitor import JobMonitor, JobResult, now
from penstock.engine.run.runtime.recover_jobs import RecoveredJob
from penstock.engine.run.runtime.spark_application import cancel_group_and_future_jobs
from penstock.plans.errors import JobCancelledError

_FINAL_STATES = ("FINISHED", "CANCELED", "FAILED")


@dataclass
class RunControl:
    """The id and state of a run while it lasts, and whether its cancellation was requested."""

    job_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    cancel_requested: threading.Event = field(default_factory=threading.Event)
    submitted: threading.Event = field(default_factory=threading.Event)  #: it is with Spark's scheduler
    state: str = "CREATED"  #: JobStatus
    monitor: JobMonitor | None = None  #: while Spark runs it
    recovered: RecoveredJob | None = None  #: its saved data sets
    on_end: "list[Callable[[JobResult], None]]" = field(default_factory=list)
    spark: SparkSession | None = None  #: the session that it runs in, once it has begun

    def cancel(self) -> None:
        """Stop the run; it ends as CANCELED."""
        self.cancel_requested.set()
        if self.spark is not None:
            # jobs of the run that are not submitted to Spark yet must not start either
            cancel_group_and_future_jobs(self.spark, self.job_id, lambda: self.state in _FINAL_STATES)


def ended(control: RunControl, result: JobResult, error: BaseException | None = None) -> None:
    """Record the end of a run in its result, in `control`, and in the list of jobs (`on_end`)."""
    cancelled = isinstance(error, JobCancelledError | KeyboardInterrupt)
    result.state = "FINISHED" if error is None else "CANCELED" if cancelled else "FAILED"
    result.failure = None if error is None else redact(str(error))
    result.milliseconds = now() - result.started_at
    control.state = result.state
    for listener in control.on_end:
        listener(result)
