"""States of a job. Source: pyflink.common.job_status; org.apache.flink.api.common.JobStatus."""

from enum import Enum


class JobStatus(Enum):
    """The state a job is in."""

    CREATED = 0
    RUNNING = 1
    FAILING = 2
    FAILED = 3
    CANCELLING = 4
    CANCELED = 5
    FINISHED = 6
    RESTARTING = 7
    SUSPENDED = 8
    RECONCILING = 9

    def is_globally_terminal_state(self) -> bool:
        """Whether the job is over for good."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_terminal_state(self) -> bool:
        """Whether the job is over where it ran."""
        return self.is_globally_terminal_state() or self is JobStatus.SUSPENDED
