"""What can go wrong with a run up to the end of its commit."""

from penstock.plans.errors import PenstockError


class CommitError(PenstockError):
    """The sinks of a run are not, or not all, committed; the message says which, and what to do."""


class JobCancelledError(PenstockError):
    """A job was cancelled.

    Source: org.apache.flink.runtime.client.JobCancellationException.
    """

    exit_code = 130


class NeedsItsJobError(Exception):
    """A sink's class is the user's own, so only the job itself can finish its commit."""
