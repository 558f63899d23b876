"""Errors of jobs that cannot run, were cancelled, or failed."""

from penstock.plans.errors import PenstockError


class JobCancelledError(PenstockError):
    """A job was cancelled.

    Source: org.apache.flink.runtime.client.JobCancellationException.
    """

    exit_code = 130


class JobCompileError(PenstockError):
    """A job cannot run, because Flink refuses its graph, or a feature that it uses is not supported here."""

    exit_code = 3


class JobExecutionError(PenstockError):
    """A job failed while it ran.

    Source: org.apache.flink.runtime.client.JobExecutionException.
    """


class LostResultsError(JobExecutionError):
    """Results that had been read in part were lost with an executor, and a second run produced other ones."""
