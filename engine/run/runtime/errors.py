"""What can go wrong between a job and its result."""

from penstock.plans.errors import PenstockError


class JobCancelledError(PenstockError):
    """A job was cancelled.

    Source: org.apache.flink.runtime.client.JobCancellationException.
    """

    exit_code = 130


class JobCompileError(PenstockError):
    """A job cannot be made to run: Flink refuses its graph, or what it asks for is not supported here."""

    exit_code = 3


class JobExecutionError(PenstockError):
    """A job failed while it ran.

    Source: org.apache.flink.runtime.client.JobExecutionException.
    """


class LostResultsError(JobExecutionError):
    """Results that had been read in part were lost with an executor, and their functions now give others."""
